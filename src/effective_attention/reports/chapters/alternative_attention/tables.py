"""Small tables of ``alternative_attention``: how far a map can go, and what the model says of the other map."""

from __future__ import annotations

from collections.abc import Mapping

from pandas import DataFrame

from effective_attention.reports.chapters.alternative_attention.reductions import (
    CHANGE_TITLES,
    distances,
    has_all_heads,
    of_head,
    quantity,
    shown_head,
)
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.reductions import by_layer, one_line, panels


def alternatives(table: DataFrame) -> Grid:
    """Return how far the shown head's attention can go, and how its output changes."""
    proved = len(quantity(table, "proved")) > 0
    rows = [[one_line(panel.title), *_shown(panel.table, proved=proved)] for panel in panels(table)]
    moved = ["largest step, mean over queries", "furthest, mean over queries", "furthest, most"]
    moved += ["bound, mean over queries", *(["proved, mean over queries"] if proved else [])]
    columns = ["task", "head", "dimensions of freedom", *moved, "alternative", "as much at random"]
    weights = ("weight moved, of 1 per token", len(moved))
    groups = [("", 3), weights, ("relative change of the head's output", 2)]
    return Grid("Another attention map with the same output.", columns, rows, groups, labels=2)


def _shown(table: DataFrame, *, proved: bool) -> list[str]:
    """Return the cells of one panel: the shown head, its freedom, its distances and its output."""
    place = shown_head(table)
    freedom = of_head(quantity(table, "freedom"), place)["value"]
    step = of_head(quantity(table, "distance", method="step"), place)["value"]
    furthest = of_head(distances(table), place)["value"]
    bound = of_head(quantity(table, "bound"), place)["value"]
    output = of_head(quantity(table, "output_change"), place).groupby("attention")["value"].mean()
    limits = [of_head(quantity(table, "proved"), place)["value"].mean()] if proved else []
    cells = [step.mean(), furthest.mean(), furthest.max(), bound.mean(), *limits, *_both(output)]
    front = [f"layer {place[0]}, head {place[1]}", number(freedom.mean(), 0)]
    return [*front, *(number(cell) for cell in cells)]


def alternative_logits(table: DataFrame) -> Grid:
    """Return what the other maps, put into the model, do to the logits and to the predicted class."""
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
    """Return the values of the alternative and of the control, None where there is none."""
    return [values.get(name) for name in ("alternative", "control")]


def alternative_layers(table: DataFrame) -> Grid:
    """Return how far attention can go by layer, mean over heads and tokens; no rows where only one head was asked."""
    found = distances(table)
    layers = sorted(int(layer) for layer in found["layer"].unique())
    rows = []
    for panel in panels(found) if has_all_heads(table) else ():
        means = by_layer(panel.table)
        rows.append([one_line(panel.title), "furthest found", *(number(means.get(layer)) for layer in layers)])
    caption = "Weight that can be moved with the same output, mean over heads and queries."
    return Grid(caption, ["task", "what", *(f"layer {layer}" for layer in layers)], rows, labels=2)
