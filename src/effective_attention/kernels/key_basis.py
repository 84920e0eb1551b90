"""Compiled: keys as combinations of some of them, the *basis*, while keys come and go. Part of ``tight_windows``.

A ``tableau``, as the simplex method has it, is six arrays:

- X, the inverse of the basis B (d x d), and B, whose rows are values of keys;
- C, for each key beside the basis the combination ``v = c B``, and the values of these keys;
- whose the rows of B are, and whose those of C. ``NOBODY``: a unit vector stands in a place that no key can take.

Keys change places in d^2 steps. A part of a key that is neither clearly there (``_THERE``) nor rounding (``_ROUNDING``)
is not decided here: the caller is told.
"""

from __future__ import annotations

import numpy as np

from effective_attention.kernels.small_matrices import change, dot, multiply
from effective_attention.kernels.threads import leaf

NOBODY = -1  # in place of a key: a unit vector
_THERE = 1e-5  # of a basis key, that another must have at least to take its place
_ROUNDING = 1e-11  # of it, at most, where there is none
_LARGEST = 4.0  # of a combination: beyond it a better basis is looked for


@leaf
def begin(value, seen, start, stop, tableau, lines):  # type: ignore[no-untyped-def]
    """Choose a basis from all keys by elimination.

    It begins with unit vectors as long as the longest key, which keys take the place of, one after the other.

    Returns:
        How many keys are left beside the basis, -1 where that is not clear; the length of the unit vectors.
    """
    inverse, _, combined, others, keys, spare = tableau
    width = value.shape[1]
    count, longest = 0, 0.0
    for key in range(start, stop):
        if seen[key]:
            _read(value, key, others[count])
            longest = max(longest, np.sqrt(dot(others[count], others[count])))
            spare[count] = key
            count += 1
    if not 0 < longest < np.inf:
        return -1, 0.0
    _set_unit_vectors(tableau, width, longest)
    for row in range(count):
        multiply(inverse, others[row], combined[row])
    for place in range(width):
        count = _take_place(tableau, count, place, lines)
    return (_improve(tableau, count, width, lines) if _is_clear(combined, keys, count, width) else -1), longest


@leaf
def _set_unit_vectors(tableau, width, length):  # type: ignore[no-untyped-def]
    """Let the basis be unit vectors of some length."""
    inverse, basis, _, _, keys, _ = tableau
    for row in range(len(inverse)):
        for column in range(len(inverse)):
            inverse[row, column] = basis[row, column] = 0.0
    for place in range(width):
        inverse[place, place] = 1 / length
        basis[place, place] = length
        keys[place] = NOBODY


@leaf
def _read(value, key, line):  # type: ignore[no-untyped-def]
    for k in range(value.shape[1]):
        line[0, k] = value[key, k]


@leaf
def move(value, seen, start, stop, here, tableau, count, scale, lines):  # type: ignore[no-untyped-def]
    """Take in the keys that come, then let go those that go; return how many are left beside the basis, or -1."""
    inverse, _, combined, others, keys, spare = tableau
    width = value.shape[1]
    for key in range(stop[here - 1], stop[here]):
        if seen[key]:
            _read(value, key, others[count])
            multiply(inverse, others[count], combined[count])
            spare[count] = key
            count = _take_place(tableau, count + 1, _most_of_nobody(combined[count], keys, width), lines)
    if not _is_clear(combined, keys, count, width):
        return -1
    for key in range(start[here - 1], start[here]):
        if seen[key]:
            count = _let_go(tableau, count, key, width, scale, lines)
            if count < 0:
                return -1
    return _improve(tableau, count, width, lines)


@leaf
def _most_of_nobody(combined, keys, width):  # type: ignore[no-untyped-def]
    """Return the unit vector in the basis that a key has most of; -1 where there is none in the basis."""
    best = -1
    for place in range(width):
        if keys[place] == NOBODY and (best < 0 or abs(combined[0, place]) > abs(combined[0, best])):
            best = place
    return best


@leaf
def _take_place(tableau, count, place, lines):  # type: ignore[no-untyped-def]
    """Let a key take the place of a unit vector, if one has a part of it; return how many are left beside the basis."""
    _, _, combined, others, _, spare = tableau
    if place < 0 or count == 0:
        return count
    best = _largest_at(combined, count, place)
    if not abs(combined[best, 0, place]) > _THERE:
        return count
    _exchange(tableau, count, best, place, lines)
    return _drop(combined, others, spare, count, best)


