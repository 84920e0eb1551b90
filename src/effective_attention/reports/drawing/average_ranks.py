"""Average ranks with the critical difference (Demsar 2006, Fig. 1), turned by a quarter so that many names fit.

Names stand below each other, the best on top; what is closer than the critical difference is joined by a bar at the
right: two that no bar joins are told apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from effective_attention.reports.drawing.style import tidy_axes

_INK = "#444444"
_BAR = 0.022  # of the panel's width, for each column of bars
_BESIDE = 0.03  # between dots and bars


def draw_average_ranks(
    axes: Axes,
    names: Sequence[str],
    colours: Sequence[str],
    ranks: Sequence[float],
    difference: float,
    groups: Sequence[tuple[int, int]],
) -> None:
    """Draw names, dots, the critical difference as a ruler on top, and groups as bars.

    Args:
        axes: An empty panel.
        names: Sorted by rank, the best first.
        colours: Of the dots.
        ranks: From 1, the best.
        difference: The critical one; infinite: nothing can be told apart, and there is no ruler.
        groups: First and last place of each group of names that are not told apart.
    """
    places = range(len(names))
    for place, rank, colour in zip(places, ranks, colours, strict=True):
        axes.plot([rank], [place], "o", color=colour, markersize=3, markeredgewidth=0)
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.4, -1.9)
    _ruler(axes, ranks[0], difference, len(names))
    _bars(axes, ranks, groups)
    axes.grid(axis="y", color="#eeeeee", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    tidy_axes(axes)


def columns_of(groups: Sequence[tuple[int, int]]) -> list[int]:
    """Give each group the first column in which it meets no other; groups come in the order of their first places.

    >>> columns_of([(0, 3), (2, 5), (4, 6), (7, 9)])
    [0, 1, 0, 0]
    """
    ends: list[int] = []
    found = []
    for first, last in groups:
        column = next((number for number, end in enumerate(ends) if end < first), len(ends))
        ends[column : column + 1] = [last]
        found.append(column)
    return found


def _bars(axes: Axes, ranks: Sequence[float], groups: Sequence[tuple[int, int]]) -> None:
    """Draw the groups in a strip at the right of the dots; the axis of ranks ends where the strip begins."""
    columns = columns_of(groups)
    strip = _BESIDE + _BAR * (max(columns, default=-1) + 1)
    margin = 0.03 * max(ranks[-1] - ranks[0], 1)
    low, high = ranks[0] - margin, ranks[-1] + margin
    axes.set_xlim(low, low + (high - low) / (1 - strip))
    axes.spines["bottom"].set_bounds(low, high)
    ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
    axes.set_xticks([tick for tick in ticks if low <= tick <= high])
    for column, (first, last) in zip(columns, groups, strict=True):
        across = 1 - strip + _BESIDE + _BAR * column
        ends = [first - 0.25, last + 0.25]
        line = axes.plot([across, across], ends, color=_INK, linewidth=1.6, solid_capstyle="butt")[0]
        line.set_transform(axes.get_yaxis_transform())


def _ruler(axes: Axes, start: float, difference: float, most: int) -> None:
    """Draw the critical difference to scale above the first name."""
    if difference > most:  # also where it is infinite: no two ranks can be so far apart
        return
    axes.plot([start, start + difference], [-1, -1], "|-", color=_INK, linewidth=0.9, markersize=4)
    axes.text(start, -1.25, f"critical difference {difference:.2f}", fontsize=6, va="bottom", color=_INK)
