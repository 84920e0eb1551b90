"""The report's tables on identifiability, against the tables they sum up and the paper's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.grid import NONE
from effective_attention.reports.report import write_report
from effective_attention.reports.report_identifiability import (
    alternative_layers,
    alternative_logits,
    alternatives,
    identity_rates,
    mixing,
    type_profile,
)
from effective_attention.reports.runs import RunResults
from helpers.figures import Make, stacked


def test_rates_with_their_spread_and_the_papers_beside(make_tables: Make) -> None:
    table = make_tables(layers=6)["token_identity"]
    grid = identity_rates(table)
    assert grid.columns[3:] == [*(f"layer {layer}" for layer in range(6)), "paper, BERT-base"]
    assert grid.paper == {9}
    rows = {(row[1], row[2]): row[3:] for row in grid.rows}
    assert list(rows) == [
        ("naive", "cosine"), ("naive", "L2"), ("linear", "cosine"), ("linear, ridge", "cosine"), ("linear", "L2"),
        ("linear, ridge", "L2"), ("MLP", "cosine"), ("MLP", "L2"), ("random", NONE),
    ]  # fmt: skip
    assert rows["linear", "cosine"][-1] == "0.93 (layer 12); of 12"
    assert rows["MLP", "L2"][-1] == "0.82 (layer 11); of 12"
    assert rows["naive", "L2"][-1] == NONE
    assert rows["random", NONE] == ["0.019"] * 6 + ["0.017"]
    mine = table[
        (table["experiment"] == "input") & (table["part"] == "test") & (table["map"] == "mlp") & (table["layer"] == 4)
    ]
    values = mine.loc[mine["distance"] == "l2", "value"]
    assert rows["MLP", "L2"][4] == f"{values.mean():.3f} ± {values.std():.3f}"


def test_one_fold_has_no_spread_and_other_tasks_no_printed_rate(make_tables: Make) -> None:
    table = make_tables("cola")["token_identity"]
    grid = identity_rates(table[table["fold"] == 0])
    assert all("±" not in cell for row in grid.rows for cell in row)
    assert {row[-1] for row in grid.rows} == {NONE, "0.090"}
    assert identity_rates(table[table["experiment"] == "previous"]).rows == []


def test_medians_in_percent_with_the_papers_and_the_stated_error(make_tables: Make) -> None:
    table = stacked(make_tables, "token_mixing", "mrpc", "cola", layers=6)
    grid = mixing(table)
    rows = {(row[0], row[1]): row[2:] for row in grid.rows}
    own = table[
        (table["task"] == "mrpc")
        & (table["quantity"] == "own")
        & (table["tag"] == "")
        & (table["statistic"] == "median")
    ]
    assert rows["MRPC", "median own contribution"] == [
        *(f"{100 * value:.1f}" for value in own["value"]), "30.6 (layer 1), 14.4 (layer 6), 10.7 (layer 12); of 12",
    ]  # fmt: skip
    assert rows["MRPC", "own not the largest"][-1] == (
        "0 (layer 1), 0 (layer 2), 0 (layer 3), 18 (layer 6), 30 (layer 11), 30 (layer 12); of 12"
    )
    assert rows["MRPC", "standard error of a contribution, relative"] == ["2.1"] * 6 + [NONE]
    assert rows["CoLA", "median own contribution"][-1] == NONE
    assert [row[0] for row in grid.rows] == ["CoLA"] * 3 + ["MRPC"] * 3


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


@pytest.mark.parametrize("analysis", ["alternative_attention", "token_type_profile", "token_identity", "token_mixing"])
def test_each_analysis_has_a_chapter_with_its_figures(analysis: str) -> None:
    (chapter,) = [chapter for chapter in CHAPTERS if chapter.analysis == analysis]
    assert chapter.source.startswith("Brunner et al. 2020")
    assert chapter.paper_says


def test_a_report_of_what_little_was_asked(make_tables: Make, make_facts: Make, tmp_path: Path) -> None:
    tables = make_tables()
    identity: pd.DataFrame = tables["token_identity"]
    few = identity[(identity["experiment"] == "previous") & (identity["map"] == "naive")]
    old = tables["null_space"][tables["null_space"]["reading"] != "projected"]
    write_report(tmp_path / "report.html", [RunResults(make_facts(), {"token_identity": few, "null_space": old})])
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.count("<img") == 2
    assert "Share of tokens identified from" not in html
    assert "rank of T" not in html
    assert np.all([word in html for word in ("What is still in a hidden token", "Across a single layer")])
