"""Compiled steps of the simplex method on one row's polytope; see ``simplex``.

The table is dense, (rank + 1, key + 1). Above: the columns of ``Q^T`` in terms of the basic ones, and last the basic
weights. Below: the reduced costs. A step from vertex to vertex is one pass over it, and there are some tens of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from effective_attention.kernels.threads import loop

_PIVOT = 1e-9  # an entry that is smaller is no pivot
_COST = 1e-11  # a reduced cost above minus this counts as none: the sum of a row's weights is 1
_SLACK = 1e-13  # how far below 0 a weight may fall for the sake of a larger pivot; it is then 0
_STILL = 1e-13  # a step that is shorter goes nowhere
_PATIENCE = 60  # steps that went nowhere, after which Bland's rule sees to it that they end
_AGE = 256  # pivots after which the table is made anew
_HEAVY = 0.1  # of the largest pivot: what a key needs to be taken for its weight


class State(NamedTuple):
    """A row's polytope and the vertex that is stood at."""

    reached: NDArray[np.float64]  # (key, rank): Q
    weights: NDArray[np.float64]  # (key,): one point of the polytope
    table: NDArray[np.float64]  # (rank + 1, key + 1)
    basis: NDArray[np.int64]  # (rank,): the key of each row
    place: NDArray[np.int64]  # (key,): the row of each key; -1: it is not basic, its weight is 0
    empty: NDArray[np.bool_]  # (key,): whether a vertex was seen at which the key's weight is 0
    age: NDArray[np.int64]  # (2,): pivots since the table was made, and of all


# --- pivots ---


@loop
def _pivot(table, row, column):  # type: ignore[no-untyped-def]
    """Make a column the unit vector of a row."""
    source = table[row]
    factor = 1 / source[column]
    for place in range(source.shape[0]):
        source[place] *= factor
    for other in range(table.shape[0]):
        factor = table[other, column]
        if other != row and factor != 0:
            target = table[other]
            for place in range(target.shape[0]):
                target[place] -= factor * source[place]
            target[column] = 0
    source[column] = 1


@loop
def _exchange(state, row, column):  # type: ignore[no-untyped-def]
    """Let a key come into the basis for the one of a row."""
    gone = state.basis[row]
    _pivot(state.table, row, column)
    state.place[gone], state.empty[gone] = -1, True
    state.basis[row], state.place[column] = column, row
    state.age[0] += 1
    state.age[1] += 1
    last = state.table.shape[1] - 1
    for other in range(state.basis.shape[0]):
        if state.table[other, last] < 0:  # rounding, and the slack
            state.table[other, last] = 0


@loop
def _first_to_empty(state, column, sign, bland):  # type: ignore[no-untyped-def]
    """Return the row whose weight is 0 first when a key's grows (sign 1) or falls (-1), -1: none; and by how much.

    Of rows that are empty at nearly the same time, the one with the largest pivot; by Bland's rule the first key.
    """
    table, last = state.table, state.table.shape[1] - 1
    limit = np.inf
    for row in range(state.basis.shape[0]):
        slope = sign * table[row, column]
        if slope > _PIVOT:
            limit = min(limit, (table[row, last] + _SLACK) / slope)
    best, found = -1.0, -1
    for row in range(state.basis.shape[0]):
        slope = sign * table[row, column]
        if slope > _PIVOT and table[row, last] / slope <= limit:
            worth = 1.0 / (1 + state.basis[row]) if bland else slope
            if worth > best:
                best, found = worth, row
    return found, 0.0 if found < 0 else table[found, last] / (sign * table[found, column])


# --- where to start, and to start anew ---


@loop
def new_state(reached, weights):  # type: ignore[no-untyped-def]
    """Find a vertex from a point inside: independent keys, heavy ones first; then all others are taken down to 0."""
    keys, rank = reached.shape
    state = State(
        reached,
        weights,
        np.zeros((rank + 1, keys + 1)),
        np.full(rank, -1),
        np.full(keys, -1),
        np.zeros(keys, dtype=np.bool_),
        np.zeros(2, dtype=np.int64),
    )
    _fill(state)
    for _ in range(rank):
        row, key = _heavy_pivot(state)
        _pivot(state.table, row, key)
        state.basis[row], state.place[key] = key, row
    for row in range(rank):
        state.table[row, keys] = weights[state.basis[row]]
    for key in range(keys):
        if state.place[key] < 0 and not state.empty[key]:
            _take_down(state, key, weights[key])
    return state


@loop
def _fill(state):  # type: ignore[no-untyped-def]
    """Write Q^T into the table, and what it makes of the weights."""
    keys, rank = state.reached.shape
    state.table[:] = 0
    for key in range(keys):
        for row in range(rank):
            state.table[row, key] = state.reached[key, row]
            state.table[row, keys] += state.weights[key] * state.reached[key, row]


@loop
def _heavy_pivot(state):  # type: ignore[no-untyped-def]
    """Return row and key of a pivot among rows without a key: the heaviest key that has one not much below the best."""
    most = 0.0
    for key in range(state.place.shape[0]):
        if state.place[key] < 0:
            most = max(most, _largest(state, key)[1])
    found, at, weight = -1, -1, -1.0
    for key in range(state.place.shape[0]):
        if state.place[key] < 0 and state.weights[key] > weight:
            row, size = _largest(state, key)
            if size >= _HEAVY * most:
                found, at, weight = key, row, state.weights[key]
    return at, found


