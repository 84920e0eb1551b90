"""Attention patterns: shares of maps, and how good the classifier is."""

from __future__ import annotations

import io

import pytest

from effective_attention.models.pattern_net import pattern_net_facts
from effective_attention.reports.chapters.patterns import confusion_table, corrected_table
from helpers.figures import FIGURES, Make, plots, stacked


def test_patterns_add_up_to_the_tables_shares(make_tables: Make) -> None:
    table = stacked(make_tables, "patterns", "rte", "mrpc")
    left, right = plots(FIGURES["patterns"](table))
    assert (left.get_title(), right.get_title()) == ("standard attention", "effective attention")
    rows = table[(table["task"] == "mrpc") & (table["attention"] == "effective") & table["layer"].isna()]
    expected = rows.set_index("pattern")["value"]
    heights = {bars.get_label(): bars[1].get_height() for bars in right.containers}
    assert heights == pytest.approx({name: 100 * value for name, value in expected.items()})
    assert len(plots(FIGURES["patterns_layers"](table))) == 4


def test_a_figure_can_be_saved_anywhere_matplotlib_can(make_tables: Make) -> None:
    out = io.BytesIO()
    FIGURES["patterns"](make_tables()["patterns"]).savefig(out, format="pdf")
    assert out.getvalue().startswith(b"%PDF")


def test_the_classifiers_table_says_on_how_many_maps_it_was_measured(make_tables: Make) -> None:
    grid = confusion_table(make_tables(examples=408)["patterns"])
    counted = sum(int(cell) for row in grid.rows for cell in row[1:])
    assert counted == pattern_net_facts()["maps_held_out"]
    assert f"on the {counted} annotated maps held out from its training" in grid.caption
    assert "408" not in grid.caption


def test_corrected_shares_stand_beside_those_that_were_found(make_tables: Make) -> None:
    table = make_tables()["patterns"]
    grid = corrected_table(table)
    assert grid.columns[2:4] == ["found", "corrected"]
    rows = table[(table["attention"] == "effective") & table["layer"].isna()].set_index("pattern")
    cells = next(row for row in grid.rows if row[1] == "effective")
    place = 2 + 2 * [title for title, _ in grid.groups[1:]].index("vertical")
    assert cells[place : place + 2] == [f"{100 * rows.loc['vertical', name]:.1f}" for name in ("value", "corrected")]
    assert sum(float(cell) for cell in cells[3::2]) == pytest.approx(100, abs=0.5)
