"""What ``alternative_attention`` found, in sentences."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapters.alternative_attention.reductions import (
    distances,
    of_head,
    quantity,
    shown_head,
)
from effective_attention.reports.findings import head_name, percent, said_of
from effective_attention.reports.grid import number
from effective_attention.reports.reductions import panels


def found_alternatives(table: DataFrame) -> list[str]:
    """Say how much of the shown head's attention can be moved, and what that does to the logits."""
    said = []
    for panel in panels(table):
        place = shown_head(panel.table)
        moved = of_head(distances(panel.table), place)["value"]
        if not moved.max() > 0:
            sentence = f"none of the attention of {head_name(*place)} can be exchanged: the text leaves no freedom."
            said.append(said_of(panel, table, sentence))
            continue
        sentence = f"{percent(moved.mean())} of a token's attention in {head_name(*place)} can be moved on average"
        said.append(said_of(panel, table, f"{sentence}, {percent(moved.max())} of one token's, with the same output."))
        logits = quantity(panel.table, "logit_change", scope="head").groupby("attention")["value"].max()
        if {"alternative", "control"} <= set(logits.index):
            numbers = f"{number(logits['alternative'])}; as much moved at random, by {number(logits['control'])}"
            said.append(said_of(panel, table, f"with the other map the logits change by at most {numbers}."))
    return said
