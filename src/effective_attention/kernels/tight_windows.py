"""Compiled: queries that see hardly more keys than a head has dimensions, while keys come and go.

Part of ``moving_gram``. With so few keys every one of them carries a dimension nearly alone: take one away, and
``G = V^T V`` and its inverse lose most of their digits. So nothing is squared here. Of the keys that are seen, d are a
basis B with the inverse X, and every other key is a combination of them, ``v = c B`` (``key_basis``):

    o = x B                     x = o X              one row of weights that hands on o, 0 at the other keys
    null space of V             [-C, I]              what hands on nothing
    e = x - its null part                            effective attention
    w = X e                                          its coefficients: e = w V^T

Nothing is taken on trust: ``e V = o``, ``C B = V`` and ``B w = e`` are looked at for every query, and X is made anew
where they do not hold. ``||V|| ||X||`` (Frobenius) bounds the condition number of V, as that of B is no smaller.
"""

from __future__ import annotations

import numpy as np

from effective_attention.kernels.key_basis import NOBODY, begin, move, rank_of, size_of_keys
from effective_attention.kernels.memory import room
from effective_attention.kernels.small_matrices import dot, multiply, multiply_rows, sum_of_squares
from effective_attention.kernels.threads import leaf, loop
from effective_attention.kernels.vectors import LANES, SPARE

LIMIT = 5e5
"""The largest condition number for which an answer is given; beyond 1e6 the rank would not be certain."""
MOST = 8  # keys beside the basis: each costs a product more for every query
_ROOM = 8  # for keys that come before others go
_EXACT = 1e-8  # of a row of effective attention, how far it may be off
_AGAIN = 3  # times an answer is improved before it is given up


@leaf
def length_of_window_run(seen_before, start, stop, query, width):  # type: ignore[no-untyped-def]
    """Count the queries from here on that see a few more keys than there are dimensions, or fewer, and move along.

    ``seen_before`` counts the keys that are seen before each key.
    """
    if query + 1 >= len(start) or start[query + 1] <= start[query]:
        return 0
    last = query
    while last < len(start):
        count = seen_before[stop[last]] - seen_before[start[last]]
        if count > width + MOST:
            break
        if last > query:
            moved = start[last] < start[last - 1] or stop[last] < stop[last - 1] or start[last] >= stop[last - 1]
            if moved or seen_before[stop[last]] - seen_before[start[last - 1]] > width + MOST + _ROOM:
                break
        last += 1
    return last - query


