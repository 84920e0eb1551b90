"""Attention patterns: what the report says and shows of ``patterns``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pandas import DataFrame

from effective_attention.models.pattern_net import pattern_net_facts
from effective_attention.reports import report_tables
from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.figures.patterns import patterns, patterns_layers
from effective_attention.reports.grid import Grid, number


def confusion(_table: DataFrame) -> Grid:
    """Show how the classifier does on the maps held out from its training, whatever the run."""
    return report_tables.confusion(pattern_net_facts())


def classifier(_table: DataFrame) -> list[str]:
    """Say how good the classifier is, and how well people agree."""
    return [_classifier(pattern_net_facts())]


def _classifier(facts: Mapping[str, Any]) -> str:
    agreement = facts.get("agreement")
    if isinstance(agreement, Mapping):
        said = ", ".join(
            f"{name.replace('_', ' ')} {value:.3g}"
            for name, value in agreement.items()
            if isinstance(value, int | float)
        )
    else:
        said = number(agreement)
    return f"The classifier's macro-F1 on held-out maps is {facts['macro_f1']:.3f}; maps annotated twice agree: {said}."


CHAPTER = Chapter(
    analysis="patterns",
    title="Attention patterns",
    source="Table 2, Fig. 4",
    text="A small convolutional network sorts randomly chosen attention maps into five patterns.",
    paper_says=(
        "The paper finds fewer vertical and more block patterns in effective attention than in standard attention."
    ),
    figures=(
        Drawing("patterns", "Share of each pattern, standard beside effective (the paper's Fig. 4).", patterns),
        Drawing("patterns_layers", "The same by layer.", patterns_layers),
    ),
    tables=(report_tables.patterns, confusion),
    remarks=classifier,
)
