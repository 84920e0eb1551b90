"""Compiled linear programs over the distributions with a given output, each from where the last one ended.

For one query's row ``a`` of attention all rows with the same output and the same sum form the polytope ``{x >= 0, Q^T x
= Q^T a}``, where the orthonormal columns of Q span the column space of ``[V, 1]``. Thousands of programs are asked of
each: the smallest and the largest value of every weight. A general solver starts each from nothing; here

1. the start is the row itself, a point of the polytope: from it to a vertex, without a first phase (``new_state``);
2. every program starts at the vertex where the last one ended, by the primal simplex method: Dantzig's rule, and
   Bland's after many steps that went nowhere;
3. a weight that was 0 at any vertex on the way has 0 for its lower end, without a program;
4. each answer is held against a bound that the constraints alone prove (``proved``), so that no rounding in the table
   can make an interval too small. The bounds are the ends. Where bound and vertex are further apart than ``TOLERANCE``
   the table is made anew and the program goes on; where that does not help either, the reference solves it.

``simplex_reference`` computes the same with SciPy, program by program; ``choice`` picks one of the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from effective_attention.kernels import simplex_reference
from effective_attention.kernels.simplex_reference import TOLERANCE
from effective_attention.kernels.simplex_table import State, new_state, optimise, proved, renew, strays, vertex
from effective_attention.kernels.threads import loop, share_out

Array = NDArray[np.float64]

_BLOCKS = 16  # of rows that are not neighbours, so that the parts of a few threads take about as long as each other


class Polytope:
    """All rows with one row's output and sum; keeps the vertex where the last program ended.

    Args:
        reached: Q, (key, rank), with fewer columns than rows; not changed.
        weights: One of its points, (key,), not negative; not changed.
    """

    def __init__(self, reached: Array, weights: Array) -> None:
        self._plain = simplex_reference.Polytope(reached, weights)
        self._state: State = new_state(np.ascontiguousarray(reached), np.ascontiguousarray(weights))

    def least(self, cost: Array) -> tuple[Array, float]:
        """Return a vertex (key,) of least cost, and a cost that no point is below; see the module's docstring."""
        cost = np.ascontiguousarray(cost, dtype=np.float64)
        found = np.empty(len(cost))
        bound, solved = _solve(self._state, cost, found)
        return (found, bound) if solved else self._plain.least(cost)


def intervals(reached: Array, sizes: NDArray[np.int64], which: NDArray[np.int64], weights: Array) -> Array:
    """Return the smallest and the largest value of every weight of many rows, (2, row, key).

    Args:
        reached: Each space's Q, (space, key, rank), 0 beyond its own sizes.
        sizes: How many keys and columns each has, (space, 2).
        which: The space of each row, (row,).
        weights: The rows, (row, key).
    """
    ends, solved = np.stack([weights, weights]), np.ones(len(weights), dtype=np.bool_)
    share_out(_solve_rows, _BLOCKS, reached, sizes, which, weights, ends, solved)
    for row in np.flatnonzero(~solved).tolist():
        keys, rank = sizes[which[row]]
        plain = simplex_reference.Polytope(reached[which[row], :keys, :rank], weights[row, :keys])
        ends[:, row, :keys] = simplex_reference.ends_of(plain, weights[row, :keys])
    return ends


def compile_loops() -> None:
    """Compile every loop, by running each on a row of two keys that are one and the same."""
    reached, weights = np.full((2, 1), 0.5**0.5), np.array([0.5, 0.5])
    Polytope(reached, weights).least(weights)
    intervals(reached[None], np.array([[2, 1]]), np.zeros(1, dtype=np.int64), weights[None])


@loop
def _solve(state, cost, found):  # type: ignore[no-untyped-def]
    """Write a vertex of least cost; return what is proved, and whether it agrees with the vertex, which is no stray."""
    for attempt in range(3):
        if attempt > 0:
            renew(state)
        solved = optimise(state, cost)
        vertex(state, found)
        bound = proved(state, cost)
        reached, largest = 0.0, 0.0
        for key in range(cost.shape[0]):
            reached += found[key] * cost[key]
            largest = max(largest, abs(cost[key]))
        if solved and abs(reached - bound) <= TOLERANCE * largest and strays(state, found) <= TOLERANCE:
            return bound, True
    return bound, False


@loop
def _solve_rows(begin, end, reached, sizes, which, weights, ends, solved):  # type: ignore[no-untyped-def]
    for block in range(begin, end):
        for row in range(block, which.shape[0], _BLOCKS):
            keys, rank = sizes[which[row], 0], sizes[which[row], 1]
            if rank < keys:
                space = reached[which[row], :keys, :rank].copy()
                solved[row] = _solve_row(space, weights[row, :keys], ends[0, row], ends[1, row])


@loop
def _solve_row(reached, weights, low, high):  # type: ignore[no-untyped-def]
    """Write both ends of every weight; return whether all were solved."""
    state = new_state(reached, weights)
    keys, good = weights.shape[0], True
    cost, found = np.zeros(keys), np.empty(keys)
    for key in range(keys):
        cost[key] = -1
        bound, solved = _solve(state, cost, found)
        good = good and solved
        high[key] = max(-bound, weights[key])
        cost[key] = 0
    for key in range(keys):
        low[key] = 0
        if not state.empty[key]:
            cost[key] = 1
            bound, solved = _solve(state, cost, found)
            good = good and solved
            low[key] = max(min(bound, weights[key]), 0.0)
            cost[key] = 0
    return good
