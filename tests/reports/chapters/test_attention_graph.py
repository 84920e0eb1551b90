"""The chapter on one example as a graph: the table's values, in the right place."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

from effective_attention.reports.chapters.attention_graph import lightest_edge
from effective_attention.reports.drawing.files import figure_bytes
from effective_attention.reports.drawing.style import COLOURS, style
from effective_attention.reports.measured import measured
from helpers.fake_b import attention_graph
from helpers.fakes import with_facts
from helpers.figures import FIGURES, Make, cells, meshes, plots


def graph_table(size: int, layers: int = 2, chosen: int = 0) -> pd.DataFrame:
    """A graph of a text with ``size`` tokens."""
    tokens = tuple(f"token{place}" for place in range(size))
    return with_facts(attention_graph(np.random.default_rng(0), layers, tokens=tokens, chosen=chosen))


def edges_of(axes: Any) -> LineCollection:
    (lines,) = [part for part in axes.collections if isinstance(part, LineCollection)]
    return lines


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
    table = graph_table(100, layers=3, chosen=7)
    figure = FIGURES["attention_graph"](table)
    names = [label.get_text() for label in plots(figure)[0].get_xticklabels()]
    assert "token7" in names
    assert not {"token6", "token8"} & set(names)
    assert len(names) == 49
    assert len(figure_bytes(figure, "svg", salt="")) < 2_500_000


def test_one_text_was_read(make_tables: Make) -> None:
    assert measured(make_tables()["attention_graph"]).startswith("Measured on one validation example (MRPC), minilm")
