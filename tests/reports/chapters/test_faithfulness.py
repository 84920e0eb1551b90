"""The chapter on faithful explanations: figures and tables, against the table they sum up and the paper's numbers."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from effective_attention.analyses.common.protocol import PRESETS, protocol_facts
from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.chapters.faithfulness import CHAPTER
from effective_attention.reports.chapters.faithfulness.changes import changes_table, found_changes
from effective_attention.reports.chapters.faithfulness.comparisons import against_the_best, found_differences
from effective_attention.reports.chapters.faithfulness.erasures import found_erasures, ways_table
from effective_attention.reports.chapters.faithfulness.reductions import TRUTH, league, method_title, ranking
from effective_attention.reports.chapters.faithfulness.tables import correlations, league_table
from effective_attention.reports.drawing.files import write_figures
from effective_attention.reports.drawing.style import COLOURS
from effective_attention.reports.grid import NONE, number, span
from effective_attention.reports.measured import measured
from effective_attention.reports.papers.abnar2020 import ABNAR
from effective_attention.reports.report import write_report
from effective_attention.reports.runs import RunResults
from helpers.figures import FIGURES, Make, can_draw, plots, stacked

# --- the league ---


def test_the_league_is_the_last_layer_with_every_method_once(make_tables: Make) -> None:
    table = make_tables(layers=3)["faithfulness"]
    rows = league(table)
    assert not rows.duplicated(["method", "attention", "measure"]).any()
    mine = table[
        (table["method"] == "flow") & (table["attention"] == "effective") & (table["measure"] == "spearman_gradients")
    ]
    place = (rows["method"] == "flow") & (rows["attention"] == "effective") & (rows["measure"] == "spearman_gradients")
    assert rows.loc[place, "value"].item() == mine.loc[mine["layer"] == 2, "value"].item()
    assert set(rows.loc[rows["method"] == "random", "attention"]) == {"without"}


def test_the_better_attention_decides_the_order() -> None:
    rows = pd.DataFrame(
        [("raw", "standard", 0.1), ("raw", "effective", 0.5), ("flow", "standard", 0.3), ("random", "without", 0.0)],
        columns=["method", "attention", "value"],
    ).assign(measure="comprehensiveness")
    extra = pd.DataFrame([("norm", "standard", 0.9, "sufficiency")], columns=[*rows.columns])
    assert ranking(pd.concat([rows, extra])) == ["raw", "flow", "random", "norm"]


def test_dots_intervals_and_colours_of_the_league(make_tables: Make) -> None:
    table = make_tables()["faithfulness"]
    figure = FIGURES["faithfulness"](table)
    axes = plots(figure)
    assert [axis.get_title().replace("\n", " ") for axis in axes] == [
        "Spearman with blank-out ↑", "Spearman with gradients ↑", "comprehen- siveness ↑", "sufficiency ↓",
        "ms per example ↓",
    ]  # fmt: skip
    assert [axis.get_xscale() for axis in axes] == ["linear"] * 4 + ["log"]
    rows = league(table)
    comprehensive = rows[rows["measure"] == "comprehensiveness"].set_index(["method", "attention"])
    dots = [line for line in axes[2].lines if line.get_marker() == "o"]
    expected = {"standard": COLOURS["standard"], "effective": COLOURS["effective"], "without": "#b35806"}
    drawn = sorted((line.get_color(), line.get_xdata()[0]) for line in dots)
    assert drawn == sorted((expected[kind], row["value"]) for (_, kind), row in comprehensive.iterrows())
    spans = [
        tuple(line.get_xdata()) for line in axes[2].lines if line.get_marker() != "o" and line.get_linestyle() == "-"
    ]
    assert sorted(spans) == sorted(zip(comprehensive["low"], comprehensive["high"], strict=True))
    best = comprehensive["value"].idxmax()[0]
    heights = {round(line.get_ydata()[0]) for line in dots if line.get_xdata()[0] == comprehensive["value"].max()}
    assert heights == {ranking(rows).index(best)} == {0}
    assert axes[2].yaxis_inverted()


def test_several_tasks_are_rows_each_in_its_own_order(make_tables: Make) -> None:
    figure = FIGURES["faithfulness"](stacked(make_tables, "faithfulness", "rte", "mrpc"))
    axes = plots(figure)
    assert (axes[0].get_ylabel(), axes[5].get_ylabel()) == ("RTE", "MRPC")
    first, second = ([label.get_text() for label in axes[place].get_yticklabels()] for place in (0, 5))
    assert sorted(first) == sorted(second)
    assert first != second


def test_layers_with_their_spread_beside_the_papers_numbers(make_tables: Make) -> None:
    table = make_tables("agreement", layers=6)["faithfulness"]
    figure = FIGURES["faithfulness_layers"](table)
    axes = plots(figure)
    assert len(axes) == 6
    measures = ("spearman_blank_out", "spearman_gradients")
    for axis, (measure, method) in zip(axes, product(measures, ("raw", "rollout", "flow")), strict=True):
        lines = {line.get_label(): line for line in axis.lines}
        mine = table[(table["measure"] == measure) & (table["method"] == method) & (table["attention"] == "effective")]
        np.testing.assert_allclose(lines["effective"].get_ydata(), mine.sort_values("layer")["value"])
        printed = ABNAR["agreement", measure, method]
        assert list(lines["standard in the paper"].get_xdata()) == [layer - 1 for layer in printed]
        assert list(lines["standard in the paper"].get_ydata()) == [mean for mean, _ in printed.values()]
    assert "standard in the paper" not in {line.get_label() for line in plots(FIGURES["faithfulness_layers"](
        make_tables("mrpc", layers=6)["faithfulness"]))[0].lines}  # fmt: skip


def test_the_papers_numbers_as_the_issue_quotes_them() -> None:
    last = {key: line[6][0] for key, line in ABNAR.items()}
    methods = ("raw", "rollout", "flow")
    assert [last["agreement", "spearman_blank_out", name] for name in methods] == [0.29, 0.71, 0.70]
    assert [last["agreement", "spearman_gradients", name] for name in methods] == [0.46, 0.54, 0.61]
    assert [last["sst2", "spearman_gradients", name] for name in methods] == [0.09, 0.13, 0.14]


def test_the_subjects_figure_is_drawn_only_where_subjects_are_known(make_tables: Make, tmp_path: Path) -> None:
    table = make_tables()["faithfulness"]
    without = table[~table["measure"].isin(TRUTH) & ~table["compared"].isin(TRUTH)]
    for name in ("faithfulness_subject", "faithfulness_truth"):
        assert can_draw(name, table)
        assert not can_draw(name, without)
    written = write_figures(tmp_path, {"faithfulness": without}, CHAPTERS)
    assert [path.stem for path in written] == [
        "faithfulness", "faithfulness_ranks", "faithfulness_checks", "faithfulness_layers",
    ]  # fmt: skip
    mixed = pd.concat([make_tables("agreement")["faithfulness"], without])
    axes = plots(FIGURES["faithfulness_subject"](mixed))
    assert [axis.get_ylabel().split("\n")[0] for axis in axes[::2]] == ["Verb number"]
    shown = mixed[
        (mixed["measure"] == "subject_first") & (mixed["method"] == "raw") & (mixed["attention"] == "standard")
    ]
    np.testing.assert_allclose(axes[0].lines[0].get_ydata(), shown.sort_values("layer")["value"])


# --- tables ---


def test_the_league_says_mean_and_interval_and_dashes_what_is_missing(make_tables: Make) -> None:
    table = make_tables(layers=3)["faithfulness"]
    grid = league_table(table)
    assert grid.columns[3:] == [
        "Spearman with blank-out", "Spearman with gradients", "comprehensiveness", "sufficiency", "subject first",
        "mean reciprocal rank", "relevance mass", "top token", "in the top 3", "in the top 5", "ms per example",
    ]  # fmt: skip
    assert len(grid.rows) == 7 * 2 + 5
    (row,) = [row for row in grid.rows if row[1:3] == ["flow", "effective"]]
    mine = table[(table["method"] == "flow") & (table["attention"] == "effective")].set_index(["measure", "layer"])
    one = mine.loc["comprehensiveness", 2]
    assert row[5] == f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"
    one = mine.loc["spearman_blank_out", 2]
    assert row[3] == f"{one['value']:.2f} [{one['low']:.2f}, {one['high']:.2f}]"
    assert "[" not in row[-1]  # time has no interval
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


def by_their_code(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**protocol_facts("abnar2020", PRESETS["abnar2020"]))


def test_layers_the_paper_does_not_print_are_dashes(make_tables: Make) -> None:
    grid = correlations(by_their_code(make_tables("sst2", layers=12)["faithfulness"]))
    printed = ["Spearman with gradients", "raw attention", "standard, paper"]
    (row,) = [row for row in grid.rows if row[1:4] == printed]
    assert row[4:] == ["0.12 ± 0.21", NONE, "0.09 ± 0.21", NONE, "0.08 ± 0.20", "0.09 ± 0.21", *[NONE] * 6]
    assert not [row for row in grid.rows if row[1] == "Spearman with blank-out" and row[3] == "standard, paper"]


@pytest.mark.parametrize(("task", "theirs", "shown"), [
    ("agreement", False, True), ("agreement", True, False), ("sst2", False, False), ("sst2", True, True),
])  # fmt: skip
def test_the_papers_numbers_stand_beside_the_protocol_they_were_made_by(
    make_tables: Make, task: str, theirs: bool, shown: bool
) -> None:
    table = make_tables(task, layers=6)["faithfulness"]
    table = by_their_code(table) if theirs else table
    assert any(row[3] == "standard, paper" for row in correlations(table).rows) == shown
    labels = {line.get_label() for axis in plots(FIGURES["faithfulness_layers"](table)) for line in axis.lines}
    assert ("standard in the paper" in labels) == shown


def test_the_protocol_is_said_in_words_and_protocols_are_not_averaged(make_tables: Make) -> None:
    ours = make_tables("sst2")["faithfulness"]
    (said,) = CHAPTER.remarks(ours)
    assert said.startswith(
        "Our protocol: explained is the predicted class; a token's worth by gradients is the L2 norm"
    )
    assert said.endswith("[CLS] and [SEP] are not ranked.")
    both = pd.concat([ours, by_their_code(ours)], ignore_index=True)
    first, second = CHAPTER.remarks(both)
    assert first.startswith("SST-2, ours: Our protocol")
    assert second.startswith("SST-2, abnar2020: The protocol of Abnar & Zuidema's published code: explained is class 0")
    assert {row[0] for row in league_table(both).rows} == {"SST-2, ours", "SST-2, abnar2020"}


def test_a_report_without_subjects_lacks_that_figure_only(make_tables: Make, make_facts: Make, tmp_path: Path) -> None:
    table: pd.DataFrame = make_tables()["faithfulness"]
    without = table[~table["measure"].isin(TRUTH) & ~table["compared"].isin(TRUTH)]
    for name, mine, count in (("whole", table, 6), ("without", without, 4)):
        write_report(tmp_path / f"{name}.html", [RunResults(make_facts(), {"faithfulness": mine})])
        assert (tmp_path / f"{name}.html").read_text(encoding="utf-8").count("<img") == count
    assert "subject first" not in (tmp_path / "without.html").read_text(encoding="utf-8")


def test_the_sample_is_what_was_measured(make_tables: Make) -> None:
    assert measured(make_tables()["faithfulness"]).startswith("Measured on validation examples (MRPC 100), minilm")


@pytest.mark.parametrize("methods", [["blank_out"], ["random", "norm"], ["of_ones_own"]], ids=str)
def test_any_choice_of_methods_can_be_drawn_and_told(make_tables: Make, methods: list[str]) -> None:
    """Where none of the methods that are followed layer by layer was chosen, their figure is left out."""
    table = make_tables()["faithfulness"]
    few = table[table["method"].isin(methods)] if methods != ["of_ones_own"] else table[table["method"] == "random"]
    few = few.assign(
        method=few["method"].replace({"random": methods[0]}) if methods == ["of_ones_own"] else few["method"]
    )
    for drawing in (drawing for drawing in CHAPTER.figures if drawing.can_draw(few)):
        drawing.draw(few)
    assert not can_draw("faithfulness_layers", few)
    assert league_table(few).rows
    assert correlations(few).rows == []


# --- which differences are real, ways to erase, few examples ---


def compared(make_tables: Make, ranks: list[float]) -> pd.DataFrame:
    """Return a table of four methods with these average ranks over 30 examples, and every pair of them."""
    table: pd.DataFrame = make_tables()["faithfulness"]
    methods = ["blank_out", "random", "input_gradient", "gradient_x_input"]
    mine = table[table["method"].isin(methods) & (table["other_method"].isna() | table["other_method"].isin(methods))]
    mine = mine.copy()
    rank = mine["measure"] == "average_rank"
    mine.loc[rank, "value"] = mine.loc[rank, "method"].map(dict(zip(methods, ranks, strict=True)))
    mine.loc[rank, "count"] = 30
    return mine


def test_ranks_are_drawn_with_the_critical_difference(make_tables: Make) -> None:
    (axes,) = plots(FIGURES["faithfulness_ranks"](compared(make_tables, [3.5, 1.4, 2.2, 2.9])))
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "random", "input gradient", method_title("gradient_x_input"), "blank-out",
    ]  # fmt: skip
    dots = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert dots == [1.4, 2.2, 2.9, 3.5]
    expected = 2.569 * np.sqrt(4 * 5 / (6 * 30))
    assert axes.texts[0].get_text() == f"critical difference {expected:.2f}"  # 0.86
    bars = [list(line.get_ydata()) for line in axes.lines if line.get_marker() == "None"]
    assert bars == [[-0.25, 1.25], [0.75, 2.25], [1.75, 3.25]]
    assert axes.get_xlabel() == "average rank, comprehensiveness (1 is best)"


def test_the_best_is_set_against_every_other(make_tables: Make) -> None:
    table = compared(make_tables, [3.5, 1.4, 2.2, 2.9])
    grid = against_the_best(table)
    assert [row[1:3] for row in grid.rows] == [
        ["random", "input gradient"], ["random", method_title("gradient_x_input")], ["random", "blank-out"],
    ]  # fmt: skip
    pairs = table[table["measure"] == "difference"].set_index(["method", "other_method"])
    turned = pairs.loc[("input_gradient", "random")]  # the table has it the other way round
    assert grid.rows[0][3] == number(-turned["value"])
    assert grid.rows[0][4] == span(-turned["high"], -turned["low"])
    assert grid.rows[0][6] == number(turned["p"])
    assert against_the_best(pd.concat([table, table])).rows == [], "pairs of several runs are not averaged"
    assert not against_the_best(table[table["measure"] != "average_rank"]).rows


def test_what_is_said_of_differences(make_tables: Make) -> None:
    table = compared(make_tables, [3.5, 1.4, 2.2, 2.9])
    table.loc[table["measure"] == "difference", "p"] = [0.01, 0.02, 0.5, 0.9, 0.9, 0.9]
    (said,) = found_differences(table)
    assert "over 30 examples" in said
    assert "has p below 0.001; 2 of 6 pairs differ at 0.05" in said
    assert "1 of the 3 others are within the critical difference of the best, random" in said
    assert not found_differences(table[table["measure"] != "average_rank"])


def test_what_effective_attention_changes(make_tables: Make) -> None:
    table: pd.DataFrame = make_tables()["faithfulness"]
    change = table["measure"] == "effective_less_standard"
    table.loc[change, "p"] = 0.5
    erasing = change & (table["compared"] == "sufficiency")
    table.loc[erasing & (table["method"] == "flow"), ["p", "value", "low", "high"]] = [0.01, -0.2, -0.3, -0.1]
    table.loc[erasing & (table["method"] == "raw"), ["p", "value", "low", "high"]] = [0.02, 0.2, 0.1, 0.3]
    grid = changes_table(table)
    (row,) = [row for row in grid.rows if row[1] == method_title("flow")]
    assert row[grid.columns.index("sufficiency")] == f"{number(-0.2)}* {span(-0.3, -0.1)}"
    assert len(grid.rows) == change.groupby(table["method"]).any().sum()
    first, second = found_changes(table)
    assert "By comprehensiveness" in first
    assert re.search(r"effective attention makes 0 of \d+ methods that read attention more faithful, 0 less;", first)
    assert f"more faithful ({method_title('flow')}), 1 less ({method_title('raw')});" in second
    assert re.search(r"makes 1 of \d+ methods", second)
    assert changes_table(pd.concat([table, table])).rows == [], "differences of several runs are not averaged"
    assert not changes_table(table[~change]).rows
    assert not found_changes(table[~change])


def test_ways_to_erase_stand_beside_each_other(make_tables: Make) -> None:
    table: pd.DataFrame = make_tables()["faithfulness"]
    assert not ways_table(table).rows
    assert not found_erasures(table)
    erased = table[table["erase"].notna()].assign(erase="hide")
    turned = erased.assign(value=1 - erased["value"], low=np.nan, high=np.nan)
    both = pd.concat([table, turned], ignore_index=True)
    grid = ways_table(both)
    assert grid.columns[3:] == ["tokens deleted", "tokens hidden"]
    assert len(grid.rows) == 7 * 2 + 5
    (row,) = [row for row in grid.rows if row[1:3] == ["flow", "effective"]]
    assert float(row[3].split()[0]) == pytest.approx(1 - float(row[4]), abs=2e-3)
    assert "is not the same for all ways to erase" in found_erasures(both)[0]
    pd.testing.assert_frame_equal(league(both), league(table))  # the league is of the first way
    assert "is the same for all" in found_erasures(pd.concat([table, erased]))[0]


def test_few_examples_are_named(make_tables: Make) -> None:
    table: pd.DataFrame = make_tables()["faithfulness"]
    assert not any("too short" in said for said in CHAPTER.remarks(table.assign(examples=30)))
    assert any(
        "12 examples: 95 % intervals of fewer than 30" in said for said in CHAPTER.remarks(table.assign(examples=12))
    )


def test_tables_of_older_runs_can_still_be_shown(make_tables: Make) -> None:
    table: pd.DataFrame = make_tables()["faithfulness"]
    old = table[~table["measure"].isin(["average_rank", "difference", "effective_less_standard"])]
    old = old.drop(columns=["unit", "erase", "compared", "other_attention", "other_method", "beyond", "p"])
    assert not can_draw("faithfulness_ranks", old)
    for drawing in (drawing for drawing in CHAPTER.figures if drawing.can_draw(old)):
        drawing.draw(old)
    assert [grid(old).rows for grid in CHAPTER.tables]
    assert CHAPTER.found(old)
