"""Distance, entropy and variability of attention, layer by head beside the layers' averages (Vig & Belinkov 2019).

Rows of a heatmap are layers, and the averages stand on the same layers. One colour scale serves both attentions and all
runs, so that any two cells of a figure can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from pandas import DataFrame

from effective_attention.reports.drawing.layers import EVEN, layer_axis, legend_below
from effective_attention.reports.drawing.style import (
    COLOURS,
    DOUBLE,
    MARKERS,
    draw_cells,
    grid,
    number_cells,
    styled,
    tidy_axes,
)
from effective_attention.reports.reductions import attentions, by_layer, by_weights, layer_by_head, one_line, panels

SCALE = "BuPu"
_RULES: dict[str, dict[str, Any]] = {
    "even attention": {"linestyle": (0, (1, 2)), "color": "black"},
    "previous": {"linestyle": (0, (3, 3)), "color": "black"},
    "next": {
        "linestyle": (3, (3, 3)),
        "color": "#d55e00",
    },  # where it is as good as the previous word, each shows in the gaps
    "random": {"linestyle": (0, (1, 2)), "color": "black"},
}
_BEFORE = "#8c8c8c"


@dataclass(frozen=True)
class Quantity:
    """What the cells hold, in words; ``most`` ends the colour scale where the quantity has a natural end."""

    label: str
    most: float | None = None


DISTANCE = Quantity("mean distance (tokens)")
ENTROPY = Quantity("entropy (nats)")
RELATIVE = Quantity("entropy / largest possible", 1.0)
VARIABILITY = Quantity("variability")


def has_values(table: DataFrame) -> bool:
    """Whether anything counted: texts of special tokens alone may leave no pair."""
    return bool(table["value"].notna().any())


def has_statistic(table: DataFrame, *, name: str) -> bool:
    """Whether the table has values of this statistic."""
    return has_values(table[table["statistic"] == name])


def layered_heads(
    table: DataFrame, quantity: Quantity, references: Callable[[DataFrame], Mapping[str, float]] = lambda _: {}
) -> Figure:
    """A row per task or setting: a heatmap for each attention, then the averages of both by layer.

    Args:
        table: Columns ``attention``, ``layer``, ``head``, ``value``.
        quantity: How to name it.
        references: From a run's rows to what its values are to be compared with, by name.
    """
    shown, kinds = panels(table), attentions(table)
    heads = table[table["attention"].isin(kinds)]
    limits = {"vmin": min(0.0, float(heads["value"].min())), "vmax": quantity.most or float(heads["value"].max())}
    ratios = [1.0] * len(kinds) + [0.8]
    figure, axes = grid(len(shown), len(ratios), width=DOUBLE, height=1.45 * len(shown) + 1.0, width_ratios=ratios)
    for line, panel in zip(axes, shown, strict=True):
        for axis, kind in zip(line, kinds, strict=False):
            mesh = _cells(axis, panel.table[panel.table["attention"] == kind], limits, left=axis is line[0])
        _averages(line[-1], panel.table, kinds, references(panel.table))
        line[0].set_ylabel(f"{panel.title}\nlayer")
    _finish(figure, axes, mesh, quantity)
    return figure


def _cells(axes: Axes, rows: DataFrame, limits: dict[str, float], *, left: bool) -> QuadMesh:
    cells = layer_by_head(rows)
    mesh = draw_cells(axes, cells.to_numpy(float), cmap=SCALE, **limits)
    number_cells(axes, cells, y=left)
    return mesh


def _averages(axes: Axes, table: DataFrame, kinds: list[str], references: Mapping[str, float]) -> None:
    """Lines that go down the layers, at the height of the heatmap's rows; what they are compared with, upright."""
    for place, kind in enumerate(kinds):
        means = by_layer(table[table["attention"] == kind])
        rows = np.arange(len(means)) + 0.5  # the middle of the heatmap's cells
        axes.plot(means, rows, color=COLOURS[kind], marker=MARKERS[place], markersize=2.8, linewidth=1.1, label=kind)
    for name, value in references.items():
        if np.isfinite(value):
            axes.axvline(value, linewidth=0.9, zorder=1, label=name, **_RULES[name])
    axes.set_ylim(len(means), 0)
    axes.set_yticks(rows, [""] * len(rows))
    low, high = axes.get_xlim()
    axes.set_xlim(min(0.0, low), 1.04 * high)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    tidy_axes(axes)


