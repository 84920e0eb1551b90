"""Helpers that figures of identifiability share: lines over layers, panels that wrap, tokens as labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from effective_attention.reports.drawing.style import DOUBLE, SINGLE, grid, tidy_axes
from effective_attention.reports.reductions import token_label

EVEN: dict[str, Any] = {
    "linestyle": (0, (1, 2)),
    "linewidth": 0.8,
    "zorder": 1,
}  # what chance, or even attention, would give
PAPER: dict[str, Any] = {"color": "black", "marker": "x", "markersize": 4, "linestyle": "none", "zorder": 4}
CHOSEN = "#d55e00"
PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.3g} %")  # without digits that say nothing


def wrapped(count: int, *, height: float) -> tuple[Figure, list[Axes]]:
    """Make panels in rows of up to three (four are two and two), one alone a column wide; leave spare places empty."""
    across = 2 if count == 4 else min(count, 3)
    down = -(-count // across)
    figure, axes = grid(down, across, width=SINGLE if count == 1 else DOUBLE, height=height * down + 0.5, sharey=True)
    for spare in axes.flat[count:]:
        spare.set_axis_off()
    for place, axis in enumerate(axes.flat[:count]):
        axis.set_xlabel("layer" if place + across >= count else "")
    return figure, list(axes.flat[:count])


def layer_axis(axes: Axes, *, label: bool) -> None:
    """Label the x axis with whole layer numbers, counted from 0."""
    low, high = axes.dataLim.intervalx
    ticks = MaxNLocator(6, integer=True, min_n_ticks=1).tick_values(low, high)
    axes.set_xticks([tick for tick in ticks if low - 0.5 < tick < high + 0.5])  # there is no layer beyond the last
    if label:
        axes.set_xlabel("layer")
    tidy_axes(axes)


def legend_below(figure: Figure, handles: Sequence[Artist], labels: Sequence[str], *, most: int = 6) -> None:
    """Add one legend for all panels, in even rows under them."""
    rows = -(-len(labels) // most)
    figure.legend(
        list(handles),
        list(labels),
        loc="outside lower center",
        ncols=-(-len(labels) // rows),
        handlelength=2.2,
        columnspacing=1.2,
    )


def shared_legend(figure: Figure, axes: NDArray[Any] | Sequence[Axes], *, most: int = 6) -> None:
    """Add a legend of everything labelled in any of the panels, once."""
    every = axes.flat if isinstance(axes, np.ndarray) else axes
    found = {label: line for axis in every for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    legend_below(figure, list(found.values()), list(found), most=most)


def name_tokens(axes: Axes, names: Sequence[str], *, shift: float, most: int, chosen: int | None = None) -> None:
    """Write tokens under the axis; of a long text only some, but always the chosen one, in colour."""
    step = -(-len(names) // most)
    places = set(range(0, len(names), step))
    if chosen is not None:
        places = places - {chosen + near for near in range(1 - step, step) if near} | {chosen}
    ordered = sorted(places)
    axes.set_xticks([place + shift for place in ordered], [token_label(names[place], 14) for place in ordered])
    axes.tick_params(axis="x", length=0, labelsize=5.5, labelrotation=90, pad=1.5)
    if chosen is not None:
        axes.get_xticklabels()[ordered.index(chosen)].set(color=CHOSEN, fontweight="bold")
