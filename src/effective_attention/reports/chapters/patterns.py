"""Attention patterns: what the report says and shows of ``patterns``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.models.pattern_net import pattern_net_facts
from effective_attention.reports.chapter import Chapter, Drawing, Scalars
from effective_attention.reports.drawing.style import grid, styled, tidy_axes, width_for
from effective_attention.reports.findings import changes, percent, under_effective
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.papers.sun2021 import PATTERN_ORDER, TABLE_2
from effective_attention.reports.reductions import attentions, mean_where, one_line, panels
from effective_attention.reports.scalars import overall_means

_COLOURS = {  # Okabe & Ito, with the colour of the figures that are written on them
    "block": ("#0072b2", "white"),
    "diagonal": ("#e69f00", "black"),
    "vertical+diagonal": ("#f0e442", "black"),
    "heterogeneous": ("#d0d0d0", "black"),
    "vertical": ("#009e73", "black"),
}


# --- figures ---


@styled
def draw_patterns(table: DataFrame) -> Figure:
    """Draw stacked percentages, standard beside effective, one bar per task."""
    totals = table[table["layer"].isna()]
    kinds = attentions(totals)
    columns = panels(totals)
    figure, axes = grid(1, len(kinds), width=width_for(len(columns)), height=2.5, sharey=True)
    for axis, attention in zip(axes[0], kinds, strict=True):
        shares = [_percentages(panel.table[panel.table["attention"] == attention]) for panel in columns]
        _stack(axis, shares, [panel.title for panel in columns], figures=True)
        axis.set_title(f"{attention} attention")
    axes[0, 0].set_ylabel("maps (%)")
    _legend(figure, axes[0, 0])
    return figure


@styled
def draw_patterns_by_layer(table: DataFrame) -> Figure:
    """Draw stacked percentages with one bar per layer, one column of panels per task."""
    rows = table[table["layer"].notna()].astype({"layer": int})
    kinds = attentions(rows)
    columns = panels(rows)
    height = 1.35 * len(kinds) + 0.6
    figure, axes = grid(
        len(kinds), len(columns), width=width_for(len(columns)), height=height, sharey=True, sharex="col"
    )
    for line, attention in zip(axes, kinds, strict=True):
        for axis, panel in zip(line, columns, strict=True):
            _stack_layers(axis, panel.table[panel.table["attention"] == attention])
        line[0].set_ylabel(f"{attention}\nmaps (%)")
    for axis, panel in zip(axes[0], columns, strict=True):
        axis.set_title(panel.title)
    axes[-1, len(columns) // 2].set_xlabel("layer")
    _legend(figure, axes[0, 0])
    return figure


def _stack_layers(axes: Axes, table: DataFrame) -> None:
    """Draw one bar per layer; of many layers every second is numbered."""
    layers = sorted(table["layer"].unique())
    names = [str(layer) if len(layers) <= 6 or layer % 2 == 0 else "" for layer in layers]
    _stack(axes, [_percentages(table[table["layer"] == layer]) for layer in layers], names, figures=False)


def _percentages(table: DataFrame, column: str = "value") -> list[float]:
    """Return percent of maps in the paper's order of patterns; several runs of one setting are averaged."""
    means = table.groupby("pattern")[column].mean()
    return [100 * float(means.get(pattern, 0.0)) for pattern in PATTERN_ORDER]


def _stack(axes: Axes, bars: Sequence[Sequence[float]], names: Sequence[str], *, figures: bool) -> None:
    """Draw bars of percentages, one on top of the other; with ``figures`` the larger ones are numbered."""
    bottom = np.zeros(len(bars))
    for place, pattern in enumerate(PATTERN_ORDER):
        heights = np.array([shares[place] for shares in bars])
        colour, ink = _COLOURS[pattern]
        look: dict[str, Any] = {"color": colour, "edgecolor": "white", "linewidth": 0.5, "label": pattern}
        axes.bar(range(len(bars)), heights, 0.78, bottom=bottom, **look)
        for index, height in enumerate(heights):
            if figures and height >= 5:
                middle = bottom[index] + height / 2
                axes.text(index, middle, f"{height:.0f}", ha="center", va="center", fontsize=6, color=ink)
        bottom += heights
    axes.set_xticks(range(len(bars)), names)
    axes.set_xlim(-0.6, len(bars) - 0.4)
    axes.set_ylim(0, 100)
    tidy_axes(axes)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    across = 3 if figure.get_figwidth() < 4 else 5
    figure.legend(handles, labels, loc="outside lower center", ncols=across, handlelength=1.0, columnspacing=1.2)


# --- tables and remarks ---