@leaf
def _is_clear(combined, keys, count, width):  # type: ignore[no-untyped-def]
    """Return whether keys beside the basis have nothing of the unit vectors in it, and set that to 0."""
    for place in range(width):
        if keys[place] == NOBODY:
            for row in range(count):
                if not abs(combined[row, 0, place]) < _ROUNDING:
                    return False
                combined[row, 0, place] = 0.0
    return True


@leaf
def _let_go(tableau, count, key, width, scale, lines):  # type: ignore[no-untyped-def]
    """Forget a key; return how many are left beside the basis, -1 where a dimension may go too, or may not."""
    inverse, _, combined, others, keys, spare = tableau
    for row in range(count):
        if spare[row] == key:
            return _drop(combined, others, spare, count, row)
    place = 0
    while keys[place] != key:
        place += 1
    best = _largest_at(combined, count, place)
    part = abs(combined[best, 0, place]) if count > 0 else 0.0
    if part <= _THERE:
        if part >= _ROUNDING:
            return -1
        best = count
        count += 1
        _bring_nobody(inverse, combined[best], others[best], place, width, scale)
        spare[best] = NOBODY
    _exchange(tableau, count, best, place, lines)
    return _drop(combined, others, spare, count, best)


@leaf
def _bring_nobody(inverse, combined, other, place, width, scale):  # type: ignore[no-untyped-def]
    """Put the unit vector that has most of the basis key at ``place`` beside the basis."""
    best = 0
    for k in range(1, width):
        if abs(inverse[k, place]) > abs(inverse[best, place]):
            best = k
    for k in range(len(inverse)):
        combined[0, k] = scale * inverse[best, k]
        other[0, k] = scale if k == best else 0.0


@leaf
def _improve(tableau, count, width, lines):  # type: ignore[no-untyped-def]
    """Exchange keys while one beside the basis is a combination with a large factor: the basis is then a poor one."""
    combined = tableau[2]
    for _ in range(width):
        best, at, largest = 0, 0, _LARGEST
        for row in range(count):
            for place in range(width):
                if abs(combined[row, 0, place]) > largest:
                    best, at, largest = row, place, abs(combined[row, 0, place])
        if largest == _LARGEST:
            break
        _exchange(tableau, count, best, at, lines)
    return count


@leaf
def _largest_at(combined, count, place):  # type: ignore[no-untyped-def]
    """Return which of the keys beside the basis has most of what is at ``place``."""
    best = 0
    for row in range(1, count):
        if abs(combined[row, 0, place]) > abs(combined[best, 0, place]):
            best = row
    return best


@leaf
def _exchange(tableau, count, row, place, lines):  # type: ignore[no-untyped-def]
    """Let a key beside the basis and the one at ``place`` of it change places."""
    inverse, basis, combined, others, keys, spare = tableau
    line, column = lines[0], lines[1]
    factor = 1 / combined[row, 0, place]
    for k in range(len(inverse)):
        line[0, k] = combined[row, 0, k]
        column[0, k] = inverse[k, place]
    line[0, place] -= 1.0
    change(inverse, -factor, column, line)
    for other in range(count):
        share = -factor * combined[other, 0, place]
        if share != 0:
            for k in range(len(inverse)):
                combined[other, 0, k] += share * line[0, k]
    for k in range(len(inverse)):
        combined[row, 0, k] = -factor * line[0, k]
        basis[place, k], others[row, 0, k] = others[row, 0, k], basis[place, k]
    combined[row, 0, place] += 1.0
    keys[place], spare[row] = spare[row], keys[place]


@leaf
def _drop(combined, others, spare, count, row):  # type: ignore[no-untyped-def]
    """Forget a key beside the basis; return how many are left."""
    last = count - 1
    for k in range(combined.shape[2]):
        combined[row, 0, k], others[row, 0, k] = combined[last, 0, k], others[last, 0, k]
    spare[row] = spare[last]
    return last


@leaf
def rank_of(keys, width):  # type: ignore[no-untyped-def]
    """Return how many dimensions keys stand for."""
    rank = 0
    for place in range(width):
        rank += keys[place] != NOBODY
    return rank


@leaf
def size_of_keys(tableau, count, width):  # type: ignore[no-untyped-def]
    """Return the Frobenius norm of V."""
    _, basis, _, others, keys, _ = tableau
    total = 0.0
    for place in range(width):
        if keys[place] != NOBODY:
            key = basis[place : place + 1]
            total += dot(key, key)
    for row in range(count):
        total += dot(others[row], others[row])
    return np.sqrt(total)
