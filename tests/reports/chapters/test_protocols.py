"""The chapter on protocols: dots and intervals of the figure, and sure conclusions, against the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from effective_attention.reports.chapters.protocols.reductions import OPEN, SURE, SURE_NOT, ways
from effective_attention.reports.chapters.protocols.tables import conclusions
from effective_attention.reports.grid import NONE
from helpers.figures import FIGURES, Make, plots


def last_rows(table: pd.DataFrame, **where: Any) -> pd.DataFrame:
    rows = table[table["layer"] == table["layer"].max()]
    for name, value in where.items():
        rows = rows[rows[name] == value]
    return rows


def test_ways_are_all_protocols_with_ours_first_and_the_papers_last(make_tables: Make) -> None:
    found = list(ways(make_tables(layers=3)["protocols"]))
    assert [way.reference for way in found] == ["gradients"] * 16 + ["blank_out"] * 8
    assert {place: way.preset for place, way in enumerate(found) if way.preset} == {
        0: "ours", 15: "paper's code", 16: "ours", 23: "paper's code",
    }  # fmt: skip
    assert found[0].words == ["norm", "answer", "mean", "words"]
    assert found[23].words == ["max", "dense", "all"]


def test_dots_intervals_and_bands(make_tables: Make) -> None:
    table = make_tables(layers=3)["protocols"]
    axes = plots(FIGURES["protocols"](table))
    assert [axis.get_title() for axis in axes[:2]] == ["standard attention", "effective attention"]
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    assert labels[0] == "ours: norm · answer · mean · words"
    assert labels[-1] == "paper's code: sum · max · dense · all"
    mine = last_rows(table, attention="effective", reference="blank_out")
    mine = mine[mine["method"].isin(["raw", "rollout", "flow"])]
    lines = [line for line in axes[3].lines if len(line.get_xdata()) == 2 and line.get_linestyle() == "-"]
    spans = [tuple(line.get_xdata()) for line in lines]
    np.testing.assert_allclose(sorted(spans), sorted(zip(mine["low"], mine["high"], strict=True)))
    dots = [line.get_xdata()[0] for line in axes[3].lines if len(line.get_xdata()) == 1]
    np.testing.assert_allclose(sorted(dots), sorted(mine["value"]))
    assert [len(axis.patches) for axis in axes] == [2, 2, 2, 2]  # a band for each preset


def test_a_conclusion_is_sure_where_the_paired_interval_excludes_0(make_tables: Make) -> None:
    table = make_tables(layers=3)["protocols"]
    grid = conclusions(table)
    assert grid.columns[7:10] == ["rollout > raw", "flow > raw", "flow > rollout"]
    assert grid.groups == [("", 7), ("standard attention", 3), ("effective attention", 3)]
    assert grid.rows[0] == [
        "MRPC", "gradients", "norm", "answer", "mean", "words", "ours", *[SURE, OPEN, SURE_NOT] * 2,
    ]  # fmt: skip
    assert grid.rows[23][:7] == ["MRPC", "blank-out", NONE, "max", "dense", "all", "paper's code"]
    assert [row[6:10] for row in grid.rows[24:]] == [
        [SURE, "24 of 24", "0 of 24", "0 of 24"],
        [SURE_NOT, "0 of 24", "0 of 24", "24 of 24"],
        [OPEN, "0 of 24", "24 of 24", "0 of 24"],
    ]
    unknown = table.assign(low=table["low"].mask(table["method"] == "flow - raw"))
    assert {row[8] for row in conclusions(unknown).rows[:24]} == {NONE}


def test_of_several_runs_the_widest_interval_decides(make_tables: Make) -> None:
    first = make_tables(layers=3, checkpoint="one")["protocols"]
    second = first.assign(checkpoint="two", low=first["low"] - 1)
    grid = conclusions(pd.concat([first, second], ignore_index=True))
    assert len(grid.rows) == 24 + 3
    assert grid.rows[0][7] == OPEN
