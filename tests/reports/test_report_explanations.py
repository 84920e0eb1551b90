"""The report's tables on explanations, against the tables they sum up."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from effective_attention.reports.grid import NONE
from effective_attention.reports.report import write_report
from effective_attention.reports.report_explanations import candidates, correlations, league_table, referents
from effective_attention.reports.runs import RunResults
from effective_attention.reports.sections import measured
from helpers.figures import Make


def test_the_league_says_mean_and_interval_and_dashes_what_is_missing(make_tables: Make) -> None:
    table = make_tables(layers=3)["faithfulness"]
    grid = league_table(table)
    assert grid.columns[3:] == [
        "Spearman with blank-out", "Spearman with gradients", "comprehensiveness", "sufficiency", "subject first",
        "ms per example",
    ]  # fmt: skip
    assert len(grid.rows) == 7 * 2 + 5
    (row,) = [row for row in grid.rows if row[1:3] == ["flow", "effective"]]
    mine = table[(table["method"] == "flow") & (table["attention"] == "effective")].set_index(["measure", "layer"])
    one = mine.loc["comprehensiveness", 2]
    assert row[5] == f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"
    one = mine.loc["spearman_blank_out", 2]
    assert row[3] == f"{one['value']:.2f} [{one['low']:.2f}, {one['high']:.2f}]"
    assert "[" not in row[8]  # time has no interval
    (row,) = [row for row in grid.rows if row[1] == "input gradient"]
    assert (row[2], row[4]) == (NONE, NONE)


def test_correlations_have_the_papers_rows_below_ours(make_tables: Make) -> None:
    table = make_tables("agreement", layers=6)["faithfulness"]
    grid = correlations(table)
    rows = [row for row in grid.rows if row[1:3] == ["Spearman with blank-out", "flow"]]
    assert [row[3] for row in rows] == ["standard", "effective", "standard, paper"]
    assert rows[2][4:] == ["0.32 ± 0.26", "0.44 ± 0.29", "0.70 ± 0.25", "0.70 ± 0.22", "0.71 ± 0.22", "0.70 ± 0.22"]
    mine = table[
        (table["measure"] == "spearman_blank_out") & (table["method"] == "flow") & (table["attention"] == "effective")
    ]
    assert rows[1][4:] == [f"{value:.2f} ± 0.20" for value in mine.sort_values("layer")["value"]]


def test_layers_the_paper_does_not_print_are_dashes(make_tables: Make) -> None:
    grid = correlations(make_tables("sst2", layers=12)["faithfulness"])
    (row,) = [row for row in grid.rows if row[1:4] == ["Spearman with gradients", "raw attention", "standard, paper"]]
    assert row[4:] == ["0.12 ± 0.21", NONE, "0.09 ± 0.21", NONE, "0.08 ± 0.20", "0.09 ± 0.21", *[NONE] * 6]
    assert not [row for row in grid.rows if row[1] == "Spearman with blank-out" and row[3] == "standard, paper"]


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


def test_a_report_without_subjects_lacks_that_figure_only(make_tables: Make, make_facts: Make, tmp_path: Path) -> None:
    table: pd.DataFrame = make_tables()["faithfulness"]
    without = table[table["measure"] != "subject_first"]
    for name, mine, count in (("whole", table, 3), ("without", without, 2)):
        write_report(tmp_path / f"{name}.html", [RunResults(make_facts(), {"faithfulness": mine})])
        assert (tmp_path / f"{name}.html").read_text(encoding="utf-8").count("<img") == count
    assert "subject first" not in (tmp_path / "without.html").read_text(encoding="utf-8")
