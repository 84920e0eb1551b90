"""The chapter on another attention with the same output: figures and tables, against the table they sum up."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from effective_attention.reports.chapters.alternative_attention import CHAPTER
from effective_attention.reports.chapters.alternative_attention.tables import (
    alternative_layers,
    alternative_logits,
    alternatives,
)
from effective_attention.reports.drawing.style import style
from effective_attention.reports.grid import NONE
from effective_attention.reports.measured import measured
from helpers.fake_b import alternative_attention
from helpers.fakes import with_facts
from helpers.figures import FIGURES, Make, assert_runs_are_named, can_draw, cells, line_of, meshes, named, plots


def test_the_chapter_says_where_the_paper_shows_the_same() -> None:
    assert CHAPTER.source.startswith("Brunner et al. 2020")
    assert CHAPTER.paper_says


def test_two_runs_are_drawn_apart(make_tables: Make) -> None:
    assert_runs_are_named("alternative_attention", make_tables)


def test_one_text_was_read(make_tables: Make) -> None:
    table = make_tables()["alternative_attention"]
    assert measured(table).startswith("Measured on one validation example (MRPC), minilm")


def test_words_above_the_maps_of_a_long_text_are_not_cut_off() -> None:
    words = ("[CLS]", "kilometres", "on", "tuesday", "airports", "sending") * 8  # two maps stand beside each other
    made = with_facts(alternative_attention(np.random.default_rng(0), 2, 3, tokens=words))
    figure = FIGURES["alternative_attention"](made)
    with style():
        FigureCanvasAgg(figure).draw()
    tops = [label.get_window_extent().y1 for axes in plots(figure)[:2] for label in axes.get_xticklabels()]
    assert max(tops) <= figure.bbox.y1 + 1


def test_own_map_other_map_difference_and_distances(make_tables: Make) -> None:
    table = make_tables()["alternative_attention"]
    figure = FIGURES["alternative_attention"](table)
    own, other, change = (cells(mesh) for mesh in meshes(figure))
    weights = table[table["quantity"] == "weight"]
    for drawn, kind in ((own, "standard"), (other, "alternative")):
        rows = weights[weights["attention"] == kind].sort_values(["query", "key"])
        np.testing.assert_allclose(drawn.ravel(), rows["value"])
    np.testing.assert_allclose(change, other - own)
    assert meshes(figure)[2].get_clim() == (-np.abs(change).max(), np.abs(change).max())
    below = plots(figure)[3]
    heights = [bar.get_height() for bar in below.containers[0]]
    np.testing.assert_allclose(heights, 0.5 * np.abs(change).sum(axis=1))
    np.testing.assert_allclose(line_of(below, "largest step in one direction").get_ydata(), np.multiply(0.4, heights))
    np.testing.assert_allclose(
        line_of(below, "no map is further than this").get_ydata(), np.minimum(1, np.add(heights, 0.05))
    )
    assert (
        "all heads replaced: largest logit difference 3e-06; as much weight moved at random: 0.41" in below.get_title()
    )


def test_no_freedom_is_said_and_blank() -> None:
    table = with_facts(alternative_attention(np.random.default_rng(0), 1, 2, free=False))
    figure = FIGURES["alternative_attention"](table)
    assert "no other map has this output" in plots(figure)[3].get_title()
    assert meshes(figure)[2].get_clim() == (-1, 1)


@pytest.mark.parametrize(("size", "every", "below"), [(25, 1, 1), (90, 3, 2)])
def test_long_texts_name_as_many_tokens_as_there_is_room_for(size: int, every: int, below: int) -> None:
    table = with_facts(alternative_attention(np.random.default_rng(0), 1, 2, tokens=named(size)))
    figure = FIGURES["alternative_attention"](table)
    with style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        for axes in plots(figure):
            labels = axes.get_xticklabels()
            assert len(labels) == -(-size // (below if axes is plots(figure)[-1] else every))
            boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels]
            assert all(left.x1 - right.x0 < 1 for left, right in pairwise(boxes))
            assert all(box.y0 > -1 and box.y1 < figure.bbox.height + 1 for box in boxes)
            assert axes.get_tightbbox(canvas.get_renderer()).x0 > -1


def test_all_heads_only_where_all_were_asked(make_tables: Make) -> None:
    table = make_tables(layers=3, heads=4)["alternative_attention"]
    mesh = meshes(FIGURES["alternative_attention_heads"](table))[0]
    rows = table[(table["quantity"] == "distance") & (table["method"] == "program")]
    np.testing.assert_allclose(cells(mesh), rows.groupby(["layer", "head"])["value"].mean().to_numpy().reshape(3, 4))
    shown = (table["quantity"] != "distance") | ((table["layer"] == 0) & (table["head"] == 1))
    assert can_draw("alternative_attention_heads", table)
    assert not can_draw("alternative_attention_heads", table[shown])
    assert can_draw("alternative_attention", table[shown])
    assert not can_draw("alternative_attention_heads", table[~((table["layer"] == 2) & (table["head"] == 3))])


# --- tables ---


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
    proved = table[(table["quantity"] == "bound")].assign(quantity="proved", value=0.99)
    with_proof = alternatives(pd.concat([table, proved])).rows[0]
    assert with_proof[7:8] == ["0.990"]
    assert "for 0 of 9 queries that is proved" in " ".join(CHAPTER.found(pd.concat([table, proved]))).lower()
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