def _finish(figure: Figure, axes: NDArray[Any], mesh: QuadMesh, quantity: Quantity) -> None:
    """Titles above, axes' names below, one range for all averages, one colour bar and one legend."""
    kinds = [line.get_label() for line in axes[0, -1].lines]
    for axis, title in zip(axes[0], [*kinds[: axes.shape[1] - 1], "mean over heads"], strict=True):
        axis.set_title(f"{title} attention" if title in COLOURS else title)
    right = quantity.most or max(axis.get_xlim()[1] for axis in axes[:, -1])
    for axis in axes[:, -1]:
        axis.set_xlim(right=right)
        axis.tick_params(labelbottom=axis is axes[-1, -1])
    for axis in axes[-1, :-1]:
        axis.set_xlabel("head")
    axes[-1, -1].set_xlabel(quantity.label)
    bar = figure.colorbar(
        mesh, ax=list(axes[:, :-1].flat), location="bottom", pad=0.02, aspect=40, fraction=0.05, shrink=0.7
    )
    bar.set_label(quantity.label)
    bar.locator = MaxNLocator(6)
    bar.outline.set_visible(False)
    legend_below(figure, axes[0, -1].lines, kinds)


def even(table: DataFrame) -> dict[str, float]:
    """What even attention would give on the same pairs."""
    return {"even attention": float(table["even"].mean())}


def _statistic(table: DataFrame, *, name: str, quantity: Quantity) -> Figure:
    return layered_heads(table[table["statistic"] == name], quantity)


def _depth(table: DataFrame) -> Figure:
    """A row per task: mean distance by layer, standard at the left, effective at the right; a dot is a head."""
    shown, kinds = by_weights(table), attentions(table)
    figure, axes = grid(len(shown), len(kinds), width=DOUBLE, height=1.6 * len(shown) + 0.5, sharey="row")
    for line, (panel, states) in zip(axes, shown, strict=True):
        for axis, kind in zip(line, kinds, strict=True):
            for place, (state, rows) in enumerate(sorted(states.items(), reverse=True)):  # pretrained first
                colour = _BEFORE if state == "pretrained" and len(states) > 1 else COLOURS[kind]
                _dots(axis, rows[rows["attention"] == kind], colour, MARKERS[place], (place - 0.5) * (len(states) - 1))
            axis.axhline(float(panel.table["even"].mean()), color="black", **EVEN)
            axis.set_title(f"{kind} attention" if axis in axes[0] else "")
            layer_axis(axis, label=axis in axes[-1])
        line[0].set_ylim(bottom=0)  # after all dots, which both panels' range must hold
        line[0].set_ylabel(f"{one_line(panel.title)}\nmean distance (tokens)")
    _legend(figure, kinds, {state for _, states in shown for state in states})
    return figure


def _dots(axes: Axes, rows: DataFrame, colour: str, marker: str, side: float) -> None:
    means = by_layer(rows)
    dots: dict[str, Any] = {"markersize": 2.2, "markeredgewidth": 0, "alpha": 0.45, "linestyle": "none", "zorder": 2}
    axes.plot(rows["layer"].astype(int) + 0.2 * side, rows["value"], marker, color=colour, **dots)
    axes.plot(means.index, means, color=colour, marker=marker, linewidth=1.2, markersize=3.2, zorder=3)


def _legend(figure: Figure, kinds: list[str], states: set[str]) -> None:
    dotted = Line2D([], [], color="black", **EVEN)
    if len(states) == 1:
        lines = [Line2D([], [], color=COLOURS[kind], marker="o", markersize=3.2) for kind in kinds]
        legend_below(figure, [*lines, dotted], [*(f"{kind}, layer mean" for kind in kinds), "even attention"])
        return
    before = Line2D([], [], color=_BEFORE, marker=MARKERS[0], markersize=3.2)
    after = [Line2D([], [], color=COLOURS[kind], marker=MARKERS[1], markersize=3.2) for kind in kinds]
    legend_below(
        figure, [before, *after, dotted], ["pretrained", *(f"finetuned, {kind}" for kind in kinds), "even attention"]
    )


distance = styled(partial(layered_heads, quantity=DISTANCE, references=even))
distance_depth = styled(_depth)
entropy = styled(partial(_statistic, name="entropy", quantity=ENTROPY))
entropy_relative = styled(partial(_statistic, name="relative", quantity=RELATIVE))
variability = styled(partial(layered_heads, quantity=VARIABILITY))
