"""Figures of the attention graph, of masked pronouns and of the league: the table's values, in the right place."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.drawing.files import figure_bytes, write_figures
from effective_attention.reports.drawing.style import COLOURS, style
from effective_attention.reports.figures.attention_graph import lightest_edge
from effective_attention.reports.figures.faithfulness import league, ranking
from effective_attention.reports.figures.pronouns import referent_shares
from effective_attention.reports.papers.abnar2020 import ABNAR
from helpers.figures import FIGURES, Make, can_draw, cells, meshes, plots, stacked


def graph_table(size: int, layers: int = 2, seed: int = 0) -> pd.DataFrame:
    """A graph of a text with ``size`` tokens."""
    random = np.random.default_rng(seed)
    front = {
        "task": "mrpc",
        "model": "m",
        "data": "local",
        "split": "test",
        "checkpoint": "",
        "examples": 1,
        "convention": "absolute",
    }
    rows = []
    for kind, method in product(("standard", "effective"), ("raw", "rollout", "flow")):
        for layer, query in product(range(layers), range(size) if method == "raw" else [0]):
            for key, value in enumerate(random.dirichlet([0.3] * size)):
                place = {"query": query, "key": key, "query_token": f"token{query}", "key_token": f"token{key}"}
                rows.append({**front, "attention": kind, "method": method, "layer": layer, **place, "value": value})
    return pd.DataFrame(rows)


def edges_of(axes: Any) -> LineCollection:
    (lines,) = [part for part in axes.collections if isinstance(part, LineCollection)]
    return lines


# --- the graph ---


def test_edges_go_from_a_layers_node_down_to_what_it_attends_to(make_tables: Make) -> None:
    table = make_tables()["attention_graph"]
    raw = table[table["method"] == "raw"]
    low, high = lightest_edge(raw), raw["value"].max()
    for axes, kind in zip(plots(FIGURES["attention_graph"](table)), ("standard", "effective"), strict=True):
        expected = raw[(raw["attention"] == kind) & (raw["value"] >= low)].sort_values("value")
        lines = edges_of(axes)
        ends = [
            [(row.query, row.layer + 1), (row.key, row.layer)]
            for row in expected[["query", "layer", "key"]].itertuples()
        ]
        np.testing.assert_array_equal(np.array(lines.get_segments()), np.array(ends))
        drawn = np.asarray(lines.get_colors())
        np.testing.assert_allclose(drawn[:, :3], [to_rgba(COLOURS[kind])[:3]] * len(ends))
        np.testing.assert_allclose(drawn[:, 3], 0.06 + 0.94 * (expected["value"] - low) / (high - low))
        widths = lines.get_linewidths()
        assert list(widths) == sorted(widths)
        assert f"edges from {low:.3f} to {high:.2f}" in axes.get_title()
        assert [label.get_text() for label in axes.get_yticklabels()] == ["input", "0", "1"]


def test_the_chosen_tokens_node_and_name_are_marked(make_tables: Make) -> None:
    axes = plots(FIGURES["attention_graph"](make_tables()["attention_graph"]))[0]
    marked = [line for line in axes.lines if line.get_color() == "#d55e00"]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in marked] == [([1], [2])]
    assert [label.get_text() for label in axes.get_xticklabels() if label.get_color() == "#d55e00"] == ["new"]


def test_light_edges_are_left_out_by_hand() -> None:
    raw = pd.DataFrame({"query": [0] * 4 + [1] * 4, "key": [0, 1, 2, 3] * 2, "value": [0.97, 0.01, 0.01, 0.01] * 2})
    assert lightest_edge(raw) == 0.25  # even attention, though two edges a node would have room
    even = raw.assign(value=0.25)
    assert lightest_edge(even) == 0.25
    many = pd.DataFrame({"query": 0, "key": range(10), "value": [0.3, 0.2, 0.15, 0.15, 0.12, 0.08, 0, 0, 0, 0]})
    assert lightest_edge(many) == 0.2  # two edges for the one node


def test_maps_are_the_rows_raw_rollout_and_flow_with_the_first_layer_at_the_bottom(make_tables: Make) -> None:
    table = make_tables()["attention_graph"]
    figure = FIGURES["attention_graph_maps"](table)
    order = [(kind, method) for kind in ("standard", "effective") for method in ("raw", "rollout", "flow")]
    assert [axes.get_title() for axes in plots(figure)] == [f"{kind}, {method}" for kind, method in order]
    for mesh, (kind, method) in zip(meshes(figure), order, strict=True):
        rows = table[(table["attention"] == kind) & (table["method"] == method) & (table["query"] == 1)]
        np.testing.assert_allclose(cells(mesh), rows.sort_values(["layer", "key"])["value"].to_numpy().reshape(2, -1))
        assert mesh.get_cmap().name == {"standard": "Greens", "effective": "Blues"}[kind]
    assert not any(axes.yaxis_inverted() for axes in plots(figure))


@pytest.mark.parametrize(("size", "beside"), [(1, 3), (10, 3), (30, 2), (60, 1)])
@pytest.mark.parametrize("name", ["attention_graph", "attention_graph_maps"])
def test_every_token_can_be_read_at_a_papers_width(name: str, size: int, beside: int) -> None:
    figure = FIGURES[name](graph_table(size, layers=3))
    assert figure.get_figwidth() == 6.8
    columns = {round(axes.get_position().x0, 2) for axes in plots(figure)}
    assert len(columns) == (beside if name.endswith("maps") else min(beside, 2))
    with style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        for axes in plots(figure):
            assert [label.get_text() for label in axes.get_xticklabels()] == [f"token{place}" for place in range(size)]
            boxes = [label.get_window_extent(canvas.get_renderer()) for label in axes.get_xticklabels()]
            assert all(left.x1 - right.x0 < 1 for left, right in pairwise(boxes))


def test_a_long_text_names_every_second_token_and_the_chosen_one_and_stays_small() -> None:
    table = graph_table(100, layers=3)
    table.loc[table["method"] != "raw", "query"] = 7
    figure = FIGURES["attention_graph"](table)
    names = [label.get_text() for label in plots(figure)[0].get_xticklabels()]
    assert "token7" in names
    assert not {"token6", "token8"} & set(names)
    assert len(names) == 49
    assert len(figure_bytes(figure, "svg", salt="")) < 2_500_000


# --- pronouns ---


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
        "Spearman with blank-out ↑", "Spearman with input gradients ↑", "comprehen- siveness ↑", "sufficiency ↓",
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
    for axis, (measure, method) in zip(
        axes, product(("spearman_blank_out", "spearman_gradients"), ("raw", "rollout", "flow")), strict=True
    ):
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
    without = table[table["measure"] != "subject_first"]
    assert can_draw("faithfulness_subject", table)
    assert not can_draw("faithfulness_subject", without)
    written = write_figures(tmp_path, {"faithfulness": without}, CHAPTERS)
    assert [path.stem for path in written] == ["faithfulness", "faithfulness_layers"]
    mixed = pd.concat([make_tables("agreement")["faithfulness"], without])
    axes = plots(FIGURES["faithfulness_subject"](mixed))
    assert [axis.get_ylabel().split("\n")[0] for axis in axes[::2]] == ["Verb number"]
    shown = mixed[
        (mixed["measure"] == "subject_first") & (mixed["method"] == "raw") & (mixed["attention"] == "standard")
    ]
    np.testing.assert_allclose(axes[0].lines[0].get_ydata(), shown.sort_values("layer")["value"])
