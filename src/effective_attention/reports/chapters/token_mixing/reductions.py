"""From the table of ``token_mixing`` to the numbers of boxes, in pandas alone.

A contribution is a share: those of all input tokens to one hidden embedding sum to 1. Layers are counted from 0, in the
paper from 1.
"""

from __future__ import annotations

from pandas import DataFrame

GROUPS = ("1", "2", "3", "4-5", "6-10", "11+")
BOX = {"whislo": "whisker_low", "q1": "quartile_1", "med": "median", "q3": "quartile_3", "whishi": "whisker_high"}
"""Matplotlib's names of a box's numbers, and ours."""


def has_quantity(table: DataFrame, name: str) -> bool:
    """Tell whether the quantity was measured."""
    return bool((table["quantity"] == name).any())


def has_tags(table: DataFrame) -> bool:
    """Tell whether own contributions were also split by part of speech."""
    return bool(len(own(table, tags=True)))


def own(table: DataFrame, *, tags: bool = False) -> DataFrame:
    """Return the contributions of a token's own input: over all tokens, or by part of speech."""
    rows = table[table["quantity"] == "own"].astype({"layer": int})
    tagged = rows["tag"].fillna("") != ""
    return rows[tagged if tags else ~tagged]


def boxes(rows: DataFrame, by: str) -> DataFrame:
    """Return the statistics of a box by layer or tag; several runs of one setting are averaged."""
    return rows.pivot_table(index=by, columns="statistic", values="value", aggfunc="mean")[list(BOX.values())]


def tag_order(rows: DataFrame) -> list[str]:
    """Return the parts of speech by the last layer's median, the highest first."""
    last = rows[(rows["layer"] == rows["layer"].max()) & (rows["statistic"] == "median")]
    return last.groupby("tag")["value"].mean().sort_values(ascending=False, kind="stable").index.tolist()
