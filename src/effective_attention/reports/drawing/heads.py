"""One number a head: layer by head for each attention, beside the layers' averages (after Vig & Belinkov 2019).

A heatmap has its layers below each other, and the averages stand on the same layers. One colour scale serves both
attentions and all runs, so that any two cells of a figure can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from pandas import DataFrame

from effective_attention.reports.drawing.layers import legend_below
from effective_attention.reports.drawing.style import (
    COLOURS,
    DOUBLE,
    MARKERS,
    draw_cells,
    grid,
    number_cells,
    tidy_axes,
)
from effective_attention.reports.reductions import attentions, by_layer, layer_by_head, panels

SCALE = "BuPu"
_LAYER_HEIGHT = 0.065  # inches: a heatmap's layers are no lower
_RULES: dict[str, dict[str, Any]] = {
    "even attention": {"linestyle": (0, (1, 2)), "color": "black"},
    "previous": {"linestyle": (0, (3, 3)), "color": "black"},
    "next": {"linestyle": (3, (3, 3)), "color": "#d55e00"},  # where both are as good, each shows in the other's gaps
    "random": {"linestyle": (0, (1, 2)), "color": "black"},
}


@dataclass(frozen=True)
class Quantity:
    """The name of what the cells hold; ``most`` ends the colour scale where the quantity has a natural end."""

    label: str
    most: float | None = None


def layered_heads(
    table: DataFrame, quantity: Quantity, references: Callable[[DataFrame], Mapping[str, float]] = lambda _: {}
) -> Figure:
    """Draw a line of panels per task or setting: a heatmap for each attention, then the averages of both by layer.

    Args:
        table: Columns ``attention``, ``layer``, ``head``, ``value``.
        quantity: How to name it.
        references: From a run's rows to what its values are to be compared with, by name.
    """
    shown = panels(table)
    kinds = attentions(table)
    heads = table[table["attention"].isin(kinds)]
    limits = {"vmin": min(0.0, float(heads["value"].min())), "vmax": quantity.most or float(heads["value"].max())}
    ratios = [1.0] * len(kinds) + [0.8]
    height = panel_height(table, least=1.45) * len(shown) + 1.0
    figure, axes = grid(len(shown), len(ratios), width=DOUBLE, height=height, width_ratios=ratios)
    for line, panel in zip(axes, shown, strict=True):
        for axis, kind in zip(line, kinds, strict=False):
            mesh = _cells(axis, panel.table[panel.table["attention"] == kind], limits, left=axis is line[0])
        _averages(line[-1], panel.table, kinds, references(panel.table))
        line[0].set_ylabel(f"{panel.title}\nlayer")
    _finish(figure, axes, mesh, quantity)
    return figure


def panel_height(table: DataFrame, *, least: float) -> float:
    """Return a heatmap's height in inches: more where there are many layers, so that each can still be told apart."""
    return max(least, _LAYER_HEIGHT * table["layer"].nunique())


def _cells(axes: Axes, rows: DataFrame, limits: dict[str, float], *, left: bool) -> QuadMesh:
    """Draw a heatmap of the heads; layers are numbered only if it stands at the left."""
    cells = layer_by_head(rows)
    mesh = draw_cells(axes, cells.to_numpy(float), cmap=SCALE, **limits)
    number_cells(axes, cells, y=left)
    return mesh


def _averages(axes: Axes, table: DataFrame, kinds: list[str], references: Mapping[str, float]) -> None:
    """Draw lines down the layers, at the height of the heatmap's cells; what they are compared with, upright.

    A line is wider than the next, so that it can be seen below one that is the same.
    """
    for place, kind in enumerate(kinds):
        means = by_layer(table[table["attention"] == kind])
        heights = np.arange(len(means)) + 0.5  # the middle of the heatmap's cells
        below = len(kinds) - 1 - place
        look: dict[str, Any] = {"markersize": 2.4 + 1.8 * below, "linewidth": 0.9 + 1.5 * below}
        axes.plot(means, heights, color=COLOURS[kind], marker=MARKERS[place], label=kind, **look)
    for name, value in references.items():
        if np.isfinite(value):
            axes.axvline(value, linewidth=0.9, zorder=1, label=name, **_RULES[name])
    axes.set_ylim(len(means), 0)
    axes.set_yticks(heights, [""] * len(heights))
    low, high = axes.get_xlim()
    axes.set_xlim(min(0.0, low), 1.04 * high)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    tidy_axes(axes)


def _finish(figure: Figure, axes: NDArray[Any], mesh: QuadMesh, quantity: Quantity) -> None:
    """Add titles above, axes' names below, one range for all averages, one colour bar and one legend."""
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
