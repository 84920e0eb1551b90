"""Figures of token identity and of token mixing: the table's values in the right place, and what was not asked for left out."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.drawing.files import write_figures
from effective_attention.reports.drawing.style import style
from effective_attention.reports.figures.token_identity import MAP_COLOURS, rates
from effective_attention.reports.figures.token_mixing_words import tag_order
from effective_attention.reports.papers.brunner2020 import BRUNNER_NOT_LARGEST, BRUNNER_OWN, BRUNNER_RATES
from helpers.figures import FIGURES, Make, both_weights, can_draw, cells, line_of, meshes, named, plots
from helpers.identifiability_tables import frame, mixing

# --- identity ---


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


# --- mixing ---


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
    figure = FIGURES["token_mixing_word"](frame(mixing(np.random.default_rng(0), 12, tokens=named(size), tags=False)))
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


def test_a_part_of_speech_one_layer_lacks_leaves_a_gap(make_tables: Make) -> None:
    table = make_tables()["token_mixing"]
    order = tag_order(table[table["tag"].fillna("") != ""])
    without = table[~((table["tag"] == order[2]) & (table["layer"] == 0))]
    first = plots(FIGURES["token_mixing_tags"](without))[0]
    places = [np.mean(line.get_xdata()) for line in first.lines if line.get_color() == "#d55e00"]
    np.testing.assert_allclose(places, [place for place in range(len(order)) if place != 2])


def test_no_tags_no_figure() -> None:
    table = frame(mixing(np.random.default_rng(0), 2, tags=False))
    assert not can_draw("token_mixing_tags", table)
    assert can_draw("token_mixing", table)
