"""Brunner et al.'s Fig. 2, 7 to 17, 38 and 39: how many tokens a map finds again from their hidden embedding, by layer.

Dotted: a random guess. Layers are counted from 0, in the paper from 1. Colours are maps everywhere but in the figures
of layers and of neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from pandas import DataFrame

from effective_attention.reports.chapters.token_identity.reductions import (
    DISTANCE_TITLES,
    MAP_TITLES,
    beside_ridge,
    by_size,
    combinations,
    experiment,
    of_pair,
    of_size,
    rates,
    trained,
)
from effective_attention.reports.drawing.layers import EVEN, PAPER, layer_axis, legend_below, shared_legend, wrapped
from effective_attention.reports.drawing.style import DOUBLE, MARKERS, grid, styled
from effective_attention.reports.papers.brunner2020 import BRUNNER_LAYERS, BRUNNER_RATES
from effective_attention.reports.reductions import by_layer, by_weights, one_line, panels

MAP_COLOURS = {"naive": "#e69f00", "linear": "#0072b2", "mlp": "#cc79a7"}
_RATE = "tokens identified"
_LOOKS: dict[str, dict[str, Any]] = {
    "cosine": {"linestyle": "-", "marker": "o", "markersize": 2.8},
    "l2": {"linestyle": (0, (4, 1.5)), "marker": "s", "markersize": 2.6},
}
_RIDGE: dict[str, Any] = {"linestyle": "none", "markersize": 4.6, "markerfacecolor": "none", "markeredgewidth": 0.8}


@styled
def token_identity(table: DataFrame) -> Figure:
    """Draw a panel per task: rate by layer of every map and distance, ± one standard deviation over folds.

    Rings: the closed form (ridge) of the linear map. Crosses: numbers the paper prints, where the model has as many
    layers.
    """
    shown = panels(experiment(table, "input"))
    figure, axes = wrapped(len(shown), height=2.1)
    for axis, panel in zip(axes, shown, strict=True):
        for name, distance in combinations(panel.table):
            _rate_line(axis, of_pair(panel.table, name, distance), name, distance)
        _chance(axis, panel.table)
        _printed(axis, panel.task, panel.table)
        axis.set_title(panel.title)
        axis.set_ylabel(_RATE if axis.get_subplotspec().is_first_col() else "")  # type: ignore[union-attr]
        axis.set_ylim(-0.03, 1.03)
        layer_axis(axis, label=False)
    shared_legend(figure, axes, most=3 if len(shown) == 1 else 5)
    return figure


def _rate_line(axes: Axes, rows: DataFrame, name: str, distance: str) -> None:
    """Draw the rates of one map and distance, with their spread and the closed form."""
    main, closed = beside_ridge(rows)
    found = rates(main)
    label = f"{MAP_TITLES[name]}, {DISTANCE_TITLES[distance]}"
    if found["std"].notna().all():
        low, high = found["value"] - found["std"], found["value"] + found["std"]
        axes.fill_between(found.index, low, high, color=MAP_COLOURS[name], alpha=0.2, linewidth=0)
    axes.plot(found.index, found["value"], color=MAP_COLOURS[name], linewidth=1, label=label, **_LOOKS[distance])
    if len(closed):
        values = rates(closed)["value"]
        look = _RIDGE | {"marker": _LOOKS[distance]["marker"], "color": MAP_COLOURS[name]}
        axes.plot(values.index, values, label=f"{label}, ridge", **look)


def _chance(axes: Axes, rows: DataFrame) -> None:
    axes.axhline(float(rows["baseline"].mean()), color="#555555", label="random", **EVEN)


def _printed(axes: Axes, task: str, rows: DataFrame) -> None:
    """Draw what the paper prints, which counts layers from 1, for a model as deep."""
    if int(rows["layer"].max()) + 1 != BRUNNER_LAYERS:
        return
    for name, distance in combinations(rows):
        line: Mapping[int, float] = BRUNNER_RATES.get((task, name, distance), {})
        look = PAPER | {"color": MAP_COLOURS[name]}
        label = f"{MAP_TITLES[name]}, {DISTANCE_TITLES[distance]}, paper"
        if line:
            axes.plot([layer - 1 for layer in line], list(line.values()), label=label, **look)


@styled
def token_identity_generalisation(table: DataFrame) -> Figure:
    """Draw trained maps on the texts they were trained on (dashed) and on others (solid), by task and distance."""
    shown = panels(trained(table[table["experiment"] == "input"]))
    distances = [name for name in DISTANCE_TITLES if name in set(table["distance"])]
    figure, axes = grid(len(shown), len(distances), width=DOUBLE, height=1.7 * len(shown) + 0.5, sharey="row")
    for line, panel in zip(axes, shown, strict=True):
        for axis, distance in zip(line, distances, strict=True):
            _train_and_test(axis, panel.table[panel.table["distance"] == distance])
            axis.set_title(DISTANCE_TITLES[distance] if axis in axes[0] else "")
            layer_axis(axis, label=axis in axes[-1])
        line[0].set_ylabel(f"{one_line(panel.title)}\n{_RATE}")
    shared_legend(figure, axes)
    return figure


def _train_and_test(axes: Axes, rows: DataFrame) -> None:
    for name, part in ((name, part) for name in MAP_TITLES for part in ("train", "test")):
        mine, _ = beside_ridge(rows[(rows["map"] == name) & (rows["part"] == part)])
        if len(mine):
            found = rates(mine)
            look = {"linestyle": (0, (4, 1.5)), "markerfacecolor": "white"} if part == "train" else {"linestyle": "-"}
            label = f"{MAP_TITLES[name]}, {part}"
            axes.plot(
                found.index, found["value"], color=MAP_COLOURS[name], marker="o", linewidth=1, label=label, **look
            )


@styled
def token_identity_layers(table: DataFrame) -> Figure:
    """Draw tokens found again across one layer, by task and distance; pretrained dashed, finetuned solid."""
    rows = experiment(table, "previous")
    shown = by_weights(rows)
    distances = [name for name in DISTANCE_TITLES if name in set(rows["distance"])]
    figure, axes = grid(len(shown), len(distances), width=DOUBLE, height=1.7 * len(shown) + 0.5, sharey="row")
    for line, (panel, weights) in zip(axes, shown, strict=True):
        for axis, distance in zip(line, distances, strict=True):
            _across_one_layer(axis, {name: mine[mine["distance"] == distance] for name, mine in weights.items()})
            axis.set_title(DISTANCE_TITLES[distance] if axis in axes[0] else "")
            layer_axis(axis, label=axis in axes[-1])
        line[0].set_ylabel(f"{one_line(panel.title)}\n{_RATE}")
    maps = [name for name in MAP_TITLES if name in set(rows["map"])]
    states = [name for name in ("pretrained", "finetuned") if any(name in weights for _, weights in shown)]
    _legend(figure, maps, states)
    return figure


def _legend(figure: Figure, maps: list[str], states: list[str]) -> None:
    """Explain the colours of maps and the dashes of weights below the panels."""
    handles = [Line2D([], [], color=MAP_COLOURS[name], marker="o", linestyle="none") for name in maps]
    handles += [Line2D([], [], color="#444444", **_weights_look(name)) for name in states]
    legend_below(figure, handles, [*(MAP_TITLES[name] for name in maps), *states])


def _across_one_layer(axes: Axes, weights: dict[str, DataFrame]) -> None:
    for state, rows in weights.items():
        for name in MAP_TITLES:
            mine = by_layer(beside_ridge(rows[rows["map"] == name])[0])
            axes.plot(
                mine.index, mine, color=MAP_COLOURS[name], linewidth=1, label=f"{name} {state}", **_weights_look(state)
            )


def _weights_look(state: str) -> dict[str, Any]:
    dashed = {"linestyle": (0, (4, 1.5)), "markerfacecolor": "white"}
    return {"marker": "o", "markersize": 2.8, **(dashed if state == "pretrained" else {"linestyle": "-"})}


@styled
def token_identity_transfer(table: DataFrame) -> Figure:
    """Draw each trained map and distance: a line per layer it was trained on, tested on all; dots: on its own."""
    rows = trained(experiment(table, "transfer"))
    layers = sorted(int(layer) for layer in rows["layer"].unique())
    steps = [place / max(1, len(layers) - 1) * 0.92 for place in range(len(layers))]
    colours = ListedColormap(colormaps["viridis"](steps))

    def draw(axes: Axes, mine: DataFrame) -> None:
        for place, layer in enumerate(layers):
            line = by_layer(beside_ridge(mine[mine["layer"] == layer])[0], "tested_layer")
            axes.plot(line.index, line, color=colours(place), linewidth=0.9)
            own = line[line.index == layer]
            axes.plot(own.index, own, "o", color=colours(place), markersize=2.8)

    figure, axes = _map_by_distance(rows, draw)
    _layer_bar(figure, axes, layers, colours)
    for axis in axes[-1]:
        axis.set_xlabel("tested on layer")
    return figure


def _layer_bar(figure: Figure, axes: NDArray[Any], layers: list[int], colours: ListedColormap) -> None:
    """Add a colour bar with one step for each layer."""
    scale = ScalarMappable(BoundaryNorm([place - 0.5 for place in range(len(layers) + 1)], len(layers)), colours)
    bar = figure.colorbar(scale, ax=list(axes.flat), pad=0.01, aspect=30, fraction=0.03)
    bar.set_ticks(list(range(len(layers))), labels=[str(layer) for layer in layers])
    bar.set_label("trained on layer")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


@styled
def token_identity_neighbours(table: DataFrame) -> Figure:
    """Draw each map and distance: neighbours before (blues) and after (reds) by layer, nearer ones darker."""
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
        _chance(axes, mine)

    figure, axes = _map_by_distance(rows, draw)
    shared_legend(figure, axes, most=7)
    return figure


@styled
def token_identity_size(table: DataFrame) -> Figure:
    """Draw the rate on the test part by tokens trained on: a panel for each task and layer, a line for each map."""
    shown = [
        (panel, int(layer), mine) for panel in panels(of_size(table)) for layer, mine in panel.table.groupby("layer")
    ]
    figure, axes = wrapped(len(shown), height=2.1)
    for axis, (panel, layer, rows) in zip(axes, shown, strict=True):
        for name, distance in combinations(rows):
            line = by_size(of_pair(rows, name, distance))
            label = f"{MAP_TITLES[name]}, {DISTANCE_TITLES[distance]}"
            axis.plot(line["tokens"], line["value"], color=MAP_COLOURS[name], label=label, **_LOOKS[distance])
        _chance(axis, rows)
        axis.set_title(f"{one_line(panel.title)}, layer {layer}")
        axis.set_ylabel(_RATE if axis.get_subplotspec().is_first_col() else "")  # type: ignore[union-attr]
        axis.set_xlabel("tokens trained on")
        axis.set_ylim(-0.03, 1.03)
    shared_legend(figure, axes, most=3 if len(shown) == 1 else 5)
    return figure


def _offset_title(offset: int) -> str:
    """Return what to call a neighbour, such as ``2 before``."""
    return f"{abs(offset)} {'before' if offset < 0 else 'after'}"


def _map_by_distance(rows: DataFrame, draw: Callable[[Axes, DataFrame], None]) -> tuple[Figure, NDArray[Any]]:
    """Draw maps side by side, distances below each other, one such block for each task."""
    maps = [name for name in MAP_TITLES if name in set(rows["map"])]
    lines = [
        (panel, name) for panel in panels(rows) for name in DISTANCE_TITLES if name in set(panel.table["distance"])
    ]
    figure, axes = grid(len(lines), len(maps), width=DOUBLE, height=1.45 * len(lines) + 0.5, sharey="row")
    for line, (panel, distance) in zip(axes, lines, strict=True):
        for axis, name in zip(line, maps, strict=True):
            draw(axis, of_pair(panel.table, name, distance))
            axis.set_title(MAP_TITLES[name] if axis in axes[0] else "")
            layer_axis(axis, label=axis in axes[-1])
        line[0].set_ylabel(f"{one_line(panel.title)}, {DISTANCE_TITLES[distance]}\n{_RATE}")
    return figure, axes
