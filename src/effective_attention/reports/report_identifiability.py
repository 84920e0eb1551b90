"""The report's small tables on identifiability, with what Brunner et al. (2020) print beside ours.

The paper's model has twelve layers; its numbers stand with the layer they belong to, counted from 1 as printed, because
ours may have another number of layers.
"""

from __future__ import annotations

from collections.abc import Mapping

from pandas import DataFrame

from effective_attention.reports.figures.token_identity import (
    DISTANCE_TITLES,
    MAP_TITLES,
    combinations,
    experiment,
    rates,
)
from effective_attention.reports.figures.token_mixing import own
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.papers.brunner2020 import (
    BRUNNER_LAYERS,
    BRUNNER_NOT_LARGEST,
    BRUNNER_OWN,
    BRUNNER_RANDOM,
    BRUNNER_RATES,
)
from effective_attention.reports.reductions import by_layer, one_line, panels


def _by_layer(wanted: Mapping[str, DataFrame], caption: str, *, percent: bool = False) -> Grid:
    """A row for each task and quantity, a column for each layer."""
    layers = sorted({int(layer) for rows in wanted.values() for layer in rows["layer"].dropna().unique()})
    lines = []
    for name, rows in wanted.items():
        for panel in panels(rows) if len(rows) else ():
            means = by_layer(panel.table) * (100 if percent else 1)
            lines.append(
                [one_line(panel.title), name, *(number(means.get(layer), 1 if percent else 3) for layer in layers)]
            )
    return Grid(caption, ["task", "what", *(f"layer {layer}" for layer in layers)], lines, labels=2)


def identity_rates(table: DataFrame) -> Grid:
    """Fig. 2a in numbers: rate on the test part, mean ± std over folds, with the paper's and random guesses."""
    tested = experiment(table, "input")
    layers = sorted(int(layer) for layer in tested["layer"].unique())
    rows = []
    for panel in panels(tested) if len(tested) else ():
        for name, distance in combinations(panel.table):
            mine = panel.table[(panel.table["map"] == name) & (panel.table["distance"] == distance)]
            for solver in mine["solver"].unique():
                found = rates(mine[mine["solver"] == solver])
                cells = [_plus_minus(found, layer) for layer in layers]
                label = f"{MAP_TITLES[name]}{', ridge' if solver == 'ridge' else ''}"
                front = [one_line(panel.title), label, DISTANCE_TITLES[distance]]
                rows.append([*front, *cells, _printed(BRUNNER_RATES.get((panel.task, name, distance), {}))])
        chance = [number(float(panel.table["baseline"].mean()))] * len(layers)
        rows.append([one_line(panel.title), "random", NONE, *chance, number(BRUNNER_RANDOM.get(panel.task))])
    columns = ["task", "map", "distance", *(f"layer {layer}" for layer in layers), "paper, BERT-base"]
    caption = "Share of tokens identified from their hidden embedding, mean ± std over folds."
    return Grid(caption, columns, rows, paper=frozenset({len(columns) - 1}), labels=3)


def _plus_minus(found: DataFrame, layer: int) -> str:
    if layer not in found.index:
        return NONE
    value, spread = float(found.loc[layer, "value"]), float(found.loc[layer, "std"])
    return f"{value:.3f} ± {spread:.3f}" if spread == spread else f"{value:.3f}"


def _printed(line: Mapping[int, float], *, percent: bool = False) -> str:
    """Such as ``0.93 (layer 12 of 12)``; a dash where the paper only draws."""
    words = [f"{100 * value:.3g}" if percent else f"{value:.2f}" for value in line.values()]
    places = [f"{word} (layer {layer})" for word, layer in zip(words, line, strict=True)]
    return f"{', '.join(places)}; of {BRUNNER_LAYERS}" if places else NONE


def mixing(table: DataFrame) -> Grid:
    """Fig. 3 in numbers: median own contribution and tokens that are not their own largest contributor, in percent."""
    rows = own(table)
    wanted = {
        "median own contribution": rows[rows["statistic"] == "median"],
        "own not the largest": table[table["quantity"] == "not_largest"],
        "standard error of a contribution, relative": table[table["quantity"] == "error"],
    }
    plain = _by_layer(wanted, "Own contribution by layer, percent.", percent=True)
    paper = {"median own contribution": BRUNNER_OWN, "own not the largest": BRUNNER_NOT_LARGEST}
    mrpc = {one_line(panel.title) for panel in panels(table) if panel.task == "mrpc"}
    lines = [[*row, _printed(paper.get(row[1], {}) if row[0] in mrpc else {}, percent=True)] for row in plain.rows]
    columns = [*plain.columns, "paper, BERT-base"]
    return Grid(
        plain.caption, columns, sorted(lines, key=lambda row: row[0]), paper=frozenset({len(columns) - 1}), labels=2
    )
