"""Lay out matrices of tokens by tokens so that they fit a page's width, and the tokens of a usual text can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes

from effective_attention.reports.drawing.style import DOUBLE
from effective_attention.reports.reductions import token_label

_SIZES = (5.5, 4.6)  # points: of tokens' names, and where they would not fit
_LINE = 0.016  # inches a token needs for each point of its name
_ROOM = DOUBLE - 1.0  # inches for matrices: without the tokens' names at the left
_LEAST = 1.75  # inches


@dataclass(frozen=True)
class MatrixPlaces:
    """How matrices of one text stand: so many across, so many lines of them, each ``side`` inches long."""

    across: int
    down: int
    side: float


def matrix_places(matrices: int, tokens: int, *, texts: int = 1) -> MatrixPlaces:
    """Find how many matrices stand side by side: three, unless there is one text and it is long; then two.

    Several texts stay small, or their figure would have no end.

    >>> [matrix_places(3, tokens).across for tokens in (9, 30, 60)], matrix_places(6, 60, texts=5).across
    ([3, 2, 2], 3)
    """
    most = min(matrices, 3)
    fits = texts > 1 or most * _SIZES[0] * _LINE * tokens <= _ROOM
    across = most if fits else min(matrices, 2)
    side = max(_LEAST, min(_ROOM / across, _SIZES[0] * _LINE * tokens))
    return MatrixPlaces(across, -(-matrices // across), side)


def name_both(axes: Axes, queries: Sequence[str], keys: Sequence[str], *, side: float, left: bool) -> None:
    """Write keys above, and queries at the left of a matrix that stands at the left; of too many every second or so."""
    sides: tuple[tuple[Literal["x", "y"], Sequence[str], bool], ...] = (("x", keys, True), ("y", queries, left))
    for axis, names, wanted in sides:
        size = next((size for size in _SIZES if len(names) * size * _LINE <= side + 1e-6), _SIZES[0])
        step = -(-len(names) // max(1, int(side / (size * _LINE) + 1e-6)))
        words = [token_label(name) if wanted else "" for name in names[::step]]
        ticks = {"x": axes.set_xticks, "y": axes.set_yticks}[axis]
        ticks([place + 0.5 for place in range(0, len(names), step)], words)
        axes.tick_params(axis=axis, length=0, labelsize=size, pad=1.5, labelrotation=90 if axis == "x" else 0)
    axes.xaxis.tick_top()
