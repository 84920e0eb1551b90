"""Parts of speech: figures and the small table, against the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from effective_attention.reports.chapters.pos_attention import pos_attention_grid, targeted_tags
from helpers import layered
from helpers.figures import FIGURES, Make, can_draw, cells, figures_of, meshes, plots, stacked


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
        np.testing.assert_allclose(cells(mesh), layered.square(mine))
        assert mesh.get_clim() == (0.0, rows["value"].max())  # the same for standard and effective
        assert mesh.get_cmap().name == scale
        axes: Any = mesh.axes
        assert axes.get_title() == f"{tag}, even {100 * mine['even'].mean():.2g} %"
        strip = plots(figure)[plots(figure).index(axes) + 1]
        np.testing.assert_allclose(strip.lines[0].get_xdata(), mine.groupby("layer")["value"].mean())
        assert strip.lines[1].get_xdata()[0] == pytest.approx(mine["even"].mean())


def test_several_runs_have_a_line_each_of_the_same_tags(make_tables: Make) -> None:
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


def test_where_nothing_counted_nothing_is_drawn(make_tables: Make) -> None:
    table = make_tables()["pos_attention"].assign(value=float("nan"))
    assert [name for name in figures_of("pos_attention") if can_draw(name, table)] == []


def test_parts_of_speech_with_the_head_that_prefers_each(make_tables: Make) -> None:
    table = make_tables(layers=2, heads=3)["pos_attention"]
    grid = pos_attention_grid(table)
    assert [row[1] for row in grid.rows] == ["to"] * 9 + ["from"] * 9
    row = grid.rows[9]
    rows = table[(table["tag"] == row[2]) & (table["direction"] == "from") & (table["attention"] == "standard")]
    best = rows.loc[rows["value"].idxmax()]
    most = [f"{100 * rows['value'].mean():.1f}", f"{100 * best['value']:.1f}"]
    most.append(f"layer {best['layer']}, head {best['head']}")
    assert row[3:7] == [f"{100 * best['even']:.1f}", *most]


@pytest.mark.parametrize("name", ["pos_attention", "pos_attention_from"])
def test_layers_of_a_deep_model_can_be_told_apart(name: str, make_tables: Make) -> None:
    table = layered.deep(make_tables(layers=6, heads=9)["pos_attention"], times=5)
    layered.assert_many_layers_can_be_told_apart(name, table)