@loop
def _largest(state, key):  # type: ignore[no-untyped-def]
    """Return the row with a key's largest entry, of the rows that have no basic key yet, and the entry's size."""
    found, largest = -1, -1.0
    for row in range(state.basis.shape[0]):
        if state.basis[row] < 0 and abs(state.table[row, key]) > largest:
            found, largest = row, abs(state.table[row, key])
    return found, largest


@loop
def _take_down(state, key, weight):  # type: ignore[no-untyped-def]
    """Take the weight of a key that is not basic down to 0; where a basic one is empty before, exchange the two."""
    table, last = state.table, state.table.shape[1] - 1
    row, step = _first_to_empty(state, key, -1.0, False)
    state.empty[key] = row < 0 or step >= weight
    if state.empty[key]:
        step = weight
    for other in range(state.basis.shape[0]):
        table[other, last] = max(table[other, last] + step * table[other, key], 0.0)
    if not state.empty[key]:
        table[row, last] = 0  # so that the pivot leaves the others' weights alone
        _exchange(state, row, key)
        table[row, last] = weight - step


@loop
def renew(state):  # type: ignore[no-untyped-def]
    """Make the table anew from Q for the basis that there is; its rows may change places."""
    _fill(state)
    kept = state.basis.copy()
    state.basis[:] = -1
    for key in kept:
        row, _ = _largest(state, key)
        _pivot(state.table, row, key)
        state.basis[row], state.place[key] = key, row
    for row in range(state.basis.shape[0]):
        state.table[row, -1] = max(state.table[row, -1], 0.0)
    state.age[0] = 0


# --- programs ---


@loop
def _price(state, cost):  # type: ignore[no-untyped-def]
    """Write the reduced costs: what a key costs less what the basic keys do that it stands for."""
    keys, rank = state.reached.shape
    for key in range(keys):
        state.table[rank, key] = cost[key]
    state.table[rank, keys] = 0
    for row in range(rank):
        factor = cost[state.basis[row]]
        if factor != 0:
            for key in range(keys + 1):
                state.table[rank, key] -= factor * state.table[row, key]


@loop
def _cheapest(state, bland):  # type: ignore[no-untyped-def]
    """Return the key with the lowest reduced cost, by Bland's rule the first that has one below 0; -1: none has."""
    reduced = state.table[-1]
    found, lowest = -1, -_COST
    for key in range(state.place.shape[0]):
        if reduced[key] < lowest and state.place[key] < 0:
            found, lowest = key, reduced[key]
            if bland:
                break
    return found


@loop
def optimise(state, cost):  # type: ignore[no-untyped-def]
    """Go to a vertex of least cost; return whether one was found."""
    _price(state, cost)
    still = 0
    for _ in range(50 * (state.place.shape[0] + 10)):
        key = _cheapest(state, still > _PATIENCE)
        if key < 0:
            return True
        row, step = _first_to_empty(state, key, 1.0, still > _PATIENCE)
        if row < 0:  # no direction is without end, but rounding may say so
            return False
        still = 0 if step > _STILL else still + 1
        _exchange(state, row, key)
        if state.age[0] >= _AGE:
            renew(state)
            _price(state, cost)
    return False


@loop
def vertex(state, found):  # type: ignore[no-untyped-def]
    """Write the weights (key,) of the vertex that is stood at."""
    for key in range(found.shape[0]):
        row = state.place[key]
        found[key] = 0.0 if row < 0 else state.table[row, -1]


@loop
def strays(state, found):  # type: ignore[no-untyped-def]
    """Return by how much a vertex misses what the weights reach, the largest of all columns of Q."""
    missed = np.zeros(state.reached.shape[1])
    for key in range(found.shape[0]):
        change = found[key] - state.weights[key]
        for place in range(missed.shape[0]):
            missed[place] += change * state.reached[key, place]
    return max(missed.max(), -missed.min())


@loop
def proved(state, cost):  # type: ignore[no-untyped-def]
    """Return a cost that no point of the polytope is below, whatever rounding did to the table.

    For any y, and ``z = Q y``: ``cost . x = z . x + (cost - z) . x``; the first is ``z . weights`` for every x of the
    polytope, the second at least the smallest of ``cost - z`` times the sum of the weights. The y of the table is
    ``Q^T (cost - reduced cost)``.
    """
    keys = state.place.shape[0]
    multipliers = np.zeros(state.reached.shape[1])
    for key in range(keys):
        factor = cost[key] - state.table[-1, key]
        for place in range(multipliers.shape[0]):
            multipliers[place] += factor * state.reached[key, place]
    fixed, total, smallest = 0.0, 0.0, np.inf
    for key in range(keys):
        part = 0.0
        for place in range(multipliers.shape[0]):
            part += state.reached[key, place] * multipliers[place]
        fixed += part * state.weights[key]
        total += state.weights[key]
        smallest = min(smallest, cost[key] - part)
    return fixed + total * smallest
