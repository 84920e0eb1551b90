"""The chapter on a masked pronoun: figure and tables, against the table they sum up."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from effective_attention.reports.chapters.pronouns import candidates, referent_shares, referents
from effective_attention.reports.measured import measured
from helpers.figures import FIGURES, Make, plots


def test_shares_of_referents_by_hand() -> None:
    table = pd.DataFrame({"attention": "standard", "method": "raw", "layer": [0, 0, 1, 1], "name": ["a", "b"] * 2})
    shares = referent_shares(table.assign(quantity="attention", value=[0.1, 0.3, 0.0, 0.0]))
    np.testing.assert_allclose(shares["share"], [0.25, 0.75, np.nan, np.nan])


def test_candidates_at_the_left_and_shares_by_layer_at_the_right(make_tables: Make) -> None:
    table = make_tables(layers=3)["pronouns"]
    figure = FIGURES["pronouns"](table)
    axes = plots(figure)
    assert [bar.get_width() for bar in axes[0].containers[0]] == pytest.approx([0.25, 0.75])
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["his", "her"]
    assert [axis.get_title() for axis in axes[1:4]] == ["raw", "rollout", "flow"]
    shares = referent_shares(table)
    for axis, (kind, method) in zip(
        [*axes[1:4], *axes[5:8]], product(("standard", "effective"), ("raw", "rollout", "flow")), strict=True
    ):
        mine = shares[(shares["attention"] == kind) & (shares["method"] == method)]
        for line, name in zip(axis.lines, ("author", "Sara"), strict=False):
            np.testing.assert_allclose(line.get_ydata(), mine[mine["name"] == name].sort_values("layer")["share"])


def test_two_texts_are_two_blocks(make_tables: Make) -> None:
    table = make_tables()["pronouns"]
    both = pd.concat([table, table.assign(text="Another [MASK] .")])
    assert len(plots(FIGURES["pronouns"](both))) == 2 * len(plots(FIGURES["pronouns"](table)))


def test_pronouns_by_hand(make_tables: Make) -> None:
    table = make_tables(layers=3)["pronouns"]
    assert [row[2:] for row in candidates(table).rows] == [["his", "0.0600", "0.2500"], ["her", "0.1800", "0.7500"]]
    grid = referents(table)
    assert grid.groups == [("", 3), ("raw", 2), ("rollout", 2), ("flow", 2)]
    mine = table[(table["attention"] == "effective") & (table["method"] == "flow") & (table["layer"] == 2)].set_index(
        "name"
    )["value"]
    (row,) = [row for row in grid.rows if row[1:3] == ["effective", "Sara"]]
    assert row[-2:] == [f"{mine['Sara']:.3f}", f"{mine['Sara'] / mine.sum():.3f}"]


def test_pronouns_are_read_from_a_text_not_measured_on_a_split(make_tables: Make) -> None:
    said = measured(make_tables(model="bert")["pronouns"])
    assert said == "Read from the text “The author talked to Sara about [MASK] $5 book .” by bert (pretrained)."
