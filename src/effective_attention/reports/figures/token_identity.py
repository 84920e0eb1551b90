"""Brunner et al.'s Fig. 2a, 7, 11-13, 38 and 39: how many tokens a map finds again from their hidden embedding, by layer.

The rate is the share of tokens whose mapped embedding is nearest to their own input among those of the same text.
Dotted: a random guess. Layers are counted from 0, in the paper from 1. Colours are maps everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pandas import DataFrame

from effective_attention.reports.drawing.layers import EVEN, PAPER, layer_axis, legend_below, shared_legend, wrapped
from effective_attention.reports.drawing.style import DOUBLE, grid, styled
from effective_attention.reports.papers.brunner2020 import BRUNNER_LAYERS, BRUNNER_RATES
from effective_attention.reports.reductions import by_layer, by_weights, one_line, panels

MAP_TITLES = {"naive": "naive", "linear": "linear", "mlp": "MLP"}
DISTANCE_TITLES = {"cosine": "cosine", "l2": "L2"}
MAP_COLOURS = {"naive": "#e69f00", "linear": "#0072b2", "mlp": "#cc79a7"}
RATE = "tokens identified"
_LOOKS: dict[str, dict[str, Any]] = {
    "cosine": {"linestyle": "-", "marker": "o", "markersize": 2.8},
    "l2": {"linestyle": (0, (4, 1.5)), "marker": "s", "markersize": 2.6},
}
_RIDGE: dict[str, Any] = {"linestyle": "none", "markersize": 4.6, "markerfacecolor": "none", "markeredgewidth": 0.8}


def experiment(table: DataFrame, name: str, part: str = "test") -> DataFrame:
    """The rows of one experiment, those on the test part unless asked otherwise."""
    return table[(table["experiment"] == name) & (table["part"] == part)]


def has_experiment(table: DataFrame, name: str) -> bool:
    return bool(len(experiment(table, name)))


def has_training_rates(table: DataFrame) -> bool:
    """Whether a trained map was also tested on what it was trained on."""
    return bool(len(trained(experiment(table, "input", "train"))))


def combinations(rows: DataFrame) -> list[tuple[str, str]]:
    """Pairs of map and distance the rows have, in the paper's order."""
    present = set(zip(rows["map"], rows["distance"], strict=True))
    return [(name, distance) for name in MAP_TITLES for distance in DISTANCE_TITLES if (name, distance) in present]


def rates(rows: DataFrame) -> DataFrame:
    """Mean, standard deviation over folds (missing for one fold) and random baseline, by layer; seeds are averaged first."""
    folds = rows[["value", "baseline"]].groupby([rows["layer"].astype(int), rows["fold"]]).mean()
    means = folds.groupby("layer").mean()
    return means.assign(std=folds["value"].groupby("layer").std())


def _only(rows: DataFrame, name: str, distance: str) -> DataFrame:
    return rows[(rows["map"] == name) & (rows["distance"] == distance)]


def beside_ridge(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """What is drawn as a line, and the closed form where it stands beside gradient training."""
    others = set(rows["solver"]) - {"ridge"}
    closed = (rows["solver"] == "ridge") & bool(others)
    return rows[~closed], rows[closed]


def trained(rows: DataFrame) -> DataFrame:
    """Without the naive map, which is no map."""
    return rows[rows["map"] != "naive"]


@styled
def token_identity(table: DataFrame) -> Figure:
    """A panel per task: rate by layer of every map and distance, ± one standard deviation over folds.

    Rings: the closed form (ridge) of the linear map. Crosses: numbers the paper prints, where the model has as many
        layers.
    """
    shown = panels(experiment(table, "input"))
    figure, axes = wrapped(len(shown), height=2.1)
    for axis, panel in zip(axes, shown, strict=True):
        for name, distance in combinations(panel.table):
            _rate_line(axis, _only(panel.table, name, distance), name, distance)
        _chance(axis, panel.table)
        _printed(axis, panel.task, panel.table)
        axis.set_title(panel.title)
        axis.set_ylabel(RATE if axis.get_subplotspec().is_first_col() else "")  # type: ignore[union-attr]
        axis.set_ylim(-0.03, 1.03)
        layer_axis(axis, label=False)
    shared_legend(figure, axes, most=3 if len(shown) == 1 else 5)
    return figure


def _rate_line(axes: Axes, rows: DataFrame, name: str, distance: str) -> None:
    drawn, closed = beside_ridge(rows)
    found, label = rates(drawn), f"{MAP_TITLES[name]}, {DISTANCE_TITLES[distance]}"
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
    """The paper counts layers from 1."""
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
    """A row per task, a column per distance: trained maps on the texts they were trained on (dashed) and on others (solid)."""
    shown = panels(trained(table[table["experiment"] == "input"]))
    distances = [name for name in DISTANCE_TITLES if name in set(table["distance"])]
    figure, axes = grid(len(shown), len(distances), width=DOUBLE, height=1.7 * len(shown) + 0.5, sharey="row")
    for line, panel in zip(axes, shown, strict=True):
        for axis, distance in zip(line, distances, strict=True):
            _train_and_test(axis, panel.table[panel.table["distance"] == distance])
            axis.set_title(DISTANCE_TITLES[distance] if axis in axes[0] else "")
            layer_axis(axis, label=axis in axes[-1])
        line[0].set_ylabel(f"{one_line(panel.title)}\n{RATE}")
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
    """A row per task, a column per distance: tokens found again across one layer; pretrained dashed, finetuned solid."""
    rows = experiment(table, "previous")
    shown, distances = by_weights(rows), [name for name in DISTANCE_TITLES if name in set(rows["distance"])]
    figure, axes = grid(len(shown), len(distances), width=DOUBLE, height=1.7 * len(shown) + 0.5, sharey="row")
    for line, (panel, weights) in zip(axes, shown, strict=True):
        for axis, distance in zip(line, distances, strict=True):
            _across_one_layer(axis, {name: mine[mine["distance"] == distance] for name, mine in weights.items()})
            axis.set_title(DISTANCE_TITLES[distance] if axis in axes[0] else "")
            layer_axis(axis, label=axis in axes[-1])
        line[0].set_ylabel(f"{one_line(panel.title)}\n{RATE}")
    maps = [name for name in MAP_TITLES if name in set(rows["map"])]
    handles = [Line2D([], [], color=MAP_COLOURS[name], marker="o", linestyle="none") for name in maps]
    states = [name for name in ("pretrained", "finetuned") if any(name in weights for _, weights in shown)]
    handles += [Line2D([], [], color="#444444", **_weights_look(name)) for name in states]
    legend_below(figure, handles, [*(MAP_TITLES[name] for name in maps), *states])
    return figure


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
