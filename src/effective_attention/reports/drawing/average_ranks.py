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
_FIRST_BAR = 1.03  # shares of the panel's width, from its left side
_NEXT_BAR = 0.035


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
    _ruler(axes, min(ranks), difference, len(names))
    for number, (first, last) in enumerate(groups):
        across = _FIRST_BAR + _NEXT_BAR * number
        ends = [first - 0.25, last + 0.25]
        look = {"color": _INK, "linewidth": 1.6, "solid_capstyle": "butt", "clip_on": False}
        axes.plot([across, across], ends, transform=axes.get_yaxis_transform(), **look)
    axes.set_ylim(len(names) - 0.4, -1.9)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="y", color="#eeeeee", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    tidy_axes(axes)


def _ruler(axes: Axes, start: float, difference: float, most: int) -> None:
    """Draw the critical difference to scale above the first name."""
    if difference > most:  # also where it is infinite: no two ranks can be so far apart
        return
    axes.plot([start, start + difference], [-1, -1], "|-", color=_INK, linewidth=0.9, markersize=4)
    axes.text(start, -1.25, f"critical difference {difference:.2f}", fontsize=6, va="bottom", color=_INK)