def pattern_table(table: DataFrame) -> Grid:
    """Set the paper's Table 2: percent of maps, ours and the paper's side by side for each pattern."""
    rows = []
    for panel in panels(table[table["layer"].isna()]):
        for attention in attentions(panel.table):
            ours = _percentages(panel.table[panel.table["attention"] == attention])
            theirs = TABLE_2.get((panel.task, attention), (None,) * len(PATTERN_ORDER))
            cells = [number(value, 1) for pair in zip(ours, theirs, strict=True) for value in pair]
            rows.append([one_line(panel.title), attention, *cells])
    groups = [("", 2), *((pattern, 2) for pattern in PATTERN_ORDER)]
    columns = ["task", "attention", *["ours", "paper"] * len(PATTERN_ORDER)]
    paper = frozenset(range(3, 3 + 2 * len(PATTERN_ORDER), 2))
    return Grid("Attention patterns, percent of maps (the paper's Table 2).", columns, rows, groups, paper, labels=2)


def corrected_table(table: DataFrame) -> Grid:
    """Set the shares as the classifier finds them beside those without its errors, percent of maps."""
    rows = []
    for panel in panels(table[table["layer"].isna()]):
        for attention in attentions(panel.table):
            mine = panel.table[panel.table["attention"] == attention]
            pairs = zip(_percentages(mine), _percentages(mine, "corrected"), strict=True)
            cells = [number(value, 1) for pair in pairs for value in pair]
            rows.append([one_line(panel.title), attention, *cells])
    groups = [("", 2), *((pattern, 2) for pattern in PATTERN_ORDER)]
    columns = ["task", "attention", *["found", "corrected"] * len(PATTERN_ORDER)]
    caption = (
        "The same shares corrected for the classifier's errors: those under which what it found is most likely, given "
        "how it errs on the held-out maps (the next table). Tried on annotated maps, the correction brought in more "
        "noise than it took away error, 2 points: where the two differ by little, neither is to be trusted beyond that."
    )
    return Grid(caption, columns, rows, groups, labels=2)


def confusion_table(_table: DataFrame) -> Grid:
    """Show how the classifier does on the maps held out from its training, whatever the run."""
    facts = pattern_net_facts()
    classes = [str(name) for name in facts["patterns"]]
    rows = [[name, *(str(count) for count in line)] for name, line in zip(classes, facts["confusion"], strict=True)]
    caption = (
        f"The pattern classifier on the {facts['maps_held_out']} annotated maps held out from its training, which are "
        "the same whatever the run: rows are the annotation, columns the classifier."
    )
    return Grid(caption, ["annotated as", *classes], rows)


def classifier_remark(_table: DataFrame) -> list[str]:
    """Say how good the classifier is, and how well two annotations of the same maps agree."""
    facts = pattern_net_facts()
    said = f"The classifier's macro-F1 on held-out maps is {facts['macro_f1']:.3f}."
    twice = facts.get("agreement")
    if isinstance(twice, Mapping):
        alike = f"{percent(twice['share'])} got the same pattern again"
        said += f" Of {twice['maps']} maps annotated twice {alike} (Cohen's kappa {twice['cohen_kappa']:.2f})."
    return [said]


def found_patterns(table: DataFrame) -> list[str]:
    """Say of the patterns that the paper's headline is about how their share changes."""
    totals = table[table["layer"].isna()].assign(value=100 * table["value"])
    said = []
    for pattern in ("vertical", "vertical+diagonal", "block"):
        shares = changes(totals, partial(mean_where, pattern=pattern))
        said += under_effective(f"{pattern} maps are", shares, words=("fewer", "as many", "more"), digits=1, unit=" %")
    return said


def pattern_scalars(table: DataFrame) -> dict[str, float]:
    """Name the share of each pattern among the maps of all layers."""
    return overall_means("patterns", "pattern", table[table["layer"].isna()])


CHAPTER = Chapter(
    analysis="patterns",
    title="Attention patterns",
    source="Sun & Marasović 2021, Table 2, Fig. 4",
    question="Which shapes do attention maps have, and does effective attention change them?",
    text="A small convolutional network sorts randomly chosen attention maps into five patterns.",
    paper_says=(
        "Sun & Marasović find fewer vertical and more block patterns in effective attention than in standard attention."
    ),
    found=found_patterns,
    figures=(
        Drawing("patterns", "Share of each pattern, standard beside effective (the paper's Fig. 4).", draw_patterns),
        Drawing("patterns_layers", "The same by layer.", draw_patterns_by_layer),
    ),
    tables=(pattern_table, corrected_table, confusion_table),
    scalars=Scalars("attention patterns", "share of the maps", "patterns", pattern_scalars),
    remarks=classifier_remark,
)
