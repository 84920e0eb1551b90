"""How broadly attention is spread: figures and small tables, against the table."""

from __future__ import annotations

import pytest

from effective_attention.reports.chapters.entropy import entropy_grid, relative_entropy_grid
from helpers import layered
from helpers.figures import Make, both_weights, can_draw, figures_of

STATISTICS = {"entropy": "entropy", "entropy_relative": "relative"}


@pytest.mark.parametrize("name", STATISTICS)
def test_heatmaps_and_averages_are_the_table_with_one_scale(name: str, make_tables: Make) -> None:
    table = make_tables(layers=6, heads=12)["entropy"]
    rows = table[table["statistic"] == STATISTICS[name]]
    top = 1.0 if name == "entropy_relative" else rows["value"].max()
    layered.assert_heatmaps_and_averages(name, table, rows, top)


@pytest.mark.parametrize("name", STATISTICS)
def test_averages_stand_at_the_height_of_their_layers(name: str, make_tables: Make) -> None:
    layered.assert_averages_stand_at_their_layers(name, both_weights(make_tables, "entropy", layers=6, heads=4))


@pytest.mark.parametrize("name", STATISTICS)
def test_one_attention_alone_is_enough(name: str, make_tables: Make) -> None:
    layered.assert_one_attention_alone_is_enough(name, make_tables()["entropy"])


def test_where_nothing_counted_nothing_is_drawn(make_tables: Make) -> None:
    table = make_tables()["entropy"].assign(value=float("nan"))
    assert [name for name in figures_of("entropy") if can_draw(name, table)] == []


def test_a_statistic_that_was_not_measured_is_not_drawn(make_tables: Make) -> None:
    table = make_tables()["entropy"]
    nats = table[table["statistic"] == "entropy"]
    assert can_draw("entropy", nats)
    assert not can_draw("entropy_relative", nats)


def test_entropy_in_nats_and_relative(make_tables: Make) -> None:
    table = make_tables(layers=3, heads=4)["entropy"]
    for grid, statistic, digits in ((entropy_grid(table), "entropy", 2), (relative_entropy_grid(table), "relative", 3)):
        rows = table[(table["statistic"] == statistic) & (table["attention"] == "standard")]
        means = rows.groupby("layer")["value"].mean()
        assert grid.rows[0][2:5] == [f"{value:.{digits}f}" for value in means]
        assert grid.rows[0][5].startswith(f"layer {means.idxmin()} ")
    assert relative_entropy_grid(table[table["statistic"] == "entropy"]).rows == []
