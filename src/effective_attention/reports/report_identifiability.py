"""The report's small tables on identifiability, with what Brunner et al. (2020) print beside ours.

The paper's model has twelve layers; its numbers stand with the layer they belong to, counted from 1 as printed, because
ours may have another number of layers.
"""

from __future__ import annotations

from collections.abc import Mapping

from pandas import DataFrame

from effective_attention.reports.figures.alternative_attention import (
    CHANGE_TITLES,
    distances,
    has_all_heads,
    of_head,
    quantity,
    shown_head,
)
from effective_attention.reports.figures.token_identity import (
    DISTANCE_TITLES,
    MAP_TITLES,
    combinations,
    experiment,
    rates,
)
from effective_attention.reports.figures.token_mixing import own
from effective_attention.reports.figures.token_type_profile import TYPE_TITLES, types_of
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.papers.brunner2020 import (
    BRUNNER_LAYERS,
    BRUNNER_NOT_LARGEST,
    BRUNNER_OWN,
    BRUNNER_RANDOM,
    BRUNNER_RATES,
)
from effective_attention.reports.reductions import attentions, by_layer, one_line, panels


def alternatives(table: DataFrame) -> Grid:
    """The shown head: how far its attention can go, and what the model says of it."""
    rows = []
    for panel in panels(table):
        place = shown_head(panel.table)
        found = {name: of_head(quantity(panel.table, name), place) for name in ("freedom", "bound", "output_change")}
        distance = of_head(quantity(panel.table, "distance"), place)
        step = distance.loc[distance["method"] == "step", "value"]
        furthest = of_head(distances(panel.table), place)["value"]
        output = found["output_change"].groupby("attention")["value"].mean()
        cells = [step.mean(), furthest.mean(), furthest.max(), found["bound"]["value"].mean(), *_both(output)]
        front = [
            one_line(panel.title),
            f"layer {place[0]}, head {place[1]}",
            number(found["freedom"]["value"].mean(), 0),
        ]
        rows.append([*front, *(number(cell) for cell in cells)])
    columns = [
        "task",
        "head",
        "dimensions of freedom",
        "largest step, mean",
        "furthest, mean",
        "furthest, most",
        "bound, mean",
    ]
    columns += ["alternative", "as much at random"]
    groups = [("", 3), ("weight moved, of 1 per token", 4), ("relative change of the head's output", 2)]
    return Grid("Another attention map with the same output.", columns, rows, groups, labels=2)


def alternative_logits(table: DataFrame) -> Grid:
    """The check through the model: what the other maps do to the logits and to the predicted class."""
    rows = []
    for panel in panels(table):
        for scope, title in CHANGE_TITLES.items():
            changes = quantity(panel.table, "logit_change", scope=scope).groupby("attention")["value"].max()
            if len(changes):
                chances = quantity(panel.table, "probability", scope=scope).groupby("attention")["value"].mean()
                cells = [*_both(changes), chances.get("standard"), *_both(chances)]
                rows.append([one_line(panel.title), title, *(number(cell) for cell in cells)])
    columns = ["task", "what", "alternative", "as much at random", "its own", "alternative", "as much at random"]
    groups = [("", 2), ("largest logit difference", 2), ("probability of the predicted class", 3)]
    return Grid("The model with the other map in place of the head's own.", columns, rows, groups, labels=2)


def _both(values: Mapping[str, float]) -> list[float | None]:
    return [values.get(name) for name in ("alternative", "control")]


def alternative_layers(table: DataFrame) -> Grid:
    """How far, by layer: mean over heads and tokens; no rows where only one head was asked."""
    wanted = {"furthest found": distances(table)} if has_all_heads(table) else {}
    return _by_layer(wanted, "Weight that can be moved with the same output, mean over heads and tokens.")


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


def type_profile(table: DataFrame) -> Grid:
    """Average attention from all tokens to each type, mean over layers and heads, and what even attention would give."""
    rows = table[table["source"] == "all"]
    kinds, types = attentions(rows), types_of(rows, "target")
    lines = []
    for panel in panels(rows):
        cells = []
        for name in types:
            mine = panel.table[panel.table["target"] == name]
            cells += [number(mine.loc[mine["attention"] == kind, "value"].mean()) for kind in kinds]
            cells.append(number(mine["share"].mean()))
        lines.append([one_line(panel.title), *cells])
    groups = [("", 1), *((f"to {TYPE_TITLES[name]}", len(kinds) + 1) for name in types)]
    caption = "Average attention to each type of token, mean over layers and heads."
    return Grid(caption, ["task", *[*kinds, "even"] * len(types)], lines, groups)


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
