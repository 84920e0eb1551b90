"""Evaluation time: ours beside the paper's."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from effective_attention.reports.chapters.timing import timing_table
from effective_attention.reports.grid import NONE
from helpers.figures import FIGURES, Make, plots, stacked


def bar_groups(figure: Figure) -> list[BarContainer]:
    return [group for group in plots(figure)[0].containers if isinstance(group, BarContainer)]


def test_timing_stands_beside_the_papers_ratio(make_tables: Make) -> None:
    figure = FIGURES["timing"](stacked(make_tables, "timing", "rte", "cola"))
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in bar_groups(figure)}
    assert heights["effective"] == [1.31, 1.31]
    assert heights["effective in the paper"] == pytest.approx([2.0, np.nan], nan_ok=True)


def test_quartiles_are_drawn_around_the_ratio(make_tables: Make) -> None:
    figure = FIGURES["timing"](stacked(make_tables, "timing", "rte"))
    bars = next(bars for bars in bar_groups(figure) if bars.get_label() == "effective")
    (whisker,) = bars.errorbar[2][0].get_segments()
    assert whisker[:, 1].tolist() == pytest.approx([1.26, 1.41])


def test_where_no_time_was_told_there_are_dashes_and_no_bars(make_tables: Make) -> None:
    table = stacked(make_tables, "timing", "rte")
    numbers = ["seconds", "examples_per_second", "ratio", "ratio_low", "ratio_high"]
    table[numbers] = np.nan
    figure = FIGURES["timing"](table)
    bars = next(bars for bars in bar_groups(figure) if bars.get_label() == "effective")
    assert not np.isfinite([bar.get_height() for bar in bars]).any()
    (row,) = timing_table(table).rows
    assert row[1:8] == [NONE] * 7
    assert row[-1] == "2.00"
