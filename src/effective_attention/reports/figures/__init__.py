"""Figures from tables, ready for a paper: one function for each, from a tidy table (of one task or several) to a figure."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.io import whole_file
from effective_attention.reports.figures.alternative_attention import (
    alternative_attention,
    alternative_attention_heads,
    has_all_heads,
)
from effective_attention.reports.figures.attention_graph import attention_graph, attention_graph_maps
from effective_attention.reports.figures.delimiters import delimiters, delimiters_cls, delimiters_fitted, delimiters_sep
from effective_attention.reports.figures.dependency_alignment import (
    dependency_alignment,
    dependency_alignment_relations,
    has_alignment,
    has_relations,
)
from effective_attention.reports.figures.exemplars import exemplars, exemplars_effective, has_attention
from effective_attention.reports.figures.faithfulness import (
    faithfulness,
    faithfulness_layers,
    faithfulness_subject,
    has_subjects,
)
from effective_attention.reports.figures.finetuning_shift import finetuning_shift
from effective_attention.reports.figures.head_ablation import head_ablation
from effective_attention.reports.figures.heatmap import heatmap
from effective_attention.reports.figures.null_space import null_space
from effective_attention.reports.figures.patterns import patterns, patterns_layers
from effective_attention.reports.figures.pos_attention import (
    has_part,
    pos_attention,
    pos_attention_effective,
    pos_attention_from,
)
from effective_attention.reports.figures.pronouns import pronouns
from effective_attention.reports.figures.structure import (
    distance,
    distance_depth,
    entropy,
    entropy_relative,
    has_statistic,
    has_values,
    variability,
)
from effective_attention.reports.figures.style import style
from effective_attention.reports.figures.timing import timing
from effective_attention.reports.figures.token_identity import (
    has_experiment,
    has_training_rates,
    token_identity,
    token_identity_generalisation,
    token_identity_layers,
)
from effective_attention.reports.figures.token_identity_maps import (
    has_transfer,
    token_identity_neighbours,
    token_identity_transfer,
)
from effective_attention.reports.figures.token_mixing import (
    has_quantity,
    token_mixing,
    token_mixing_cls,
    token_mixing_context,
)
from effective_attention.reports.figures.token_mixing_words import has_tags, token_mixing_tags, token_mixing_word
from effective_attention.reports.figures.token_type_profile import (
    has_pairs,
    token_type_profile,
    token_type_profile_pairs,
)
from effective_attention.reports.figures.token_types import token_types, token_types_lift

DPI = 300

FIGURES: dict[str, Callable[[DataFrame], Figure]] = {
    "token_types": token_types,
    "token_types_lift": token_types_lift,
    "delimiters": delimiters,
    "delimiters_cls": delimiters_cls,
    "delimiters_sep": delimiters_sep,
    "delimiters_fitted": delimiters_fitted,
    "finetuning_shift": finetuning_shift,
    "patterns": patterns,
    "patterns_layers": patterns_layers,
    "null_space": null_space,
    "timing": timing,
    "heatmap": heatmap,
    "head_ablation": head_ablation,
    "attention_graph": attention_graph,
    "attention_graph_maps": attention_graph_maps,
    "pronouns": pronouns,
    "faithfulness": faithfulness,
    "faithfulness_layers": faithfulness_layers,
    "faithfulness_subject": faithfulness_subject,
    "alternative_attention": alternative_attention,
    "alternative_attention_heads": alternative_attention_heads,
    "token_type_profile": token_type_profile,
    "token_type_profile_pairs": token_type_profile_pairs,
    "token_identity": token_identity,
    "token_identity_transfer": token_identity_transfer,
    "token_identity_generalisation": token_identity_generalisation,
    "token_identity_layers": token_identity_layers,
    "token_identity_neighbours": token_identity_neighbours,
    "token_mixing": token_mixing,
    "token_mixing_context": token_mixing_context,
    "token_mixing_cls": token_mixing_cls,
    "token_mixing_word": token_mixing_word,
    "token_mixing_tags": token_mixing_tags,
    "distance": distance,
    "distance_depth": distance_depth,
    "entropy": entropy,
    "entropy_relative": entropy_relative,
    "variability": variability,
    "pos_attention": pos_attention,
    "pos_attention_effective": pos_attention_effective,
    "pos_attention_from": pos_attention_from,
    "dependency_alignment": dependency_alignment,
    "dependency_alignment_relations": dependency_alignment_relations,
    "exemplars": exemplars,
    "exemplars_effective": exemplars_effective,
}
"""By name. Every analysis has a figure of its name; some have more, whose names begin with it and an underscore."""

_CONDITIONS: dict[str, Callable[[DataFrame], bool]] = {
    "faithfulness_subject": has_subjects,
    "alternative_attention_heads": has_all_heads,
    "token_type_profile_pairs": has_pairs,
    "token_identity": partial(has_experiment, name="input"),
    "token_identity_transfer": has_transfer,
    "token_identity_generalisation": has_training_rates,
    "token_identity_layers": partial(has_experiment, name="previous"),
    "token_identity_neighbours": partial(has_experiment, name="neighbours"),
    "token_mixing": partial(has_quantity, name="own"),
    "token_mixing_context": partial(has_quantity, name="neighbour"),
    "token_mixing_cls": partial(has_quantity, name="cls"),
    "token_mixing_word": partial(has_quantity, name="word"),
    "token_mixing_tags": has_tags,
    "distance": has_values,
    "distance_depth": has_values,
    "entropy": partial(has_statistic, name="entropy"),
    "entropy_relative": partial(has_statistic, name="relative"),
    "variability": has_values,
    "pos_attention": partial(has_part, direction="to", attention="standard"),
    "pos_attention_effective": partial(has_part, direction="to", attention="effective"),
    "pos_attention_from": partial(has_part, direction="from", attention="standard"),
    "dependency_alignment": has_alignment,
    "dependency_alignment_relations": has_relations,
    "exemplars": partial(has_attention, attention="standard"),
    "exemplars_effective": partial(has_attention, attention="effective"),
}
"""What a table must hold for a figure; most need nothing but rows."""


def figures_of(analysis: str) -> list[str]:
    """The names of an analysis' figures, its own first.

    >>> figures_of("token_types")
    ['token_types', 'token_types_lift']
    """
    return [name for name in FIGURES if name == analysis or name.startswith(f"{analysis}_")]


def can_draw(name: str, table: DataFrame) -> bool:
    """Whether the table holds what the figure shows."""
    return len(table) > 0 and (name not in _CONDITIONS or _CONDITIONS[name](table))


def write_figures(folder: Path, tables: Mapping[str, DataFrame]) -> list[Path]:
    """All figures that the tables (by analysis) have rows for, into ``folder``; returns the PNG files."""
    written = []
    for analysis, table in tables.items():
        for name in (name for name in figures_of(analysis) if can_draw(name, table)):
            save_figure(FIGURES[name](table), folder / name)
            written.append(folder / f"{name}.png")
    return written


def save_figure(figure: Figure, path: Path) -> None:
    """``path`` with .png and .svg; the same figure always gives the same bytes."""
    for kind in ("png", "svg"):
        with whole_file(path.with_name(f"{path.name}.{kind}")) as file:
            file.write(figure_bytes(figure, kind, salt=path.name))


def figure_bytes(figure: Figure, kind: str, *, salt: str) -> bytes:
    """The figure as a PNG or SVG file. ``salt`` sets the ids inside an SVG, so that two on one page need not share any."""
    out = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with style(), rc_context({"svg.hashsalt": salt}):
        figure.savefig(out, format=kind, dpi=DPI, metadata=metadata)
    return out.getvalue()
