"""What a hidden token is made of: figures and the small table, against the table and the paper's numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from effective_attention.reports.chapters.token_mixing import CHAPTER
from effective_attention.reports.chapters.token_mixing.reductions import tag_order
from effective_attention.reports.chapters.token_mixing.tables import mixing
from effective_attention.reports.drawing.style import style
from effective_attention.reports.grid import NONE
from effective_attention.reports.papers.brunner2020 import BRUNNER_NOT_LARGEST, BRUNNER_OWN
from helpers.fake_c import token_mixing
from helpers.fakes import with_facts
from helpers.figures import (
    FIGURES,
    Make,
    both_weights,
    can_draw,
    cells,
    figures_of,
    line_of,
    meshes,
    named,
    plots,
    said_of_runs,
    stacked,
)
from helpers.schema_tables import FRONT, axes_of, schema_of


def made_up(layers: int, **options: Any) -> pd.DataFrame:
    body = token_mixing(np.random.default_rng(0), axes_of(layers, 1), **options)
    schema_of("token_mixing").check(body, "token_mixing")
    return with_facts(body, FRONT)


def test_two_runs_are_drawn_apart(make_tables: Make) -> None:
    table = both_weights(make_tables, "token_mixing", layers=1, heads=2)
    for name in figures_of("token_mixing"):
        said = said_of_runs(FIGURES[name](table))
        assert "pretrained" in said, name
        assert "finetuned" in said, name


def test_both_kinds_of_embeddings_are_drawn_apart(make_tables: Make) -> None:
    table = make_tables(layers=2)["token_mixing"]
    both = pd.concat([table, table.assign(embeddings="summed", value=table["value"] / 2)], ignore_index=True)
    figure = FIGURES["token_mixing"](both)
    shares = [line_of(axes, "ours").get_ydata() for axes in plots(figure)[1::2]]
    assert len(shares) == 2
    np.testing.assert_allclose(shares[1], np.asarray(shares[0]) / 2)
    assert {"normalised", "summed"} <= set(said_of_runs(figure).replace("\n", " ").replace(",", " ").split())


def test_the_chapter_names_the_paper() -> None:
    assert CHAPTER.source.startswith("Brunner et al. 2020")
    assert CHAPTER.paper_says


def test_boxes_are_the_statistics_and_the_line_the_share(make_tables: Make) -> None:
    table = make_tables(layers=6)["token_mixing"]
    left, right = plots(FIGURES["token_mixing"](table))
    own = table[(table["quantity"] == "own") & (table["tag"] == "")].set_index(["statistic", "layer"])["value"]
    medians = [line for line in left.lines if line.get_color() == "#d55e00"]
    np.testing.assert_allclose([line.get_ydata()[0] for line in medians], own["median"])
    extents = [patch.get_path().get_extents() for patch in left.patches]
    np.testing.assert_allclose(
        [(box.y0, box.y1) for box in extents], np.stack([own["quartile_1"], own["quartile_3"]], axis=1)
    )
    caps = sorted({round(float(value), 9) for line in left.lines for value in line.get_ydata()})
    assert round(float(own["whisker_high"].max()), 9) == caps[-1]
    np.testing.assert_allclose(line_of(right, "ours").get_ydata(), table[table["quantity"] == "not_largest"]["value"])
    assert not [line for line in left.lines if "paper" in str(line.get_label())]


def test_the_papers_medians_stand_in_a_model_as_deep(make_tables: Make) -> None:
    left, right = plots(FIGURES["token_mixing"](make_tables(layers=12)["token_mixing"]))
    for axes, printed in ((left, BRUNNER_OWN), (right, BRUNNER_NOT_LARGEST)):
        line = line_of(axes, "paper, BERT-base")
        assert list(line.get_xdata()) == [layer - 1 for layer in printed]
        assert list(line.get_ydata()) == list(printed.values())
    cola = plots(FIGURES["token_mixing"](make_tables("cola", layers=12)["token_mixing"]))[0]
    assert not [line for line in cola.lines if "paper" in str(line.get_label())]


def test_context_by_group_and_by_position_without_the_token_itself(make_tables: Make) -> None:
    table = make_tables(layers=12)["token_mixing"]
    left, right = plots(FIGURES["token_mixing_context"](table))
    relative = table[(table["quantity"] == "neighbour") & (table["statistic"] == "relative")]
    for group, label in (("1", "neighbour 1"), ("6-10", "neighbours 6\N{EN DASH}10"), ("11+", "neighbours 11+")):
        np.testing.assert_allclose(line_of(left, label).get_ydata(), relative[relative["group"] == group]["value"])
    total = table[(table["quantity"] == "offset") & (table["statistic"] == "total")]
    for layer in (0, 5, 11):
        mine = total[total["layer"] == layer].set_index("offset")["value"].astype(float)
        mine[0] = np.nan
        np.testing.assert_allclose(line_of(right, f"layer {layer}").get_ydata(), mine)


def test_cls_from_its_own_place_and_from_sep(make_tables: Make) -> None:
    table = make_tables(layers=2)["token_mixing"]
    left, right = plots(FIGURES["token_mixing_cls"](table))
    mine = table[(table["quantity"] == "cls") & (table["layer"] == 1)]
    np.testing.assert_allclose(line_of(left, "layer 1").get_ydata(), mine[mine["centre"] == "cls"]["value"][1:])
    np.testing.assert_allclose(line_of(right, "layer 1").get_ydata(), mine[mine["centre"] == "sep"]["value"])
    assert not can_draw("token_mixing_cls", table[table["quantity"] != "cls"])


def test_a_causal_model_answers_from_its_last_token(make_tables: Make) -> None:
    table = make_tables(layers=2)["token_mixing"]
    (axes,) = plots(FIGURES["token_mixing_cls"](table[table["centre"] != "sep"].assign(offset=-table["offset"].abs())))
    assert axes.get_xlabel() == "position relative to the last token"
    assert axes.get_ylabel().endswith("contribution to the last token")


def test_one_word_through_the_layers_is_marked(make_tables: Make) -> None:
    table = make_tables(layers=3)["token_mixing"]
    figure = FIGURES["token_mixing_word"](table)
    rows = table[table["quantity"] == "word"].sort_values(["layer", "key"])
    np.testing.assert_allclose(cells(meshes(figure)[0]).ravel(), rows["value"])
    (axes,) = plots(figure)
    assert not axes.yaxis_inverted()
    assert axes.get_title() == "what “new” is made of"
    assert [label.get_text() for label in axes.get_xticklabels() if label.get_color() == "#d55e00"] == ["new"]
    assert [line.get_xdata()[0] for line in axes.lines] == [1, 2]
    assert not can_draw("token_mixing_word", table[table["quantity"] != "word"])


@pytest.mark.parametrize(("size", "count"), [(25, 25), (90, 45)])
def test_words_of_long_texts_can_be_read(size: int, count: int) -> None:
    figure = FIGURES["token_mixing_word"](made_up(12, tokens=named(size), tags=False))
    assert figure.get_figwidth() == 6.8
    with style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        labels = plots(figure)[0].get_xticklabels()
        boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels]
    assert abs(len(labels) - count) <= 1  # the chosen one takes its neighbour's place
    assert all(left.x1 - right.x0 < 1 for left, right in pairwise(boxes))
    assert min(box.y0 for box in boxes) > -1


def test_parts_of_speech_are_ordered_by_the_last_layers_median_and_all_layers_are_shown(make_tables: Make) -> None:
    table = make_tables(layers=4)["token_mixing"]
    axes = [axis for axis in plots(FIGURES["token_mixing_tags"](table)) if axis.axison]
    assert [axis.get_title() for axis in axes] == [f"layer {layer}" for layer in range(4)]
    tagged = table[(table["quantity"] == "own") & (table["tag"] != "") & (table["statistic"] == "median")]
    order = tag_order(tagged)
    for layer, axis in enumerate(axes):
        expected = tagged[tagged["layer"] == layer].set_index("tag")["value"][order]
        medians = [line.get_ydata()[0] for line in axis.lines if line.get_color() == "#d55e00"]
        np.testing.assert_allclose(medians, expected)
    assert medians == sorted(medians, reverse=True)
    assert [label.get_text() for label in axes[-1].get_xticklabels()] == order
    two = plots(FIGURES["token_mixing_tags"](both_weights(make_tables, "token_mixing", layers=4)))
    assert [axis.get_title() for axis in two] == ["layer 0", "layer 1", "layer 3"] * 2


def test_many_tags_have_a_line_for_each_layer(make_tables: Make) -> None:
    table = make_tables(layers=3)["token_mixing"]
    noun = table[table["tag"] == "NOUN"]
    more = [noun.assign(tag=tag) for tag in ("VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "JJ", "JJR", "JJS")]
    axes = plots(FIGURES["token_mixing_tags"](pd.concat([table, *more], ignore_index=True).assign(tagset="penn")))
    assert [axis.get_title() for axis in axes] == ["layer 0", "layer 1", "layer 2"]
    assert len({round(axis.get_position().x0, 3) for axis in axes}) == 1
    assert len(axes[-1].get_xticklabels()) == 27


def test_a_part_of_speech_one_layer_lacks_leaves_a_gap(make_tables: Make) -> None:
    table = make_tables()["token_mixing"]
    order = tag_order(table[table["tag"].fillna("") != ""])
    without = table[~((table["tag"] == order[2]) & (table["layer"] == 0))]
    first = plots(FIGURES["token_mixing_tags"](without))[0]
    places = [np.mean(line.get_xdata()) for line in first.lines if line.get_color() == "#d55e00"]
    np.testing.assert_allclose(places, [place for place in range(len(order)) if place != 2])


def test_no_tags_no_figure() -> None:
    table = made_up(2, tags=False)
    assert not can_draw("token_mixing_tags", table)
    assert can_draw("token_mixing", table)


# --- the small table ---


def test_medians_in_percent_with_the_papers_and_the_stated_error(make_tables: Make) -> None:
    table = stacked(make_tables, "token_mixing", "mrpc", "cola", layers=6)
    grid = mixing(table)
    rows = {(row[0], row[1]): row[2:] for row in grid.rows}
    own = table[
        (table["task"] == "mrpc")
        & (table["quantity"] == "own")
        & (table["tag"] == "")
        & (table["statistic"] == "median")
    ]
    assert rows["MRPC", "median own contribution"] == [
        *(f"{100 * value:.1f}" for value in own["value"]), "30.6 (layer 1), 14.4 (layer 6), 10.7 (layer 12); of 12",
    ]  # fmt: skip
    assert rows["MRPC", "own not the largest"][-1] == (
        "0 (layer 1), 0 (layer 2), 0 (layer 3), 18 (layer 6), 30 (layer 11), 30 (layer 12); of 12"
    )
    assert rows["MRPC", "standard error of a contribution, relative"] == ["2.1"] * 6 + [NONE]
    assert rows["CoLA", "median own contribution"][-1] == NONE
    assert [row[0] for row in grid.rows] == ["CoLA"] * 3 + ["MRPC"] * 3
