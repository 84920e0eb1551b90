"""The report's tables on identifiability, against the tables they sum up and the paper's numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.grid import NONE
from effective_attention.reports.report import write_report
from effective_attention.reports.report_identifiability import (
    alternative_layers,
    alternative_logits,
    alternatives,
    projected,
    type_profile,
)
from effective_attention.reports.runs import RunResults
from effective_attention.reports.sections import measured
from helpers.figures import Make


def test_alternatives_and_what_the_model_says(make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)["alternative_attention"]
    ((title, place, freedom, *cells),) = alternatives(table).rows
    assert (title, place, freedom) == ("MRPC", "layer 0, head 1", "4")
    shown = table[(table["quantity"] == "distance") & (table["layer"] == 0) & (table["head"] == 1)]
    values = shown.groupby("method")["value"]
    assert cells[:3] == [
        f"{values.mean()['step']:.3f}",
        f"{values.mean()['program']:.3f}",
        f"{values.max()['program']:.3f}",
    ]
    assert cells[4:] == ["2.0e-07", "0.700"]
    head, every = alternative_logits(table).rows
    assert head == ["MRPC", "this head replaced", "3.1e-07", "0.041", "0.930", "0.930", "0.930"]
    assert every == ["MRPC", "all heads replaced", "3.1e-06", "0.410", "0.930", "0.930", "0.600"]


def test_alternatives_by_layer_only_where_all_heads_were_asked(make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)["alternative_attention"]
    means = table[(table["quantity"] == "distance") & (table["method"] == "program")].groupby("layer")["value"].mean()
    assert alternative_layers(table).rows == [["MRPC", "furthest found", *(f"{value:.3f}" for value in means)]]
    one = table[(table["quantity"] != "distance") | ((table["layer"] == 0) & (table["head"] == 1))]
    assert alternative_layers(one).rows == []


def test_regression_has_no_probabilities(make_tables: Make) -> None:
    table = make_tables()["alternative_attention"]
    assert alternative_logits(table[table["quantity"] != "probability"]).rows[0][-3:] == [NONE] * 3


def test_attention_to_types_beside_even_attention(make_tables: Make) -> None:
    table = make_tables()["token_type_profile"]
    grid = type_profile(table)
    assert grid.groups == [("", 1), ("to [CLS]", 3), ("to [SEP]", 3), ("to period, comma", 3), ("to other", 3)]
    everything = table[table["source"] == "all"]
    means = everything[everything["target"] == "sep"].groupby("attention")["value"].mean()
    assert grid.rows[0][4:7] == [f"{means['standard']:.3f}", f"{means['effective']:.3f}", "0.040"]


def test_the_projected_reading_has_its_own_table_and_old_tables_none(make_tables: Make) -> None:
    table = make_tables()["null_space"]
    (row,) = projected(table).rows
    assert row[:5] == ["MRPC", "408", "32.0", "31.2", "22.0"]
    assert row[6:] == ["2.0e-07", "2.0e-07"]
    assert projected(table[table["reading"] != "projected"]).rows == []
    assert measured(table) == measured(table[table["reading"] != "projected"])


@pytest.mark.parametrize("analysis", ["alternative_attention", "token_type_profile"])
def test_each_analysis_has_a_chapter_with_its_figures(analysis: str) -> None:
    (chapter,) = [chapter for chapter in CHAPTERS if chapter.analysis == analysis]
    assert chapter.source.startswith("Brunner et al. 2020")
    assert chapter.paper_says


def test_a_report_of_what_little_was_asked(make_tables: Make, make_facts: Make, tmp_path: Path) -> None:
    tables = make_tables()
    old = tables["null_space"][tables["null_space"]["reading"] != "projected"]
    write_report(tmp_path / "report.html", [RunResults(make_facts(), {"null_space": old})])
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.count("<img") == 1
    assert "rank of T" not in html