@loop
def follow_window(value, seen, start, stop, output, coefficients, result, bound, rank, query, run):  # type: ignore[no-untyped-def]
    """Solve up to ``run`` queries from ``query`` on; return how many, less where something cannot be proved."""
    width = value.shape[1]
    padded = -(-width // LANES) * LANES
    rows = width + MOST + _ROOM + 1
    square = room(padded, padded + SPARE), room(padded, padded + SPARE)  # X, B
    combined, others = room(rows, padded), room(rows, padded)  # C, and the other keys' values
    beside = combined.reshape(rows, 1, padded), others.reshape(rows, 1, padded)
    keys, spare = np.zeros(padded, dtype=np.int64), np.zeros(rows, dtype=np.int64)  # whose they are
    lines = room(6, padded).reshape(6, 1, padded)
    tableau = square[0], square[1], beside[0], beside[1], keys, spare
    count, scale = -1, 0.0
    for done in range(run):
        here = query + done
        if count >= 0:
            count = move(value, seen, start, stop, here, tableau, count, scale, lines)
        size = _solve_each(tableau, count, width, output, coefficients, result, here, lines)
        if size < 0:
            count, scale = begin(value, seen, start[here], stop[here], tableau, lines)
            size = _solve_each(tableau, count, width, output, coefficients, result, here, lines)
        if size < 0:
            return done
        bound[here] = size * size_of_keys(tableau, count, width)
        rank[here] = rank_of(keys, width)
        if not bound[here] < LIMIT:
            return done
    return run


# --- a query ---


@loop
def _solve_each(tableau, count, width, output, coefficients, result, here, lines):  # type: ignore[no-untyped-def]
    """Solve for every member of the group; return the Frobenius norm of X, -1 where what was found does not hold."""
    inverse, basis, combined, others, keys, _ = tableau
    if count < 0:
        return -1.0
    size = np.sqrt(sum_of_squares(inverse, width))
    for row in range(count):  # C B = V
        multiply(basis, combined[row], lines[0])
        if not _distance(lines[0], others[row]) * size < _EXACT * np.sqrt(1 + dot(combined[row], combined[row])):
            return -1.0
    factor = _factor(combined, count, 1.0)  # of the null space, [-C, I]
    free = np.zeros(count)  # the weights of the keys beside the basis
    outside = _not_spanned(inverse, keys, width)
    outside_factor = _factor(outside, len(outside), 0.0)
    for member in range(len(output)):
        if not _find_weights(tableau, count, factor, free, size, output[member, here], lines):
            return -1.0
        if not _find_coefficients(inverse, basis, lines):
            return -1.0
        _take_part(lines[4], outside, len(outside), outside_factor)  # w as short as can be, as the pseudo-inverse's
        for k in range(width):
            coefficients[member, here, k] = lines[4][0, k]
            result[member, here, k] = lines[5][0, k]
    return size


@loop
def _find_weights(tableau, count, factor, free, size, output, lines):  # type: ignore[no-untyped-def]
    """Find e, of the basis keys ``lines[1]``, with ``e V = o`` (``lines[5]``); return whether that holds."""
    inverse, basis, combined, others, keys, _ = tableau
    answer, weights, more, back = lines[0], lines[1], lines[2], lines[5]
    for k in range(len(inverse)):
        answer[0, k] = output[k] if k < len(output) else 0.0
        weights[0, k] = 0.0
    for row in range(count):
        free[row] = 0.0
    for _ in range(_AGAIN):
        multiply(inverse, answer, more)
        for k in range(len(output)):
            weights[0, k] += more[0, k] if keys[k] != NOBODY else 0.0
        _take_null_part(weights, free, combined, count, factor)
        _hand_on(basis, weights, others, free, count, back)
        for k in range(len(output)):
            answer[0, k] = output[k] - back[0, k]
        if dot(answer, answer) * size**2 <= _EXACT**2 * dot(weights, weights):
            return True
    return False


@leaf
def _find_coefficients(inverse, basis, lines):  # type: ignore[no-untyped-def]
    """Find w (``lines[4]``) with ``B w = e``; return whether that holds."""
    answer, weights, more, coefficients = lines[0], lines[1], lines[2], lines[4]
    for k in range(len(inverse)):
        coefficients[0, k] = 0.0
        answer[0, k] = weights[0, k]
    for _ in range(_AGAIN):
        multiply_rows(inverse, answer, more)
        for k in range(len(inverse)):
            coefficients[0, k] += more[0, k]
        multiply_rows(basis, coefficients, answer)
        for k in range(len(inverse)):
            answer[0, k] = weights[0, k] - answer[0, k]
        if dot(answer, answer) <= _EXACT**2 * dot(weights, weights):
            return True
    return False


@loop
def _take_null_part(weights, free, combined, count, factor):  # type: ignore[no-untyped-def]
    """Take from a row of weights its part in the null space, whose rows are ``[-c, 1]``."""
    parts = np.zeros(count)
    for row in range(count):
        parts[row] = free[row] - dot(weights, combined[row])
    _solve_small(factor, parts)
    for row in range(count):
        free[row] -= parts[row]
        for k in range(weights.shape[1]):
            weights[0, k] += parts[row] * combined[row, 0, k]


@loop
def _take_part(vector, rows, count, factor):  # type: ignore[no-untyped-def]
    """Take from a vector its part in the span of some rows, ``factor`` being that of their products."""
    parts = np.zeros(count)
    for row in range(count):
        parts[row] = dot(vector, rows[row])
    _solve_small(factor, parts)
    for row in range(count):
        for k in range(vector.shape[1]):
            vector[0, k] -= parts[row] * rows[row, 0, k]


@loop
def _not_spanned(inverse, keys, width):  # type: ignore[no-untyped-def]
    """Return what no key has any part of, as rows: the columns of X at the places of unit vectors."""
    rows = np.zeros((width - rank_of(keys, width), 1, len(inverse)))
    row = 0
    for place in range(width):
        if keys[place] == NOBODY:
            for k in range(len(inverse)):
                rows[row, 0, k] = inverse[k, place]
            row += 1
    return rows


@loop
def _factor(rows, count, shift):  # type: ignore[no-untyped-def]
    """Return the Cholesky factor of ``shift I + R R^T``, R being some rows."""
    factor = np.zeros((count, count))
    for row in range(count):
        for column in range(row + 1):
            total = dot(rows[row], rows[column]) + (shift if row == column else 0.0)
            for k in range(column):
                total -= factor[row, k] * factor[column, k]
            factor[row, column] = np.sqrt(total) if row == column else total / factor[column, column]
    return factor


@leaf
def _solve_small(factor, parts):  # type: ignore[no-untyped-def]
    """Solve ``F F^T x = parts`` in place, F being lower triangular."""
    for row in range(len(parts)):
        for column in range(row):
            parts[row] -= factor[row, column] * parts[column]
        parts[row] /= factor[row, row]
    for row in range(len(parts) - 1, -1, -1):
        for below in range(row + 1, len(parts)):
            parts[row] -= factor[below, row] * parts[below]
        parts[row] /= factor[row, row]


@leaf
def _hand_on(basis, weights, others, free, count, back):  # type: ignore[no-untyped-def]
    """Do ``back = e V``."""
    multiply(basis, weights, back)
    for row in range(count):
        for k in range(back.shape[1]):
            back[0, k] += free[row] * others[row, 0, k]


@leaf(fastmath={"contract", "reassoc"})
def _distance(left, right):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(left.shape[1]):
        total += (left[0, k] - right[0, k]) ** 2
    return np.sqrt(total)
