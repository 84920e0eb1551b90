"""One head on one example: tokens, colours, long texts."""

from __future__ import annotations

import pandas as pd

from effective_attention.reports.drawing.files import figure_bytes
from effective_attention.reports.sections import measured
from helpers.figures import FIGURES, Make, meshes, plots


def test_heatmap_names_tokens_as_they_are(make_tables: Make) -> None:
    figure = FIGURES["heatmap"](make_tables()["heatmap"])
    assert [mesh.get_cmap().name for mesh in meshes(figure)][::2] == ["Greens", "PuOr_r"]
    names = [label.get_text() for label in plots(figure)[0].get_yticklabels()]
    assert names == ["[CLS]", "new", "anti", "##biotics", "cost", "$5", "[SEP]", "<script>alert(1…", "[SEP]"]


def test_heatmap_of_effective_is_white_at_zero_and_orange_below(make_tables: Make) -> None:
    mesh = meshes(FIGURES["heatmap"](make_tables()["heatmap"]))[1]
    low, high = mesh.get_clim()
    assert low is not None
    assert high is not None
    red, _, blue, _ = mesh.get_cmap()(mesh.norm(low))
    assert red > blue
    red, _, blue, _ = mesh.get_cmap()(mesh.norm(high))
    assert red < blue
    assert min(mesh.get_cmap()(mesh.norm(0.0))[:3]) > 0.9


def test_an_empty_null_part_is_blank(make_tables: Make) -> None:
    table = make_tables()["heatmap"]
    empty = table.assign(value=table["value"].where(table["attention"] != "null", 1e-9))
    mesh = meshes(FIGURES["heatmap"](empty))[2]
    assert mesh.get_clim() == (-1, 1)


def test_a_long_heatmap_names_every_second_token() -> None:
    tokens = [f"t{index}" for index in range(100)]
    rows = [
        {"task": "own", "model": "m", "data": "local", "split": "test", "checkpoint": "", "layer": 0, "head": 0,
         "attention": "standard", "query": i, "key": j, "query_token": tokens[i], "key_token": tokens[j], "value": 0.01}
        for i in range(100) for j in range(100)
    ]  # fmt: skip
    figure = FIGURES["heatmap"](pd.DataFrame(rows))
    assert [label.get_text() for label in plots(figure)[0].get_xticklabels()] == tokens[::2]
    assert len(figure_bytes(figure, "svg", salt="")) < 1_000_000  # ten thousand cells are one picture


def test_it_says_that_one_example_was_looked_at(make_tables: Make) -> None:
    assert "one validation example (MRPC)," in measured(make_tables(examples=408)["heatmap"])
