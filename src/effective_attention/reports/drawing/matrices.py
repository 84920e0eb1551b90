"""Lay out matrices of tokens by tokens so that they fit a page's width, and every token of a usual text can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from effective_attention.reports.drawing.style import DOUBLE
from effective_attention.reports.reductions import token_label

MOST_NAMED = 64
"""Tokens named at most; of a longer text every second (third, …) is."""
_PER_TOKEN = 0.088  # inches: room for one line of 5.5 point
_ROOM = DOUBLE - 1.0  # inches for matrices: without the tokens' names at the left
_LEAST = 1.75  # inches


@dataclass(frozen=True)
class MatrixPlaces:
    """How matrices of one text stand: so many across, so many lines of them, each ``side`` inches long."""

    across: int
    down: int
    side: float


def matrix_places(matrices: int, tokens: int) -> MatrixPlaces:
    """Find how many matrices fit side by side; the longer the text, the fewer, and the others go below.

    >>> [matrix_places(3, tokens).across for tokens in (9, 30, 60, 500)]
    [3, 2, 1, 1]
    """
    side = max(_LEAST, _PER_TOKEN * min(tokens, MOST_NAMED))
    across = next((count for count in range(matrices, 1, -1) if count * side <= _ROOM), 1)
    return MatrixPlaces(across, -(-matrices // across), side)


def name_both(axes: Axes, queries: Sequence[str], keys: Sequence[str], *, left: bool) -> None:
    """Write keys above, and queries at the left of a matrix that stands at the left."""
    for axis, names, wanted in ((axes.xaxis, keys, True), (axes.yaxis, queries, left)):
        places = range(0, len(names), -(-len(names) // MOST_NAMED))
        words = [token_label(names[place], 14) for place in places] if wanted else []
        axis.set_ticks([place + 0.5 for place in places], words)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=5.5, pad=1.5)
    axes.tick_params(axis="x", labelrotation=90)
