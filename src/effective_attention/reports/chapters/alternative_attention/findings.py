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

_MEET = 2e-6  # of weight: closer than that the two are one


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
        share = f"{percent(moved.mean())} of a token's attention in {head_name(*place)} can be moved"
        most = f"{percent(moved.max())} of one token's, with the same output."
        said.append(said_of(panel, table, f"{share} (mean over queries), {most}"))
        said += [said_of(panel, table, sentence) for sentence in _proved(panel.table, place)]
        logits = quantity(panel.table, "logit_change", scope="head").groupby("attention")["value"].max()
        if {"alternative", "control"} <= set(logits.index):
            numbers = f"{number(logits['alternative'])}; as much moved at random, by {number(logits['control'])}"
            said.append(said_of(panel, table, f"with the other map the logits change by at most {numbers}."))
    return said


def _proved(table: DataFrame, place: tuple[int, int]) -> list[str]:
    """Say for how many queries the furthest map is proved to be that; nothing where no proof was asked for."""
    limits = of_head(quantity(table, "proved"), place).groupby("query")["value"].max()
    if len(limits) == 0:
        return []
    found = of_head(distances(table), place).groupby("query")["value"].max().reindex(limits.index)
    sure = int((limits <= found + _MEET).sum())
    most = percent(limits.mean())
    return [f"for {sure} of {len(limits)} queries that is proved to be the most; no map moves more than {most} (mean)."]
