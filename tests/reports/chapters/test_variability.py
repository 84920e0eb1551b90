"""Position or content: the figure and the small table, against the table."""

from __future__ import annotations

from effective_attention.reports.chapters.variability import variability_grid
from helpers import layered
from helpers.figures import Make, both_weights, can_draw, figures_of


def test_heatmaps_and_averages_are_the_table_with_one_scale(make_tables: Make) -> None:
    table = make_tables(layers=6, heads=12)["variability"]
    layered.assert_heatmaps_and_averages("variability", table, table, table["value"].max())


def test_averages_stand_at_the_height_of_their_layers_and_within_their_panel(make_tables: Make) -> None:
    table = both_weights(make_tables, "variability", layers=6, heads=4)
    layered.assert_averages_stand_at_their_layers("variability", table)
    layered.assert_every_point_lies_within_the_averages_panel("variability", table)


def test_one_attention_alone_is_enough(make_tables: Make) -> None:
    layered.assert_one_attention_alone_is_enough("variability", make_tables()["variability"])


def test_where_nothing_counted_nothing_is_drawn(make_tables: Make) -> None:
    table = make_tables()["variability"].assign(value=float("nan"))
    assert [name for name in figures_of("variability") if can_draw(name, table)] == []


def test_variability_by_layer_and_the_most_variable(make_tables: Make) -> None:
    table = make_tables(layers=3, heads=4)["variability"]
    grid = variability_grid(table)
    assert grid.rows[0][1] == "standard"
    means = table[table["attention"] == "standard"].groupby("layer")["value"].mean()
    assert grid.rows[0][2:5] == [f"{value:.3f}" for value in means]
    assert grid.rows[0][5].startswith(f"layer {means.idxmax()} ")
