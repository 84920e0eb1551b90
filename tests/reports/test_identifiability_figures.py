"""Figures of identifiability: the table's values in the right place, one run and two, and what was not asked for left out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from effective_attention.reports.drawing.style import COLOURS, style
from effective_attention.reports.reductions import some_layers
from helpers.figures import FIGURES, Make, both_weights, can_draw, cells, figures_of, line_of, meshes, named, plots
from helpers.identifiability_tables import alternative, frame


@pytest.mark.parametrize("analysis", ["alternative_attention", "token_type_profile"])
def test_two_runs_are_drawn_apart(analysis: str, make_tables: Make) -> None:
    table = both_weights(make_tables, analysis, layers=1, heads=2)
    for name in figures_of(analysis):
        figure = FIGURES[name](table)
        said = " ".join(axes.get_ylabel() + axes.get_title() for axes in plots(figure))
        said += " ".join(text.get_text() for legend in figure.legends for text in legend.get_texts())
        assert "pretrained" in said, name
        assert "finetuned" in said, name


def test_first_middle_and_last_layer() -> None:
    assert [some_layers(pd.DataFrame({"layer": range(count)})) for count in (1, 2, 6, 12)] == [
        [0],
        [0, 1],
        [0, 2, 5],
        [0, 5, 11],
    ]


# --- token types ---


def test_a_dot_per_head_a_line_per_layer_and_even_attention_dotted(make_tables: Make) -> None:
    table = make_tables(layers=6, heads=4)["token_type_profile"]
    left, right = plots(FIGURES["token_type_profile"](table))
    assert [axes.get_title() for axes in (left, right)] == ["standard attention", "effective attention"]
    for axes, kind in ((left, "standard"), (right, "effective")):
        mine = table[(table["attention"] == kind) & (table["source"] == "all") & (table["target"] == "sep")]
        line = line_of(axes, "[SEP]")
        np.testing.assert_allclose(line.get_ydata(), mine.groupby("layer")["value"].mean())
        dots = [other for other in axes.lines if other.get_color() == line.get_color() and len(other.get_xdata()) == 24]
        np.testing.assert_allclose(dots[0].get_ydata(), mine["value"])
        assert any(set(other.get_ydata()) == {mine["share"].iloc[0]} for other in axes.lines)


def test_pairs_of_types_have_both_attentions_in_each_panel(make_tables: Make) -> None:
    table = make_tables(layers=3)["token_type_profile"]
    axes = plots(FIGURES["token_type_profile_pairs"](table))
    assert len(axes) == 16
    assert [axis.get_title() for axis in axes[:4]] == ["to [CLS]", "to [SEP]", "to period, comma", "to other"]
    mine = table[(table["source"] == "sep") & (table["target"] == "punctuation")]
    for kind in ("standard", "effective"):
        line = line_of(axes[4 + 2], kind)
        assert line.get_color() == COLOURS[kind]
        np.testing.assert_allclose(line.get_ydata(), mine[mine["attention"] == kind].groupby("layer")["value"].mean())


def test_a_tokenizer_without_delimiters_has_fewer_panels(make_tables: Make) -> None:
    table = make_tables()["token_type_profile"]
    plain = table[~table["source"].isin(["cls", "sep"]) & ~table["target"].isin(["cls", "sep"])]
    assert len(plots(FIGURES["token_type_profile_pairs"](plain))) == 4
    assert not can_draw("token_type_profile_pairs", plain[plain["source"] == "all"])


# --- another attention ---


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
    table = frame(alternative(np.random.default_rng(0), 1, 2, free=False))
    figure = FIGURES["alternative_attention"](table)
    assert "no other map has this output" in plots(figure)[3].get_title()
    assert meshes(figure)[2].get_clim() == (-1, 1)


@pytest.mark.parametrize(("size", "every"), [(25, 1), (90, 3)])
def test_long_texts_name_as_many_tokens_as_there_is_room_for(size: int, every: int) -> None:
    figure = FIGURES["alternative_attention"](frame(alternative(np.random.default_rng(0), 1, 2, tokens=named(size))))
    with style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        for axes in plots(figure):
            labels = axes.get_xticklabels()
            assert len(labels) == -(-size // every)
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
