"""The report's tables on identifiability, against the tables they sum up and the paper's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.grid import NONE
from effective_attention.reports.report import write_report
from effective_attention.reports.report_identifiability import (
    identity_rates,
    mixing,
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
