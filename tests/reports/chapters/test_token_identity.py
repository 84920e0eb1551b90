"""What is still in a hidden token: figures and the small table, against the table and the paper's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgba

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.chapters.token_identity import CHAPTER
from effective_attention.reports.chapters.token_identity.figures import MAP_COLOURS
from effective_attention.reports.chapters.token_identity.reductions import by_size, of_size, rates
from effective_attention.reports.chapters.token_identity.tables import identity_rates, size_rates
from effective_attention.reports.drawing.files import write_figures
from effective_attention.reports.grid import NONE
from effective_attention.reports.papers.brunner2020 import BRUNNER_RATES, BRUNNER_SIZES
from effective_attention.reports.report import write_report
from effective_attention.reports.runs import RunResults
from helpers.figures import FIGURES, Make, both_weights, can_draw, figures_of, line_of, plots, said_of_runs


def test_two_runs_are_drawn_apart(make_tables: Make) -> None:
    table = both_weights(make_tables, "token_identity", layers=1, heads=2)
    for name in figures_of("token_identity"):
        said = said_of_runs(FIGURES[name](table))
        assert "pretrained" in said, name
        assert "finetuned" in said, name


def test_the_chapter_names_the_paper() -> None:
    assert CHAPTER.source.startswith("Brunner et al. 2020")
    assert CHAPTER.paper_says


def test_rates_by_hand() -> None:
    table = pd.DataFrame({"layer": [0, 0, 1, 1], "fold": [0, 1, 0, 1], "value": [0.8, 1.0, 0.5, 0.5], "baseline": 0.02})
    found = rates(table)
    np.testing.assert_allclose(found["value"], [0.9, 0.5])
    np.testing.assert_allclose(found["std"], [np.sqrt(0.02), 0])
    seeds = pd.concat([table, table.assign(value=table["value"] - 0.2)])
    np.testing.assert_allclose(rates(seeds)["value"], [0.8, 0.4])
    np.testing.assert_allclose(rates(seeds)["std"], found["std"])  # seeds are no folds
    assert rates(table[table["fold"] == 0])["std"].isna().all()


def test_identity_has_a_line_per_map_and_distance_with_its_spread_and_ridge_as_rings(make_tables: Make) -> None:
    table = make_tables(layers=6)["token_identity"]
    (axes,) = plots(FIGURES["token_identity"](table))
    tested = table[(table["experiment"] == "input") & (table["part"] == "test")]
    for label, name, distance, solver in (
        ("naive, L2", "naive", "l2", "none"), ("linear, cosine", "linear", "cosine", "adam"),
        ("linear, cosine, ridge", "linear", "cosine", "ridge"), ("MLP, cosine", "mlp", "cosine", "adam"),
    ):  # fmt: skip
        mine = tested[(tested["map"] == name) & (tested["distance"] == distance) & (tested["solver"] == solver)]
        line = line_of(axes, label)
        np.testing.assert_allclose(line.get_ydata(), mine.groupby("layer")["value"].mean())
        assert line.get_color() == MAP_COLOURS[name]
        assert (line.get_markerfacecolor() == "none") == (solver == "ridge")
    assert len(axes.collections) == 6  # bands of the lines; ridge has none
    assert set(line_of(axes, "random").get_ydata()) == {0.019}
    one = table[table["fold"] == 0]
    assert len(plots(FIGURES["token_identity"](one))[0].collections) == 0


def test_ridge_alone_is_the_line(make_tables: Make) -> None:
    table = make_tables()["token_identity"]
    axes = plots(FIGURES["token_identity"](table[table["solver"] != "adam"]))[0]
    assert line_of(axes, "linear, cosine").get_markerfacecolor() != "none"
    assert not [line for line in axes.lines if "ridge" in str(line.get_label())]


def test_the_papers_rates_stand_at_their_layer_of_a_model_as_deep(make_tables: Make) -> None:
    deep, shallow, other = (
        plots(FIGURES["token_identity"](make_tables(task, layers=layers)["token_identity"]))[0]
        for task, layers in (("mrpc", 12), ("mrpc", 6), ("cola", 12))
    )
    line = line_of(deep, "linear, cosine, paper")
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([11], [0.93])
    line = line_of(deep, "MLP, L2, paper")
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([10], [0.82])
    assert BRUNNER_RATES["mrpc", "mlp", "l2"] == {11: 0.82}
    for axes in (shallow, other):
        assert not [line for line in axes.lines if "paper" in str(line.get_label())]


def test_transfer_has_a_line_per_trained_layer_with_a_dot_on_its_own(make_tables: Make) -> None:
    table = make_tables(layers=4)["token_identity"]
    figure = FIGURES["token_identity_transfer"](table)
    axes = plots(figure)
    assert [axis.get_title() for axis in axes] == ["linear", "MLP", "", ""]
    assert [axis.get_ylabel().split("\n")[0] for axis in axes[::2]] == ["MRPC, cosine", "MRPC, L2"]
    mine = table[(table["experiment"] == "transfer") & (table["map"] == "mlp") & (table["distance"] == "l2")]
    lines, dots = axes[3].lines[::2], axes[3].lines[1::2]
    for layer, (line, dot) in enumerate(zip(lines, dots, strict=True)):
        rows = mine[mine["layer"] == layer].sort_values("tested_layer")
        np.testing.assert_allclose(line.get_ydata(), rows["value"])
        assert list(dot.get_xdata()) == [layer]
        assert list(dot.get_ydata()) == rows.loc[rows["tested_layer"] == layer, "value"].tolist()


def test_generalisation_has_train_above_test(make_tables: Make) -> None:
    table = make_tables(layers=3)["token_identity"]
    axes = plots(FIGURES["token_identity_generalisation"](table))
    assert [axis.get_title() for axis in axes] == ["cosine", "L2"]
    mine = table[(table["experiment"] == "input") & (table["map"] == "mlp") & (table["distance"] == "l2")]
    for part in ("train", "test"):
        expected = mine[mine["part"] == part].groupby("layer")["value"].mean()
        np.testing.assert_allclose(line_of(axes[1], f"MLP, {part}").get_ydata(), expected)
    assert not can_draw("token_identity_generalisation", table[table["part"] == "test"])


def test_across_a_layer_pretrained_is_dashed_and_finetuned_solid_in_one_panel(make_tables: Make) -> None:
    table = both_weights(make_tables, "token_identity", layers=3)
    axes = plots(FIGURES["token_identity_layers"](table))
    assert len(axes) == 2
    for state, checkpoint, dashes in (("pretrained", "", "--"), ("finetuned", "runs/x", "-")):
        mine = table[(table["experiment"] == "previous") & (table["map"] == "naive") & (table["distance"] == "cosine")]
        line = line_of(axes[0], f"naive {state}")
        np.testing.assert_allclose(line.get_ydata(), mine[mine["checkpoint"] == checkpoint]["value"])
        assert line.get_linestyle() == dashes


def test_neighbours_before_are_blue_and_after_red(make_tables: Make) -> None:
    table = make_tables(layers=3)["token_identity"]
    axes = plots(FIGURES["token_identity_neighbours"](table))
    assert [axis.get_title() for axis in axes[:3]] == ["naive", "linear", "MLP"]
    mine = table[(table["experiment"] == "neighbours") & (table["map"] == "linear") & (table["distance"] == "l2")]
    for offset, label in ((-2, "2 before"), (3, "3 after")):
        line = line_of(axes[4], label)
        np.testing.assert_allclose(line.get_ydata(), mine[mine["offset"] == offset]["value"])
        red, _, blue, _ = to_rgba(line.get_color())
        assert (red > blue) == (offset > 0)


def test_sizes_by_the_tokens_trained_on_with_the_papers_beside(make_tables: Make) -> None:
    table = make_tables(layers=2)["token_identity"]
    sizes = of_size(table)[of_size(table)["map"] == "mlp"]
    mine = sizes[sizes["distance"] == "l2"].set_index(["part", "share"])
    (axes,) = plots(FIGURES["token_identity_size"](table))
    line = line_of(axes, "MLP, L2")
    np.testing.assert_allclose(line.get_xdata(), mine.loc["train"]["tokens"].astype(float))
    np.testing.assert_allclose(line.get_ydata(), mine.loc["test"]["value"])
    grid = size_rates(table)
    assert [row[4:6] for row in grid.rows if row[1:3] == ["MLP", "L2"] and row[0] == "MRPC"] == [
        [f"{rate:.3f}" for rate in by_size(mine.reset_index())["value"]]
    ]
    assert grid.rows[-1][4:6] == [f"{BRUNNER_SIZES[share]:.3f}" for share in (0.5, 1.0)]
    assert not can_draw("token_identity_size", table[table["experiment"] != "size"])
    assert size_rates(table[table["experiment"] != "size"]).rows == []


def test_experiments_left_out_have_no_figure(make_tables: Make, tmp_path: Path) -> None:
    table = make_tables()["token_identity"]
    for name, figure in {
        "input": "token_identity", "transfer": "token_identity_transfer", "previous": "token_identity_layers",
        "neighbours": "token_identity_neighbours",
    }.items():  # fmt: skip
        assert can_draw(figure, table)
        assert not can_draw(figure, table[table["experiment"] != name])
    assert not can_draw("token_identity_transfer", table[table["map"] == "naive"])
    few = table[(table["experiment"] == "previous") & (table["map"] == "naive") & (table["distance"] == "l2")]
    assert [path.stem for path in write_figures(tmp_path, {"token_identity": few}, CHAPTERS)] == [
        "token_identity_layers"
    ]


# --- the small table ---


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


def test_a_report_of_what_little_was_asked(make_tables: Make, make_facts: Make, tmp_path: Path) -> None:
    identity: pd.DataFrame = make_tables()["token_identity"]
    few = identity[(identity["experiment"] == "previous") & (identity["map"] == "naive")]
    write_report(tmp_path / "report.html", [RunResults(make_facts(), {"token_identity": few})])
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.count("<img") == 1
    assert "Share of tokens identified from" not in html
    assert np.all([word in html for word in ("What is still in a hidden token", "Across a single layer")])
