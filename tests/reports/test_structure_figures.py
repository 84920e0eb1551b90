"""Figures of attention's structure: what they show is what the tables hold, with one run and two, and with parts missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from effective_attention.reports.figures.dependency_alignment import MOST_RELATIONS, aligned, best_heads, hits
from effective_attention.reports.figures.pos_attention import targeted_tags
from helpers.figures import FIGURES, Make, both_weights, can_draw, cells, meshes, plots, stacked

LAYERED = {"distance": "distance", "entropy": "entropy", "entropy_relative": "entropy", "variability": "variability"}


def square(rows: pd.DataFrame) -> np.ndarray:
    return rows.pivot_table(index="layer", columns="head", values="value").to_numpy()


def of_figure(name: str, table: pd.DataFrame) -> pd.DataFrame:
    if "statistic" not in table:
        return table
    return table[table["statistic"] == ("relative" if name.endswith("relative") else "entropy")]


# --- layer by head beside the layers' averages ---


@pytest.mark.parametrize("name", LAYERED)
def test_heatmaps_and_averages_are_the_tables_with_one_scale(name: str, make_tables: Make) -> None:
    table = make_tables(layers=6, heads=12)[LAYERED[name]]
    rows = of_figure(name, table)
    figure = FIGURES[name](table)
    drawn = meshes(figure)
    assert len(drawn) == 2
    for mesh, kind in zip(drawn, ("standard", "effective"), strict=True):
        np.testing.assert_allclose(cells(mesh), square(rows[rows["attention"] == kind]))
    top = 1.0 if name == "entropy_relative" else rows["value"].max()
    assert {mesh.get_clim() for mesh in drawn} == {(0.0, top)}
    assert {mesh.get_cmap().name for mesh in drawn} == {"BuPu"}
    averages = plots(figure)[2]
    for line, kind in zip(averages.lines, ("standard", "effective"), strict=False):
        expected = rows[rows["attention"] == kind].groupby("layer")["value"].mean()
        np.testing.assert_allclose(line.get_xdata(), expected)
        np.testing.assert_allclose(line.get_ydata(), np.arange(6) + 0.5)


@pytest.mark.parametrize("name", LAYERED)
def test_averages_stand_at_the_height_of_their_layers(name: str, make_tables: Make) -> None:
    figure = FIGURES[name](both_weights(make_tables, LAYERED[name], layers=6, heads=4))
    lines = np.array(plots(figure)).reshape(2, 3)
    for row in lines:
        heights = {(round(axes.get_position().y0, 3), round(axes.get_position().y1, 3)) for axes in row}
        assert len(heights) == 1
        assert {axes.get_ylim() for axes in row} == {(6.0, 0.0)}
    assert [row[0].get_ylabel() for row in lines] == ["MRPC\npretrained\nlayer", "MRPC\nfinetuned\nlayer"]
    assert len({row[2].get_xlim() for row in lines}) == 1  # averages of two runs can be compared


def test_every_point_lies_within_the_averages_panel(make_tables: Make) -> None:
    for row in (both_weights(make_tables, "distance"), both_weights(make_tables, "variability")):
        figure = FIGURES["distance" if "even" in row else "variability"](row)
        for axes in plots(figure)[2::3]:
            low, high = axes.get_xlim()
            assert all(low <= np.min(line.get_xdata()) <= np.max(line.get_xdata()) <= high for line in axes.lines)


def test_distance_of_even_attention_is_dotted(make_tables: Make) -> None:
    table = make_tables()["distance"]
    line = plots(FIGURES["distance"](table))[2].lines[2]
    assert line.get_label() == "even attention"
    assert line.get_xdata() == pytest.approx([13.7, 13.7])


@pytest.mark.parametrize("name", LAYERED)
def test_one_attention_alone_is_enough(name: str, make_tables: Make) -> None:
    table = make_tables()[LAYERED[name]]
    figure = FIGURES[name](table[table["attention"] == "effective"])
    assert [axes.get_title() for axes in plots(figure)] == ["effective attention", "mean over heads"]


def test_a_statistic_that_was_not_measured_is_not_drawn(make_tables: Make) -> None:
    table = make_tables()["entropy"]
    nats = table[table["statistic"] == "entropy"]
    assert can_draw("entropy", nats)
    assert not can_draw("entropy_relative", nats)


@pytest.mark.parametrize("analysis", ["distance", "entropy", "variability", "pos_attention", "dependency_alignment"])
def test_where_nothing_counted_nothing_is_drawn(analysis: str, make_tables: Make) -> None:
    from helpers.figures import figures_of

    table = make_tables()[analysis].assign(value=float("nan"))
    assert [name for name in figures_of(analysis) if can_draw(name, table)] == []


def test_a_head_without_a_value_is_grey(make_tables: Make) -> None:
    table = make_tables()["distance"]
    table.loc[(table["layer"] == 1) & (table["head"] == 2) & (table["attention"] == "standard"), "value"] = float("nan")
    values: Any = meshes(FIGURES["distance"](table))[0].get_array()
    assert np.ma.getmaskarray(values).sum() == 1
    assert np.ma.getmaskarray(values)[1, 2]


# --- distance against depth ---


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


# --- parts of speech ---


def test_tags_are_those_a_head_prefers_most(make_tables: Make) -> None:
    table = make_tables()["pos_attention"]
    head = (
        (table["layer"] == 1) & (table["head"] == 0) & (table["direction"] == "to") & (table["attention"] == "standard")
    )
    table.loc[head & (table["tag"] == "INTJ"), "value"] = 0.95
    assert targeted_tags(table, "to", 3)[0] == "INTJ"
    assert "INTJ" not in targeted_tags(table, "from", 3)
    assert len(targeted_tags(table, "to")) == 9


@pytest.mark.parametrize(
    ("name", "kind", "direction", "scale"),
    [
        ("pos_attention", "standard", "to", "Greens"),
        ("pos_attention_effective", "effective", "to", "Blues"),
        ("pos_attention_from", "standard", "from", "Greens"),
    ],
)
def test_one_panel_per_tag_with_its_layers_beside(
    name: str, kind: str, direction: str, scale: str, make_tables: Make
) -> None:
    table = make_tables(layers=6, heads=12)["pos_attention"]
    figure = FIGURES[name](table)
    drawn, tags = meshes(figure), targeted_tags(table, direction)
    assert len(drawn) == len(tags) == 9
    for mesh, tag in zip(drawn, tags, strict=True):
        rows = table[(table["tag"] == tag) & (table["direction"] == direction)]
        mine = rows[rows["attention"] == kind]
        np.testing.assert_allclose(cells(mesh), square(mine))
        assert mesh.get_clim() == (0.0, rows["value"].max())  # the same for standard and effective
        assert mesh.get_cmap().name == scale
        axes: Any = mesh.axes
        assert axes.get_title() == f"{tag}, even {100 * mine['even'].mean():.2g} %"
        strip = plots(figure)[plots(figure).index(axes) + 1]
        np.testing.assert_allclose(strip.lines[0].get_xdata(), mine.groupby("layer")["value"].mean())
        assert strip.lines[1].get_xdata()[0] == pytest.approx(mine["even"].mean())


def test_several_runs_are_rows_of_the_same_tags(make_tables: Make) -> None:
    table = stacked(make_tables, "pos_attention", "mrpc", "treebank", layers=3)
    figure = FIGURES["pos_attention"](table)
    titles = [axes.get_title().partition(",")[0] for axes in plots(figure) if axes.get_title()]
    assert len(titles) == 10
    assert titles[:5] == titles[5:] == targeted_tags(table, "to", 5)
    named = [axes.get_ylabel() for axes in plots(figure) if axes.get_ylabel()]
    assert named == ["MRPC\nlayer", "Treebank\nlayer"]


def test_few_tags_and_delimiters_have_their_names(make_tables: Make) -> None:
    table = make_tables()["pos_attention"].replace({"tag": {"NOUN": "cls", "VERB": "sep"}})
    figure = FIGURES["pos_attention"](table[table["tag"].isin(["cls", "sep"])])
    assert {axes.get_title().partition(",")[0] for axes in plots(figure) if axes.get_title()} == {"[CLS]", "[SEP]"}
    assert not can_draw("pos_attention_effective", table[table["attention"] == "standard"])
    assert not can_draw("pos_attention_from", table[table["direction"] == "to"])


# --- dependencies ---


def test_alignment_is_the_share_either_way_beside_the_baselines(make_tables: Make) -> None:
    table = make_tables("treebank", layers=6, heads=4)["dependency_alignment"]
    figure = FIGURES["dependency_alignment"](table)
    rows = aligned(table)
    assert set(rows["direction"]) == {"either"}
    for mesh, kind in zip(meshes(figure), ("standard", "effective"), strict=True):
        np.testing.assert_allclose(cells(mesh), square(rows[rows["attention"] == kind]))
    lines = {line.get_label(): line.get_xdata() for line in plots(figure)[2].lines}
    assert list(lines) == ["standard", "effective", "previous", "next", "random"]
    for name in ("previous", "next", "random"):
        assert lines[name][0] == rows.loc[rows["baseline"] == name, "value"].item()


def test_the_best_head_of_a_relation_by_hand() -> None:
    rows = [
        ("standard", 0, 1, "nsubj", "to_head", 0.5, "", 80), ("standard", 2, 0, "nsubj", "from_head", 0.7, "", 80),
        ("standard", 2, 1, "nsubj", "from_head", 0.6, "", 80), ("baseline", -1, -1, "nsubj", "from_head", 0.1, "previous", 80),
        ("baseline", -1, -1, "nsubj", "from_head", 0.2, "next", 80), ("baseline", -1, -1, "nsubj", "to_head", 0.6, "next", 80),
        ("standard", 1, 1, "det", "to_head", 0.9, "", 90), ("baseline", -1, -1, "det", "to_head", 0.6, "next", 90),
        ("effective", 1, 1, "det", "to_head", 1.0, "", 90),
    ]  # fmt: skip
    names = ["attention", "layer", "head", "relation", "direction", "value", "baseline", "count"]
    subject, determiner = best_heads(pd.DataFrame(rows, columns=names).assign(statistic="hits"), "standard")
    assert (subject.relation, subject.direction, subject.layer, subject.head) == ("nsubj", "from_head", 2, 0)
    assert subject.baselines == {"previous": 0.1, "next": 0.2}  # of its own direction
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
    np.testing.assert_allclose(previous.get_xdata(), [found.baselines["previous"] for found in best])
    assert axes.texts[0].get_text().startswith(f"{best[0].layer}.{best[0].head}")


def test_no_relation_often_enough_leaves_the_figure_out(make_tables: Make) -> None:
    table = make_tables()["dependency_alignment"]
    few = table[table["relation"] == "all"]
    assert len(hits(few)) == 0
    assert can_draw("dependency_alignment", few)
    assert not can_draw("dependency_alignment_relations", few)


def test_relations_of_two_runs_have_a_panel_each(make_tables: Make) -> None:
    figure = FIGURES["dependency_alignment_relations"](both_weights(make_tables, "dependency_alignment"))
    assert [axes.get_title() for axes in plots(figure)] == ["MRPC, pretrained", "MRPC, finetuned"]
