"""The chapter on attention between types of tokens: figures and table, against the table they sum up."""

from __future__ import annotations

import numpy as np

from effective_attention.reports.chapters.token_type_profile import CHAPTER, type_profile
from effective_attention.reports.drawing.style import COLOURS
from helpers.figures import FIGURES, Make, assert_runs_are_named, can_draw, line_of, plots


def test_the_chapter_says_where_the_paper_shows_the_same() -> None:
    assert CHAPTER.source.startswith("Brunner et al. 2020")
    assert CHAPTER.paper_says


def test_two_runs_are_drawn_apart(make_tables: Make) -> None:
    assert_runs_are_named("token_type_profile", make_tables)


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
        assert any(set(other.get_ydata()) == {mine["even"].iloc[0]} for other in axes.lines)


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


def test_attention_to_types_beside_even_attention(make_tables: Make) -> None:
    table = make_tables()["token_type_profile"]
    grid = type_profile(table)
    assert grid.columns == ["task", "attention", "to [CLS]", "to [SEP]", "to period, comma", "to other"]
    everything = table[table["source"] == "all"]
    means = everything[everything["target"] == "sep"].groupby("attention")["value"].mean()
    assert [row[3] for row in grid.rows] == [f"{means['standard']:.3f}", f"{means['effective']:.3f}", "0.040"]
