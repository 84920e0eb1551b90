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
from effective_attention.reports.figures.token_type_profile import TYPE_TITLES, types_of
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.layer_tables import quantities_by_layer
from effective_attention.reports.reductions import attentions, one_line, panels


def projected(table: DataFrame) -> Grid:
    """The null space of T, values behind the output projection, beside that of the values; no rows where it was not read."""
    rows = []
    for panel in panels(table):
        mine = panel.table[(panel.table["reading"] == "projected") & panel.table["length"].isna()]
        if mine.empty:
            continue
        means = mine.groupby("quantity")["value"].mean()
        largest = mine.loc[mine["quantity"] == "effective_gap", "value"].max()
        cells = [number(means.get(name), 1) for name in ("projection_rank", "rank", "nullity")]
        cells += [number(means.get("null_mass")), number(means.get("effective_gap")), number(largest)]
        rows.append([one_line(panel.title), number(mine["count"].max(), 0), *cells])
    columns = [
        "task",
        "examples",
        "rank of H",
        "rank of T",
        "nullity of T",
        "null mass",
        "mean gap",
        "gap of the worst head",
    ]
    caption = (
        "The null space of T = V H beside that of the values V, mean over layers and heads; gap: how far effective attention by "
        "T is from that by V, relative to attention; rounding where a head's output projection H has full rank."
    )
    return Grid(caption, columns, rows)


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
    return quantities_by_layer(wanted, "Weight that can be moved with the same output, mean over heads and tokens.")


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
