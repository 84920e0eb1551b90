"""Attention along dependencies: figures, small tables and logged numbers, against the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from effective_attention.reports.chapters import CHAPTERS
from effective_attention.reports.chapters.dependency_alignment.reductions import (
    MOST_RELATIONS,
    aligned,
    best_heads,
    fixed_rules,
    hits,
)
from effective_attention.reports.chapters.dependency_alignment.tables import (
    alignment_and_distance,
    alignment_grid,
    relations_grid,
)
from effective_attention.reports.grid import NONE
from effective_attention.reports.scalars import named_scalars
from helpers import layered
from helpers.figures import FIGURES, Make, both_weights, can_draw, cells, figures_of, meshes, plots, stacked


def test_alignment_is_the_share_either_way_beside_the_fixed_rules(make_tables: Make) -> None:
    table = make_tables("treebank", layers=6, heads=4)["dependency_alignment"]
    figure = FIGURES["dependency_alignment"](table)
    rows = aligned(table)
    assert set(rows["direction"]) == {"either"}
    for mesh, kind in zip(meshes(figure), ("standard", "effective"), strict=True):
        np.testing.assert_allclose(cells(mesh), layered.square(rows[rows["attention"] == kind]))
    lines = {line.get_label(): line.get_xdata() for line in plots(figure)[2].lines}
    assert list(lines) == ["standard", "effective", "previous", "next", "random"]
    for name in ("previous", "next", "random"):
        assert lines[name][0] == rows[name].unique().item()


def test_the_best_head_of_a_relation_by_hand() -> None:
    none = float("nan")
    rows = [
        ("standard", 0, 1, "nsubj", "to_head", 0.5, none, 0.6, none, 80),
        ("standard", 2, 0, "nsubj", "from_head", 0.7, 0.1, 0.2, none, 80),
        ("standard", 2, 1, "nsubj", "from_head", 0.6, 0.1, 0.2, none, 80),
        ("standard", 1, 1, "det", "to_head", 0.9, none, 0.6, none, 90),
        ("effective", 1, 1, "det", "to_head", 1.0, none, 0.6, none, 90),
    ]
    names = ["attention", "layer", "head", "relation", "direction", "value", "previous", "next", "random", "count"]
    subject, determiner = best_heads(pd.DataFrame(rows, columns=names).assign(statistic="hits"), "standard")
    assert (subject.relation, subject.direction, subject.layer, subject.head) == ("nsubj", "from_head", 2, 0)
    assert subject.rules == {"previous": 0.1, "next": 0.2}  # of its own direction
    assert subject.gain == pytest.approx(0.5)
    assert (determiner.relation, determiner.count) == ("det", 90)
    assert determiner.gain == pytest.approx(0.3)


def test_relations_are_the_most_frequent_ordered_by_gain_and_named_by_head(make_tables: Make) -> None:
    table = make_tables("treebank", layers=3, heads=4)["dependency_alignment"]
    (axes,) = plots(FIGURES["dependency_alignment_relations"](table))
    best = best_heads(table, "standard")
    assert [label.get_text() for label in axes.get_yticklabels()] == [found.relation for found in best]
    assert len(best) == MOST_RELATIONS
    assert "discourse" not in {found.relation for found in best}  # the rarest
    assert [found.gain for found in best] == sorted((found.gain for found in best), reverse=True)
    filled, empty = [line for line in axes.lines if line.get_marker() == "o"]
    assert (to_hex(filled.get_markerfacecolor()), to_hex(empty.get_markerfacecolor())) == ("#1b7837", "#ffffff")
    for line, direction in ((filled, "to_head"), (empty, "from_head")):
        np.testing.assert_allclose(line.get_xdata(), [found.value for found in best if found.direction == direction])
    previous = next(line for line in axes.lines if line.get_marker() == "<")
    np.testing.assert_allclose(previous.get_xdata(), [found.rules["previous"] for found in best])
    assert axes.texts[0].get_text().startswith(f"L{best[0].layer} H{best[0].head}")


def test_no_relation_often_enough_leaves_the_figure_out(make_tables: Make) -> None:
    table = make_tables()["dependency_alignment"]
    few = table[table["relation"] == "all"]
    assert len(hits(few)) == 0
    assert can_draw("dependency_alignment", few)
    assert not can_draw("dependency_alignment_relations", few)


def test_a_rule_that_a_causal_model_cannot_follow_is_not_shown(make_tables: Make) -> None:
    table = make_tables("treebank", layers=2, heads=2)["dependency_alignment"].assign(next=0.0)
    figure = FIGURES["dependency_alignment_relations"](table)
    assert [line for axes in plots(figure) for line in axes.lines if line.get_marker() == ">"] == []
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert said[-2:] == ["previous word", "random"]


def test_relations_of_two_runs_have_a_panel_each(make_tables: Make) -> None:
    figure = FIGURES["dependency_alignment_relations"](both_weights(make_tables, "dependency_alignment"))
    assert [axes.get_title() for axes in plots(figure)] == ["MRPC, pretrained", "MRPC, finetuned"]


def test_where_nothing_counted_nothing_is_drawn(make_tables: Make) -> None:
    table = make_tables()["dependency_alignment"].assign(value=float("nan"))
    assert [name for name in figures_of("dependency_alignment") if can_draw(name, table)] == []


def test_rules_of_several_seeds_are_averaged(make_tables: Make) -> None:
    first, second = (aligned(make_tables(seed=seed)["dependency_alignment"]) for seed in (1, 2))
    both = fixed_rules(pd.concat([first, second], ignore_index=True))
    assert both == pytest.approx({name: (first[name].iloc[0] + second[name].iloc[0]) / 2 for name in both})
    assert list(both) == ["previous", "next", "random"]


def test_alignment_with_what_fixed_rules_reach(make_tables: Make) -> None:
    table = stacked(make_tables, "dependency_alignment", "mrpc", "treebank", layers=6, heads=4)
    grid = alignment_grid(table)
    assert grid.columns[8:11] == ["previous", "next", "random"]
    rows = table[(table["task"] == "treebank") & (table["direction"] == "either")]
    means = rows[rows["attention"] == "standard"].groupby("layer")["value"].mean()
    row = next(row for row in grid.rows if row[:2] == ["Treebank", "standard"])
    assert row[2:8] == [f"{value:.3f}" for value in means]
    assert row[8] == f"{rows['previous'].unique().item():.3f}"
    assert row[11].startswith(f"layer {means.idxmax()} ")


def test_the_best_head_of_each_relation_beside_the_best_rule(make_tables: Make) -> None:
    table = make_tables(layers=3, heads=4)["dependency_alignment"]
    grid = relations_grid(table)
    rows = table[(table["relation"] == "nsubj") & (table["statistic"] == "hits")]
    best = rows[rows["attention"] == "effective"].sort_values("value").iloc[-1]
    rule = max(("previous", "next", "random"), key=lambda name: best[name])
    row = next(row for row in grid.rows if row[1] == "nsubj" and row[3] == "effective")
    assert row[2] == "1800"
    looks = "to its head" if best["direction"] == "to_head" else "to its dependent"
    assert row[4:] == [
        f"layer {best['layer']}, head {best['head']}", looks, f"{best['value']:.3f}", f"{best[rule]:.3f} ({rule})",
        f"{best['value'] - best[rule]:.3f}",
    ]  # fmt: skip
    assert len(row) == len(grid.columns)
    assert relations_grid(table[table["relation"] == "all"]).rows == []


def test_alignment_against_distance_head_by_head(make_tables: Make) -> None:
    aligned = both_weights(make_tables, "dependency_alignment", layers=3, heads=4)
    shares = aligned[aligned["direction"] == "either"]
    far = shares.drop(columns=["relation", "direction"]).assign(value=-shares["value"]).sample(frac=1, random_state=0)
    grid = alignment_and_distance({"dependency_alignment": aligned, "distance": far})
    assert [row[:2] for row in grid.rows][::2] == [["MRPC, pretrained", "standard"], ["MRPC, finetuned", "standard"]]
    assert {tuple(row[2:]) for row in grid.rows} == {("-1.00", "-1.00", "12")}
    only = alignment_and_distance({"dependency_alignment": aligned, "distance": far[far["checkpoint"] == ""]})
    assert [row[:2] for row in only.rows] == [["MRPC", "standard"], ["MRPC", "effective"]]
    assert alignment_and_distance({"dependency_alignment": aligned}).rows == []
    constant = alignment_and_distance({"dependency_alignment": aligned, "distance": far.assign(value=1.0)})
    assert {row[2] for row in constant.rows} == {NONE}


def test_layer_means_of_the_share_either_way_are_named(make_tables: Make) -> None:
    rows = make_tables(layers=2, heads=3)["dependency_alignment"]
    scalars = named_scalars({"dependency_alignment": rows}, CHAPTERS)
    kinds = [f"{kind}/layer_0{layer}" for kind in ("standard", "effective") for layer in (0, 1)]
    assert list(scalars) == [f"alignment/{kind}" for kind in kinds]
    mine = rows[(rows["direction"] == "either") & (rows["attention"] == "effective") & (rows["layer"] == 1)]
    assert scalars["alignment/effective/layer_01"] == pytest.approx(mine["value"].mean())
