"""One head on one example: tokens, colours, long texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from effective_attention.reports.drawing.files import figure_bytes
from effective_attention.reports.measured import measured
from helpers.fake_a import fake_heatmap
from helpers.fakes import with_facts
from helpers.figures import FIGURES, Make, meshes, named, plots


def test_heatmap_names_tokens_as_they_are(make_tables: Make) -> None:
    figure = FIGURES["heatmap"](make_tables()["heatmap"])
    colours = [mesh.get_cmap().name for mesh in meshes(figure)]
    assert [colours[place] for place in (0, 2, 4, 5)] == ["Greens", "PuOr", "Pinks", "PuBuGn"]
    names = [label.get_text() for label in plots(figure)[0].get_yticklabels()]
    assert names == ["[CLS]", "new", "anti", "##biotics", "cost", "$5", "[SEP]", "<script>alert(1…", "[SEP]"]


@pytest.mark.parametrize("place", [1, 3], ids=["effective", "affine"])
def test_heatmap_of_signed_maps_is_white_at_zero_and_orange_below(place: int, make_tables: Make) -> None:
    mesh = meshes(FIGURES["heatmap"](make_tables()["heatmap"]))[place]
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
    limits = [mesh.get_clim() for mesh in meshes(FIGURES["heatmap"](table))]
    assert [high for _, high in limits] == [largest] * 6
    assert [limits[place][0] for place in (0, 2, 4, 5)] == [0, -largest, 0, 0]


def test_a_map_that_is_standard_attention_says_so(make_tables: Make) -> None:
    """A text with no more tokens than [V, 1] has rank: no other row has the same output."""
    table = make_tables()["heatmap"]
    standard = table.loc[table["attention"] == "standard", "value"].to_numpy()
    for kind in ("affine", "sparse", "smallest"):
        table.loc[table["attention"] == kind, "value"] = standard + 1e-9
    panels = plots(FIGURES["heatmap"](table))
    assert [len(axes.texts) for axes in panels] == [0, 0, 0, 1, 1, 1]
    said = panels[4].texts[0].get_text()
    assert " ".join(said.split()) == "9 tokens: as standard, no other row has the same output"


def across(tokens: int, **changes: list[str]) -> list[int]:
    """Count the panels of each line, from top to bottom."""
    table = with_facts(fake_heatmap(np.random.default_rng(0), named(tokens)))
    for column, kept in changes.items():
        table = table[table[column].isin(kept)]
    figure = FIGURES["heatmap"](table)
    assert figure.get_figwidth() == 6.8
    heights = [round(axes.get_position().y1, 2) for axes in plots(figure) if axes.axison]
    return [heights.count(height) for height in sorted(set(heights), reverse=True)]


def test_panels_stand_three_across_and_those_of_a_long_text_two() -> None:
    assert across(9) == [3, 3]
    assert across(38) == [2, 2, 2]
    assert across(9, attention=["standard", "effective", "null"]) == [3]
    assert across(38, attention=["standard", "effective", "null"]) == [2, 1]


@pytest.mark.parametrize("tokens", [9, 22, 38])
def test_no_name_is_cut_at_the_top(tokens: int) -> None:
    figure = FIGURES["heatmap"](with_facts(fake_heatmap(np.random.default_rng(0), named(tokens))))
    renderer = FigureCanvasAgg(figure).get_renderer()
    reached = max(axes.get_tightbbox(renderer).y1 for axes in plots(figure))  # type: ignore[union-attr]
    assert reached <= figure.bbox.y1


def test_every_token_of_a_text_of_38_is_named() -> None:
    figure = FIGURES["heatmap"](with_facts(fake_heatmap(np.random.default_rng(0), named(38))))
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
