"""How far attention reaches: figures, the small table and logged numbers, against the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.chapters.distance import distance_grid
from effective_attention.reports.scalars import named_scalars
from helpers import layered
from helpers.figures import FIGURES, Make, both_weights, can_draw, figures_of, meshes, plots


def test_heatmaps_and_averages_are_the_table_with_one_scale(make_tables: Make) -> None:
    table = make_tables(layers=6, heads=12)["distance"]
    layered.assert_heatmaps_and_averages("distance", table, table, table["value"].max())


def test_averages_stand_at_the_height_of_their_layers_and_within_their_panel(make_tables: Make) -> None:
    table = both_weights(make_tables, "distance", layers=6, heads=4)
    layered.assert_averages_stand_at_their_layers("distance", table)
    layered.assert_every_point_lies_within_the_averages_panel("distance", table)


def test_layers_of_a_deep_model_can_be_told_apart(make_tables: Make) -> None:
    table = layered.deep(make_tables(layers=6, heads=9)["distance"], times=5)
    layered.assert_many_layers_can_be_told_apart("distance", table)


def test_averages_that_are_the_same_are_both_seen(make_tables: Make) -> None:
    table = make_tables()["distance"]
    standard = table[table["attention"] == "standard"]
    twice = pd.concat([standard, standard.assign(attention="effective")])
    below, above = plots(FIGURES["distance"](twice))[2].lines[:2]
    assert below.get_zorder() == above.get_zorder()  # the first is drawn first
    assert below.get_linewidth() > above.get_linewidth() + 1
    assert below.get_markersize() > above.get_markersize() + 1


def test_depth_numbers_only_layers_that_there_are(make_tables: Make) -> None:
    table = layered.deep(make_tables(layers=6, heads=2)["distance"], times=5)
    for axes in plots(FIGURES["distance_depth"](table)):
        assert axes.get_xticks().tolist() == [0, 5, 10, 15, 20, 25]


def test_one_attention_alone_is_enough(make_tables: Make) -> None:
    layered.assert_one_attention_alone_is_enough("distance", make_tables()["distance"])


def test_where_nothing_counted_nothing_is_drawn(make_tables: Make) -> None:
    table = make_tables()["distance"].assign(value=float("nan"))
    assert [name for name in figures_of("distance") if can_draw(name, table)] == []


def test_distance_of_even_attention_is_dotted(make_tables: Make) -> None:
    table = make_tables()["distance"].assign(even=13.7)
    line = plots(FIGURES["distance"](table))[2].lines[2]
    assert line.get_label() == "even attention"
    assert line.get_xdata() == pytest.approx([13.7, 13.7])


def test_a_head_without_a_value_is_grey(make_tables: Make) -> None:
    table = make_tables()["distance"]
    table.loc[(table["layer"] == 1) & (table["head"] == 2) & (table["attention"] == "standard"), "value"] = float("nan")
    values: Any = meshes(FIGURES["distance"](table))[0].get_array()
    assert np.ma.getmaskarray(values).sum() == 1
    assert np.ma.getmaskarray(values)[1, 2]


def test_depth_has_a_dot_per_head_and_pretrained_beside_finetuned(make_tables: Make) -> None:
    table = both_weights(make_tables, "distance", layers=6, heads=5)
    figure = FIGURES["distance_depth"](table)
    left, right = plots(figure)
    assert (left.get_title(), right.get_title()) == ("standard attention", "effective attention")
    assert left.get_ylabel() == "MRPC\nmean distance (tokens)"
    for axes, kind in ((left, "standard"), (right, "effective")):
        dots, means, tuned_dots, tuned_means, _ = axes.lines
        for line, checkpoint in ((dots, ""), (tuned_dots, "runs/x")):
            rows = table[(table["attention"] == kind) & (table["checkpoint"] == checkpoint)]
            np.testing.assert_allclose(line.get_ydata(), rows["value"])
        tuned = table[(table["attention"] == kind) & (table["checkpoint"] == "runs/x")]
        np.testing.assert_allclose(tuned_means.get_ydata(), tuned.groupby("layer")["value"].mean())
        assert means.get_color() != tuned_means.get_color()
        assert axes.get_ylim()[0] == 0
        assert axes.get_ylim()[1] >= table["value"].max()  # no dot is cut off
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["pretrained", "finetuned, standard", "finetuned, effective", "even attention"]


def test_depth_of_one_run_needs_no_word_on_weights(make_tables: Make) -> None:
    figure = FIGURES["distance_depth"](make_tables()["distance"])
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said == ["standard, layer mean", "effective, layer mean", "even attention"]


def test_depth_has_one_dot_for_a_head_however_many_seeds(make_tables: Make) -> None:
    first, second = (make_tables()["distance"].assign(run=run) for run in (0, 1))
    second["value"] += 2
    dots = plots(FIGURES["distance_depth"](pd.concat([first, second])))[0].lines[0]
    np.testing.assert_allclose(dots.get_ydata(), first[first["attention"] == "standard"]["value"] + 1)


def test_distance_by_layer_the_furthest_and_its_depth(make_tables: Make) -> None:
    table = both_weights(make_tables, "distance", layers=6, heads=4).assign(even=13.7)
    grid = distance_grid(table)
    assert grid.columns[2:8] == [f"layer {layer}" for layer in range(6)]
    assert grid.groups[1] == ("mean over heads", 6)
    assert [row[:2] for row in grid.rows] == [
        ["MRPC, pretrained", "standard"], ["MRPC, pretrained", "effective"],
        ["MRPC, finetuned", "standard"], ["MRPC, finetuned", "effective"],
    ]  # fmt: skip
    mine = table[(table["checkpoint"] == "runs/x") & (table["attention"] == "effective")]
    means = mine.groupby("layer")["value"].mean()
    assert grid.rows[3][2:8] == [f"{value:.1f}" for value in means]
    assert grid.rows[3][8] == "13.7"
    assert grid.rows[3][9] == f"layer {means.idxmax()} ({means.idxmax() / 5:.2f})"
    spearman = mine["layer"].astype(float).rank().corr(mine["value"].rank())
    assert grid.rows[3][10] == f"{spearman:.2f}"
    assert sum(span for _, span in grid.groups) == len(grid.columns)


def test_layer_means_are_named(make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)["distance"]
    scalars = named_scalars({"distance": table}, CHAPTERS)
    kinds = [f"{kind}/layer_0{layer}" for kind in ("standard", "effective") for layer in (0, 1)]
    assert list(scalars) == [f"distance/{kind}" for kind in kinds]
    mine = table[(table["attention"] == "effective") & (table["layer"] == 1)]
    assert scalars["distance/effective/layer_01"] == pytest.approx(mine["value"].mean())
