"""Compiled: how ``G = V^T V`` and its inverse P change when a key comes or goes. Part of ``moving_gram``.

``places`` and ``sums`` are those of ``solution.State``, of one problem; vectors are matrices of one row. A problem is
in one of five modes:

- *growing*: its keys do not span all dimensions yet; P is the pseudo-inverse, ``outside`` projects on what they do not
  span;
- *full*: they do; P is the inverse;
- *factored*: keys have gone, and those that are left span all dimensions, but there are few of them. P is not worth
  making: R stands in its place, ``P = R R^T``; good for this query only;
- *shifted*: keys have gone, and those that are left do not span all dimensions. P is the inverse of ``G + shift I``,
  and every eigenvalue of G is proved to lie far above or far below that shift; good for this query only;
- *stale*: P means nothing.
"""

from __future__ import annotations

import numpy as np

from effective_attention.kernels.cholesky import fill_gram
from effective_attention.kernels.small_matrices import (
    change,
    change_both,
    dot,
    multiply,
    square,
    sum_of_squares,
    trace,
    whiten,
)
from effective_attention.kernels.solution import LIMIT
from effective_attention.kernels.threads import leaf, loop

_NEGLIGIBLE = 1e-12  # of the size of V: a part outside the span that is no larger is rounding
CHANGES = 64  # before P is made anew
_CANCELS = 0.05  # what must be left of a key's weight when it is removed
_TAKEN = 1e3  # times what is left, that may have been taken away before G is summed anew
_GROWING, FULL, _STALE, SHIFTED, FACTORED = 0, 1, 2, 3, 4
_MANY = 1.3  # times d_head keys: with fewer, removing one cancels too often for P to be worth making
_SMALL_SHIFT = 1e-12  # of the trace of G: well above rounding in float64, below the smallest eigenvalue that counts
_LARGE_SHIFT = 1e-7  # well above what rounding in float32 leaves of a dimension
_LEFT = 2e-7  # of the shift, that V may have below it: that much of a row's attention could be wrong
_GAP = 0.01  # at most, as the sum of x (1 - x) over eigenvalues: see _rank_above


@leaf
def forget(gram, inverse, outside, places, sums):  # type: ignore[no-untyped-def]
    """Begin with no key: every direction is outside their span."""
    clear(gram)
    clear(inverse)
    clear(outside)
    for k in range(len(outside)):
        outside[k, k] = 1.0
    for k in range(len(places)):
        places[k] = 0
    sums[0] = 0.0


@loop
def begin_with(value, seen, start, stop, gram, places, sums):  # type: ignore[no-untyped-def]
    """Begin with the keys of an interval, of which it is known that they span all dimensions; P is yet to be made."""
    fill_gram(value[start:stop], seen[start:stop], gram)
    places[0], places[1], places[2] = start, stop, value.shape[1]
    places[3], places[4], places[5] = value.shape[1], _STALE, CHANGES
    sums[0] = 0.0


@leaf
def clear(matrix):  # type: ignore[no-untyped-def]
    for row in range(len(matrix)):
        for column in range(len(matrix)):
            matrix[row, column] = 0.0


@leaf
def read(matrix, row, line):  # type: ignore[no-untyped-def]
    for k in range(matrix.shape[1]):
        line[0, k] = matrix[row, k]


@leaf
def write(matrix, row, line):  # type: ignore[no-untyped-def]
    for k in range(matrix.shape[1]):
        matrix[row, k] = line[0, k]


@leaf
def add(gram, inverse, outside, places, width, lines):  # type: ignore[no-untyped-def]
    """Take in the key whose values stand in ``lines[0]``."""
    key, reached, part = lines[0], lines[1], lines[2]
    change(gram, 1.0, key, key)
    places[2] += 1
    if places[4] in (SHIFTED, FACTORED):
        places[4] = _STALE
    if places[4] == _STALE:
        return
    multiply(inverse, key, reached)
    if places[4] == _GROWING:
        multiply(outside, key, lines[3])
        multiply(outside, lines[3], part)  # twice: what rounding has left inside the span goes the second time
        new = dot(part, part)
        if new > _NEGLIGIBLE**2 * trace(gram, width):
            _add_dimension(inverse, outside, places, new, lines)
            _look_at_condition(gram, inverse, places, width)
            return
    change(inverse, -1 / (1 + dot(key, reached)), reached, reached)
    places[5] += 1


@leaf
def _add_dimension(inverse, outside, places, new, lines):  # type: ignore[no-untyped-def]
    """Take in a key of which ``lines[2]`` lies outside the span, with the squared length ``new``."""
    key, reached, part, half = lines[0], lines[1], lines[2], lines[3]
    beyond = (1 + dot(key, reached)) / (2 * new**2)
    for k in range(part.shape[1]):
        half[0, k] = beyond * part[0, k] - reached[0, k] / new
    change_both(inverse, half, part)
    change(outside, -1 / new, part, part)
    places[3] += 1
    places[5] = CHANGES  # to be made anew as soon as that is possible


@leaf
def _look_at_condition(gram, inverse, places, width):  # type: ignore[no-untyped-def]
    """Change the mode where the dimensions are complete, or one of them is too thin to go on with."""
    if not trace(gram, width) * trace(inverse, width) < LIMIT**2:
        places[4] = _STALE
    elif places[3] == width:
        places[4] = FULL


