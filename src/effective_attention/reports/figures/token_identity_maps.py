"""Brunner et al.'s Fig. 2b and 8-10, a map tested on other layers, and Fig. 14-17, neighbours found in a hidden embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pandas import DataFrame

from effective_attention.reports.drawing.layers import EVEN, layer_axis, shared_legend
from effective_attention.reports.drawing.style import DOUBLE, MARKERS, grid, styled
from effective_attention.reports.figures.token_identity import (
    DISTANCE_TITLES,
    MAP_TITLES,
    RATE,
    beside_ridge,
    experiment,
    trained,
)
from effective_attention.reports.reductions import by_layer, one_line, panels


def has_transfer(table: DataFrame) -> bool:
    """Whether a trained map was tested on other layers; the naive one belongs to none."""
    return bool(len(trained(experiment(table, "transfer"))))


@styled
def token_identity_transfer(table: DataFrame) -> Figure:
    """A panel for each trained map and distance: a line per layer it was trained on, tested on every layer; dots: on its own."""
    rows = trained(experiment(table, "transfer"))
    layers = sorted(int(layer) for layer in rows["layer"].unique())
    colours = ListedColormap(
        colormaps["viridis"]([place / max(1, len(layers) - 1) * 0.92 for place in range(len(layers))])
    )

    def draw(axes: Axes, mine: DataFrame) -> None:
        for place, layer in enumerate(layers):
            line = by_layer(beside_ridge(mine[mine["layer"] == layer])[0], "tested_layer")
            axes.plot(line.index, line, color=colours(place), linewidth=0.9)
            own = line[line.index == layer]
            axes.plot(own.index, own, "o", color=colours(place), markersize=2.8)

    figure, axes = _map_by_distance(rows, draw)
    scale = ScalarMappable(BoundaryNorm([place - 0.5 for place in range(len(layers) + 1)], len(layers)), colours)
    bar = figure.colorbar(scale, ax=list(axes.flat), pad=0.01, aspect=30, fraction=0.03)
    bar.set_ticks(list(range(len(layers))), labels=[str(layer) for layer in layers])
    bar.set_label("trained on layer")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    for axis in axes[-1]:
        axis.set_xlabel("tested on layer")
    return figure


@styled
def token_identity_neighbours(table: DataFrame) -> Figure:
    """A panel for each map and distance: neighbours before (blues) and after (reds) by layer, nearer ones darker."""
    rows = experiment(table, "neighbours")
    offsets = sorted((int(offset) for offset in rows["offset"].unique()), key=lambda offset: (offset > 0, abs(offset)))
    furthest = max(abs(offset) for offset in offsets)

    def draw(axes: Axes, mine: DataFrame) -> None:
        for offset in offsets:
            line = by_layer(beside_ridge(mine[mine["offset"] == offset])[0])
            depth = 0.95 - 0.5 * (abs(offset) - 1) / max(1, furthest - 1)
            look: dict[str, Any] = {
                "color": colormaps["Blues" if offset < 0 else "Reds"](depth),
                "marker": MARKERS[(abs(offset) - 1) % len(MARKERS)],
                "linestyle": (0, (4, 1.5)) if offset > 0 else "-",
            }
            axes.plot(line.index, line, linewidth=1, markersize=2.5, label=_offset_title(offset), **look)
        axes.axhline(float(mine["baseline"].mean()), color="#555555", label="random", **EVEN)

    figure, axes = _map_by_distance(rows, draw)
    shared_legend(figure, axes, most=7)
    return figure


def _offset_title(offset: int) -> str:
    """Such as ``2 before``."""
    return f"{abs(offset)} {'before' if offset < 0 else 'after'}"


def _map_by_distance(rows: DataFrame, draw: Callable[[Axes, DataFrame], None]) -> tuple[Figure, NDArray[Any]]:
    """Maps side by side, distances below each other, one such block for each task."""
    maps = [name for name in MAP_TITLES if name in set(rows["map"])]
    lines = [
        (panel, name) for panel in panels(rows) for name in DISTANCE_TITLES if name in set(panel.table["distance"])
    ]
    figure, axes = grid(len(lines), len(maps), width=DOUBLE, height=1.45 * len(lines) + 0.5, sharey="row")
    for line, (panel, distance) in zip(axes, lines, strict=True):
        for axis, name in zip(line, maps, strict=True):
            draw(axis, panel.table[(panel.table["map"] == name) & (panel.table["distance"] == distance)])
            axis.set_title(MAP_TITLES[name] if axis in axes[0] else "")
            layer_axis(axis, label=axis in axes[-1])
        line[0].set_ylabel(f"{one_line(panel.title)}, {DISTANCE_TITLES[distance]}\n{RATE}")
    return figure, axes
