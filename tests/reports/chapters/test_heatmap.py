"""One head on one example: tokens, colours, long texts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from effective_attention.reports.drawing.files import figure_bytes
from effective_attention.reports.measured import measured
from helpers.fake_a import fake_heatmap
from helpers.fakes import with_facts
from helpers.figures import FIGURES, Make, meshes, named, plots


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
    figure = FIGURES["heatmap"](empty)
    assert not [text for axes in plots(figure)[:2] for text in axes.texts]
    (said,) = plots(figure)[2].texts
    assert " ".join(said.get_text().split()) == "9 tokens: no null part, every weight reaches the output"


def test_all_parts_share_one_colour_scale(make_tables: Make) -> None:
    table = make_tables()["heatmap"]
    largest = table["value"].abs().max()
    standard, effective, null = (mesh.get_clim() for mesh in meshes(FIGURES["heatmap"](table)))
    assert standard == (0, largest)
    assert effective[1] == largest
    assert null == (-largest, largest)


def test_one_long_text_has_null_below_and_keeps_the_width() -> None:
    table = with_facts(fake_heatmap(np.random.default_rng(0), named(38)))
    figure = FIGURES["heatmap"](table)
    assert figure.get_figwidth() == 6.8
    first, second, third = (axes.get_position() for axes in plots(figure)[:3])
    assert abs(first.y0 - second.y0) < 0.01
    assert third.y1 < first.y0
    assert len(plots(figure)[0].get_yticklabels()) == 38


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
