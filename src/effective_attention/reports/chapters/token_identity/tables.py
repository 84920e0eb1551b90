"""The report's small table on token identity, with what Brunner et al. (2020) print beside ours.

The paper's model has twelve layers; its numbers stand with the layer they belong to, counted from 1 as printed, because
ours may have another number of layers.
"""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapters.token_identity.reductions import (
    DISTANCE_TITLES,
    MAP_TITLES,
    combinations,
    experiment,
    of_pair,
    rates,
)
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.papers.brunner2020 import BRUNNER_RANDOM, BRUNNER_RATES, printed
from effective_attention.reports.reductions import one_line, panels


def identity_rates(table: DataFrame) -> Grid:
    """Make the table of Fig. 2a: rate on the test part, mean ± std over folds, with the paper's and random guesses."""
    tested = experiment(table, "input")
    layers = sorted(int(layer) for layer in tested["layer"].unique())
    rows = []
    for panel in panels(tested) if len(tested) else ():
        for name, distance in combinations(panel.table):
            mine = of_pair(panel.table, name, distance)
            for solver in mine["solver"].unique():
                found = rates(mine[mine["solver"] == solver])
                cells = [_plus_minus(found, layer) for layer in layers]
                label = f"{MAP_TITLES[name]}{', ridge' if solver == 'ridge' else ''}"
                front = [one_line(panel.title), label, DISTANCE_TITLES[distance]]
                rows.append([*front, *cells, printed(BRUNNER_RATES.get((panel.task, name, distance), {}))])
        chance = [number(float(panel.table["baseline"].mean()))] * len(layers)
        rows.append([one_line(panel.title), "random", NONE, *chance, number(BRUNNER_RANDOM.get(panel.task))])
    columns = ["task", "map", "distance", *(f"layer {layer}" for layer in layers), "paper, BERT-base"]
    caption = "Share of tokens identified from their hidden embedding, mean ± std over folds."
    return Grid(caption, columns, rows, paper=frozenset({len(columns) - 1}), labels=3)


def _plus_minus(found: DataFrame, layer: int) -> str:
    """Set a layer's rate and, where there are several folds, its standard deviation."""
    if layer not in found.index:
        return NONE
    value, spread = (float(found.loc[layer, name]) for name in ("value", "std"))
    return f"{value:.3f} ± {spread:.3f}" if spread == spread else f"{value:.3f}"
