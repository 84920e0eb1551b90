"""Seconds of the same batches under several attentions that take turns, and what they say on a busy machine.

Whatever else the machine does hits all attentions alike, because each batch is run under every one of them before the
next, and no attention always comes first. A ratio is taken batch by batch; its median does not move when some batches
are disturbed, and the quartiles say how many were.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TypeVar

FEWEST_BATCHES = 5
"""Of fewer batches no time is told: half of them disturbed would already decide the median."""
Kind = TypeVar("Kind")


def in_turn(kinds: Sequence[Kind], turn: int) -> list[Kind]:
    """Return the kinds in the order of this turn: each one later in line comes first in its turn.

    >>> [in_turn(("a", "b"), turn) for turn in range(3)]
    [['a', 'b'], ['b', 'a'], ['a', 'b']]
    """
    first = turn % len(kinds)
    return [*kinds[first:], *kinds[:first]]


def enough(batches: Sequence[float]) -> bool:
    """Tell whether there are enough batches to say anything of time."""
    return len(batches) >= FEWEST_BATCHES


def ratio_quartiles(seconds: Sequence[float], standard: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median and upper quartile of the batches' ratios.

    >>> ratio_quartiles([2.0, 3.0, 90.0], [2.0, 2.0, 3.0])
    (1.25, 1.5, 15.75)
    """
    ratios = [mine / theirs for mine, theirs in zip(seconds, standard, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return low, middle, high
