"""The report's small table on token identity, with what Brunner et al. (2020) print beside ours.

The paper's model has twelve layers; its numbers stand with the layer they belong to, counted from 1 as printed, because
ours may have another number of layers.
"""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapters.token_identity.reductions import (
    DISTANCE_TITLES,
    MAP_TITLES,
    by_size,
    combinations,
    experiment,
    of_pair,
    of_size,
    rates,
)
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.papers.brunner2020 import BRUNNER_RANDOM, BRUNNER_RATES, BRUNNER_SIZES, printed
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


def size_rates(table: DataFrame) -> Grid:
    """Make the table of appendix B.2: rate on the test part by share of the training texts, and the paper's."""
    found = of_size(table)
    shares = sorted(found["share"].unique())
    rows = []
    for panel in panels(found) if len(found) else ():
        for layer, mine in panel.table.groupby("layer"):
            for name, distance in combinations(mine):
                line = by_size(of_pair(mine, name, distance))
                cells = [number(float(line["value"][share])) if share in line.index else NONE for share in shares]
                front = [one_line(panel.title), MAP_TITLES[name], DISTANCE_TITLES[distance], str(layer)]
                rows.append([*front, *cells, f"{line['tokens'].max():,.0f}"])
    if rows:
        printed_rates = [number(BRUNNER_SIZES.get(share)) for share in shares]
        rows.append(["paper, MRPC", "MLP", "L2", "11 of 12, from 1", *printed_rates, NONE])
    columns = ["task", "map", "distance", "layer", *(f"{100 * share:.3g} %" for share in shares), "tokens at most"]
    return Grid("Tokens identified on the test part, by share of the training texts.", columns, rows, labels=4)
