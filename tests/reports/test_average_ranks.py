"""The drawing of average ranks: dots, the ruler, and bars that join what is not told apart."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from effective_attention.reports.drawing.average_ranks import columns_of, draw_average_ranks

NAMES, RANKS = ["a", "b", "c", "d"], [1.5, 1.9, 3.1, 3.5]


def drawn(difference: float, groups: list[tuple[int, int]]) -> Axes:
    axes: Axes = Figure().subplots()
    draw_average_ranks(axes, NAMES, ["red", "green", "blue", "black"], RANKS, difference, groups)
    return axes


def test_dots_names_ruler_and_bars() -> None:
    axes = drawn(1.3, [(0, 1), (1, 2), (2, 3)])
    assert [label.get_text() for label in axes.get_yticklabels()] == NAMES
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [(dot.get_xdata()[0], dot.get_ydata()[0]) for dot in dots] == list(zip(RANKS, range(4), strict=True))
    assert [dot.get_color() for dot in dots] == ["red", "green", "blue", "black"]
    (ruler,) = [line for line in axes.lines if line.get_marker() == "|"]
    assert list(ruler.get_xdata()) == pytest.approx([1.5, 2.8])
    assert axes.texts[0].get_text() == "critical difference 1.30"
    bars = [line for line in axes.lines if line.get_marker() == "None"]
    assert [list(bar.get_ydata()) for bar in bars] == [[-0.25, 1.25], [0.75, 2.25], [1.75, 3.25]]
    low, high = axes.get_xlim()
    right = (max(RANKS) - low) / (high - low)
    assert all(right < bar.get_xdata()[0] < 1 for bar in bars), "bars stand beside the dots, inside the panel"
    assert all(tick <= max(RANKS) + 0.1 for tick in axes.get_xticks()), "and no rank is written below them"
    assert axes.yaxis_inverted()


def test_nothing_can_be_told_apart_without_examples() -> None:
    axes = drawn(math.inf, [(0, 3)])
    assert not [line for line in axes.lines if line.get_marker() == "|"]
    assert not axes.texts
    assert drawn(0.1, []).texts


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=7))
def test_bars_of_one_column_never_meet(given_groups: list[tuple[int, int]]) -> None:
    groups = sorted((first, first + more) for first, more in given_groups)
    columns = columns_of(groups)
    assert len(columns) == len(groups)
    for one in range(len(groups)):
        for other in range(one):
            if columns[one] == columns[other]:
                assert groups[other][1] < groups[one][0]
