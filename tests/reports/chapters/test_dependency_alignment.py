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


def half(sentences: str, rows: list[tuple]) -> pd.DataFrame:
    names = ["attention", "layer", "head", "relation", "direction", "value", "offset", "fixed", "random", "count"]
    return pd.DataFrame(rows, columns=names).assign(statistic="hits", sentences=sentences)


def by_hand() -> pd.DataFrame:
    choosing = [
        ("standard", 0, 1, "nsubj", "to_head", 0.5, 1, 0.6, 0.1, 40),
        ("standard", 2, 0, "nsubj", "from_head", 0.7, -2, 0.2, 0.1, 40),
        ("standard", 2, 1, "nsubj", "from_head", 0.6, -2, 0.2, 0.1, 40),
        ("standard", 1, 1, "det", "to_head", 0.9, 1, 0.3, 0.4, 50),
        ("effective", 1, 1, "det", "to_head", 1.0, 1, 0.6, 0.4, 50),
    ]
    measuring = [
        ("standard", 0, 1, "nsubj", "to_head", 0.55, 1, 0.6, 0.1, 38),
        ("standard", 2, 0, "nsubj", "from_head", 0.65, -2, 0.15, 0.1, 38),
        ("standard", 2, 1, "nsubj", "from_head", 0.95, -2, 0.15, 0.9, 38),
        ("standard", 1, 1, "det", "to_head", 0.75, 1, 0.7, 0.35, 30),
        ("effective", 1, 1, "det", "to_head", 1.0, 1, 0.7, 0.35, 30),
    ]
    every = [(*row[:5], 0.99, *row[6:9], 80) for row in choosing]  # chosen by nobody
    return pd.concat([half("choosing", choosing), half("measuring", measuring), half("all", every)])


def test_the_best_head_of_a_relation_is_chosen_on_one_half_and_measured_on_the_other() -> None:
    subject, determiner = best_heads(by_hand(), "standard")
    assert (subject.relation, subject.direction, subject.layer, subject.head) == ("nsubj", "from_head", 2, 0)
    assert subject.value == 0.65  # not the 0.95 of the head that is best there, nor the 0.70 of where it was chosen
    assert (subject.rule, subject.reached) == ("2 words before", 0.15)  # of its own direction
    assert subject.gain == pytest.approx(0.5)
    assert (determiner.relation, determiner.count) == ("det", 30)
    assert (determiner.rule, determiner.reached) == ("random", 0.35)  # the better one of the half to choose on
    assert determiner.gain == pytest.approx(0.4)


def test_numbers_of_the_half_to_measure_on_change_no_choice() -> None:
    table = by_hand()
    measuring = table["sentences"] == "measuring"
    other = table.assign(value=table["value"].mask(measuring, 1 - table["value"]), random=0.45)
    first, second = (sorted(best_heads(one, "standard"), key=lambda best: best.relation) for one in (table, other))
    places = [[(best.relation, best.direction, best.layer, best.head) for best in found] for found in (first, second)]
    assert places[0] == places[1]
    assert [best.value for best in second] == pytest.approx([1 - best.value for best in first])


def test_a_relation_of_one_half_alone_has_no_best_head() -> None:
    table = by_hand()
    gone = (table["sentences"] == "measuring") & (table["relation"] == "det")
    assert [best.relation for best in best_heads(table.assign(value=table["value"].mask(gone)), "standard")] == [
        "nsubj"
    ]


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
    rule = next(line for line in axes.lines if line.get_marker() == "|")
    np.testing.assert_allclose(rule.get_xdata(), [found.reached for found in best])
    assert axes.texts[0].get_text().startswith(f"L{best[0].layer} H{best[0].head}")


def test_no_relation_often_enough_leaves_the_figure_out(make_tables: Make) -> None:
    table = make_tables()["dependency_alignment"]
    few = table[table["relation"] == "all"]
    assert len(hits(few)) == 0
    assert can_draw("dependency_alignment", few)
    assert not can_draw("dependency_alignment_relations", few)


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
    rows = aligned(table[table["task"] == "treebank"])
    means = rows[rows["attention"] == "standard"].groupby("layer")["value"].mean()
    row = next(row for row in grid.rows if row[:2] == ["Treebank", "standard"])
    assert row[2:8] == [f"{value:.3f}" for value in means]
    assert row[8] == f"{rows['previous'].unique().item():.3f}"
    assert row[11].startswith(f"layer {means.idxmax()} ")


def test_the_best_head_of_each_relation_beside_the_best_rule(make_tables: Make) -> None:
    table = make_tables(layers=3, heads=4)["dependency_alignment"]
    grid = relations_grid(table)
    (best,) = [found for found in best_heads(table, "effective") if found.relation == "nsubj"]
    row = next(row for row in grid.rows if row[1] == "nsubj" and row[3] == "effective")
    assert row[2] == "900"  # of the half to measure on
    looks = "to its head" if best.direction == "to_head" else "to its dependent"
    assert best.rule in ("2 words before", "random")
    assert row[4:] == [
        f"layer {best.layer}, head {best.head}", looks, f"{best.value:.3f}", f"{best.reached:.3f} ({best.rule})",
        f"{best.gain:.3f}",
    ]  # fmt: skip
    assert len(row) == len(grid.columns)
    assert relations_grid(table[table["relation"] == "all"]).rows == []


def test_alignment_against_distance_head_by_head(make_tables: Make) -> None:
    table = both_weights(make_tables, "dependency_alignment", layers=3, heads=4)
    shares = aligned(table)
    far = shares.drop(columns=["relation", "direction"]).assign(value=-shares["value"]).sample(frac=1, random_state=0)
    grid = alignment_and_distance({"dependency_alignment": table, "distance": far})
    assert [row[:2] for row in grid.rows][::2] == [["MRPC, pretrained", "standard"], ["MRPC, finetuned", "standard"]]
    assert {tuple(row[2:]) for row in grid.rows} == {("-1.00", "-1.00", "12")}
    only = alignment_and_distance({"dependency_alignment": table, "distance": far[far["checkpoint"] == ""]})
    assert [row[:2] for row in only.rows] == [["MRPC", "standard"], ["MRPC", "effective"]]
    assert alignment_and_distance({"dependency_alignment": table}).rows == []
    constant = alignment_and_distance({"dependency_alignment": table, "distance": far.assign(value=1.0)})
    assert {row[2] for row in constant.rows} == {NONE}


def test_layer_means_of_the_share_either_way_are_named(make_tables: Make) -> None:
    rows = make_tables(layers=2, heads=3)["dependency_alignment"]
    scalars = named_scalars({"dependency_alignment": rows}, CHAPTERS)
    kinds = [f"{kind}/layer_0{layer}" for kind in ("standard", "effective") for layer in (0, 1)]
    assert list(scalars) == [f"alignment/{kind}" for kind in kinds]
    mine = aligned(rows)
    mine = mine[(mine["attention"] == "effective") & (mine["layer"] == 1)]
    assert scalars["alignment/effective/layer_01"] == pytest.approx(mine["value"].mean())