@leaf
def remove(gram, inverse, places, sums, lines):  # type: ignore[no-untyped-def]
    """Take away the key whose values stand in ``lines[0]``."""
    key, reached = lines[0], lines[1]
    change(gram, -1.0, key, key)
    places[2] -= 1
    sums[0] += dot(key, key)
    if places[4] == FULL and sums[0] < _TAKEN * trace(gram, len(gram)):
        multiply(inverse, key, reached)
        left = 1 - dot(key, reached)
        if left > _CANCELS:
            change(inverse, 1 / left, reached, reached)
            places[5] += int(1 / left)  # by which rounding has grown
            return
    places[4] = _STALE


@loop
def renew(value, seen, gram, inverse, places, sums, room, line):  # type: ignore[no-untyped-def]
    """Make P anew where it has changed often, or is not valid; and G, where much was taken away."""
    width = value.shape[1]
    if places[4] == _GROWING or (places[4] == FULL and places[5] < CHANGES):
        return
    if sums[0] > _TAKEN * trace(gram, width):
        _sum_anew(value, seen, gram, places, line)
        sums[0] = np.finfo(np.float64).tiny  # keys have gone, though nothing of them is left
    places[4] = _STALE
    if places[2] >= width:
        _make_full(gram, inverse, places, sums, width, room)
    if places[4] == _STALE:
        _make_shifted(value, seen, gram, inverse, places, room)


@leaf
def _make_full(gram, inverse, places, sums, width, room):  # type: ignore[no-untyped-def]
    """Invert G, if its condition number allows it."""
    once = sums[0] > 0 and places[2] < _MANY * width
    whitener = inverse if once else room[1]
    found = _whiten(gram, whitener, 0.0, width, room[0])
    sums[1] = sum_of_squares(whitener, width)  # the trace of P
    if not (found and trace(gram, width) * sums[1] < LIMIT**2):
        return
    if not once:
        square(whitener, inverse, room[0])
    places[3] = width
    places[4] = FACTORED if once else FULL
    places[5] = 0


@loop
def _make_shifted(value, seen, gram, inverse, places, room):  # type: ignore[no-untyped-def]
    """Invert ``G + shift I``, if there is no eigenvalue near the shift, and next to nothing of V below it.

    First with a small shift, for keys that are the same; then with a larger one, for dimensions that are the same but
    for rounding.
    """
    width = value.shape[1]
    for share in (_SMALL_SHIFT, _LARGE_SHIFT):
        shift = share * trace(gram, width)
        if not _whiten(gram, room[1], shift, width, room[0]):
            continue
        square(room[1], inverse, room[0])
        rank = _rank_above(inverse, shift, width)
        if rank >= 0 and _below(value, seen, inverse, places, shift) < _LEFT * shift:
            places[3] = rank
            places[4] = SHIFTED
            return


@leaf
def _whiten(gram, whitener, shift, width, factor):  # type: ignore[no-untyped-def]
    """Fill ``whitener`` with R, ``R R^T`` the inverse of ``G + shift I``; return whether there is one."""
    for k in range(width):
        gram[k, k] += shift
    _set_spare(gram, width, trace(gram, width))  # far from singular
    found = whiten(gram, whitener, factor)
    for k in range(width):
        gram[k, k] -= shift
    _set_spare(gram, width, 0.0)
    _set_spare(whitener, width, 0.0)
    return found


@leaf
def _rank_above(inverse, shift, width):  # type: ignore[no-untyped-def]
    """Return how many eigenvalues of G lie far above the shift, if all others lie far below it; else -1.

    With ``x = a / (a + shift)`` for an eigenvalue ``a``, ``shift P`` has the eigenvalues ``1 - x``. So the sums of x
    and of ``x (1 - x)`` follow from P, and where the second is small, every x is near 0 or near 1.
    """
    first = shift * trace(inverse, width)
    if not first - shift**2 * sum_of_squares(inverse, width) < _GAP:
        return -1
    return int(np.rint(width - first))


@loop
def _below(value, seen, inverse, places, shift):  # type: ignore[no-untyped-def]
    """Return how much of V, squared, lies in directions below the shift.

    ``(shift P)^2`` leaves those as they are, and next to nothing of the others.
    """
    lines = np.zeros((3, 1, len(inverse)))
    total = 0.0
    for key in range(places[0], places[1]):
        if seen[key]:
            read(value, key, lines[0])
            multiply(inverse, lines[0], lines[1])
            multiply(inverse, lines[1], lines[2])
            total += dot(lines[2], lines[2])
    return shift**4 * total


@leaf
def _sum_anew(value, seen, gram, places, line):  # type: ignore[no-untyped-def]
    clear(gram)
    for key in range(places[0], places[1]):
        if seen[key]:
            read(value, key, line)
            change(gram, 1.0, line, line)


@leaf
def _set_spare(matrix, width, number):  # type: ignore[no-untyped-def]
    """Fill the diagonal of the columns that are there only to make the size a multiple of 8."""
    for k in range(width, len(matrix)):
        matrix[k, k] = number


@leaf
def proved(gram, inverse, places, sums, width):  # type: ignore[no-untyped-def]
    """Return rank and bound of the condition number of the keys at hand; -1 and infinity where neither is proved."""
    if places[4] == _STALE:
        return -1, np.inf
    if places[4] == SHIFTED:
        return places[3], LIMIT
    if places[4] == FACTORED:
        return places[3], up_to_limit(np.sqrt(trace(gram, width) * sums[1]))
    return places[3], up_to_limit(np.sqrt(trace(gram, width) * trace(inverse, width)))


@leaf
def up_to_limit(condition):  # type: ignore[no-untyped-def]
    """Return a bound of the condition number, infinite where P is not exact enough for it."""
    return condition if condition <= LIMIT else np.inf
