"""All rows of attention with the same output: how far each weight may go, and the sparsest and the smallest of them.

For one query's row ``a`` over the keys that it sees, the distributions with the same output form the polytope ``{x >=
0, sum x = 1, x V = a V}``. With orthonormal columns Q that span the column space of ``[V, 1]`` that is ``{x >= 0, Q^T x
= Q^T a}``, as well conditioned as can be.

- ``intervals``: the smallest and the largest value that each weight takes there. An interval that is short is
  identified by what the head does; a lower end above 0 says that the key is necessary. The row itself lies inside,
  always.
- ``sparse_map``: for each row a vertex. By Caratheodory's theorem it has no more weights than ``[V, 1]`` has rank, so
  at most ``d_head + 1``.
- ``smallest_map``: the row of smallest Euclidean norm. Without ``x >= 0`` that is effective attention in its affine
  reading, ``Q Q^T a``; with it, effective attention that is a distribution, as the conclusion of Brunner et al. (2020)
  asks for.

The linear programs are ``kernels.simplex``'s. All in double precision; keys that a query does not see are 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float64
from numpy.typing import NDArray

from effective_attention.attention.row_space import Row, reached_by
from effective_attention.kernels import choice

Map = Float64[np.ndarray, "query key"]
_NUMBERS = 2**23  # of Q in memory at once, 64 MB; more heads than that are taken one group after the other
_REACHED = 1e-10  # how far the smallest row may be from the output
_ROUNDS = 500  # ten are enough, but for rows that are all but a corner of the simplex


class RowPolytope:
    """One row's polytope; a program starts at the vertex where the one before ended.

    Args:
        weights: One query's attention, visible keys only.
        reached: Q, from ``row_space``.
    """

    def __init__(self, weights: Row, reached: Float64[np.ndarray, "key rank"]) -> None:
        self.weights = weights
        free = reached.shape[1] < reached.shape[0]
        self._programs = choice.polytope(reached, weights) if free else None

    def least(self, cost: Row) -> Row:
        """Return the vertex of least ``cost . x``."""
        return self.weights.copy() if self._programs is None else self._programs.least(cost)[0]

    def ends(self, key: int) -> tuple[Row, Row]:
        """Return rows in which one key has the smallest and the largest weight that it can have."""
        cost = np.zeros(len(self.weights))
        cost[key] = 1
        return self.least(cost), self.least(-cost)

    def range_of(self, cost: Row) -> tuple[float, float]:
        """Return the least and the most that ``cost . x`` can be; both are proved."""
        own = float(cost @ self.weights)
        if self._programs is None:
            return own, own
        return min(self._programs.least(cost)[1], own), max(-self._programs.least(-cost)[1], own)


# --- intervals ---


def intervals(
    attention: Float64[np.ndarray, "*heads query key"],
    value: Float64[np.ndarray, "*heads key d_head"],
    visible: Bool[np.ndarray, "*heads query key"],
) -> tuple[Float64[np.ndarray, "*heads query key"], Float64[np.ndarray, "*heads query key"]]:
    """Return the smallest and the largest value of every weight among rows with the same output.

    Both are proved, so that no such row is outside (``kernels.simplex``), and the weight itself lies inside. They are
    the weight itself where a query sees no more independent keys than ``[V, 1]`` has columns: nothing is free.

    >>> low, high = intervals(np.array([[0.2, 0.5, 0.3]]), np.array([[0.0], [1.0], [2.0]]), np.full((1, 3), True))
    >>> low.round(9).tolist(), high.round(9).tolist()
    ([[0.0, 0.0, 0.1]], [[0.45, 0.9, 0.55]])
    """
    queries, keys = attention.shape[-2:]
    flat = [array.reshape(-1, *array.shape[-2:]) for array in (attention, value, visible)]
    ends = np.zeros((2, *flat[0].shape))
    group = max(1, _NUMBERS // max(1, queries * keys * min(keys, value.shape[-1] + 1)))
    for first in range(0, len(flat[0]), group):
        part = slice(first, first + group)
        ends[:, part] = _intervals(*(array[part] for array in flat))
    low, high = ends.reshape(2, *attention.shape)
    return low, high


def _intervals(
    attention: NDArray[np.float64], value: NDArray[np.float64], visible: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Bring the rows of some heads together, each row's visible keys first, and solve them all at once."""
    heads, queries, keys = attention.shape
    found: list[NDArray[np.float64]] = []
    which, order = np.zeros((heads, queries), dtype=np.int64), np.zeros(attention.shape, dtype=np.int64)
    for head in range(heads):
        masks, places = np.unique(visible[head], axis=0, return_inverse=True)
        which[head] = len(found) + places.reshape(-1)
        order[head] = np.argsort(~masks, axis=1, kind="stable")[places.reshape(-1)]
        found += [reached_by(value[head, seen]) for seen in masks]
    sizes = np.array([one.shape for one in found], dtype=np.int64)
    reached = np.zeros((len(found), *sizes.max(axis=0)))
    for space, one in enumerate(found):
        reached[space, : sizes[space, 0], : sizes[space, 1]] = one
    rows = np.take_along_axis(np.where(visible, attention, 0), order, axis=-1).reshape(-1, keys)
    ends = choice.weight_intervals(reached, sizes, which.reshape(-1), rows)
    back = np.zeros((2, *attention.shape))
    np.put_along_axis(back, np.stack([order, order]), ends.reshape(back.shape), axis=-1)
    return back


def row_intervals(weights: Row, reached: Float64[np.ndarray, "key rank"]) -> tuple[Row, Row]:
    """Return ``intervals`` of one row."""
    sizes = np.array([reached.shape], dtype=np.int64)
    low, high = choice.weight_intervals(reached[None].copy(), sizes, np.zeros(1, dtype=np.int64), weights[None])
    return low[0], high[0]


def sum_intervals(
    attention: Float64[np.ndarray, "head query key"],
    value: Float64[np.ndarray, "head key d_head"],
    visible: Bool[np.ndarray, "head query key"],
    groups: Bool[np.ndarray, "group key"],
) -> tuple[Float64[np.ndarray, "head query group"], Float64[np.ndarray, "head query group"]]:
    """Return the least and the most that the weights of some keys can be together, for each group of keys."""
    ends = np.zeros((2, *attention.shape[:2], len(groups)))
    for head in range(len(attention)):
        for query, seen, reached in _rows(value[head], visible[head]):
            row = RowPolytope(attention[head, query, seen], reached)
            for group in np.flatnonzero((groups & seen).any(axis=1)).tolist():
                ends[:, head, query, group] = row.range_of(groups[group, seen].astype(float))
    low, high = ends.clip(0)
    return low, high


# --- one row for another, over a whole map ---


def sparse_map(attention: Map, value: Float64[np.ndarray, "key d_head"], visible: Bool[np.ndarray, "query key"]) -> Map:
    """Return for each row the vertex that agrees most with it: of largest ``a . x``.

    A vertex has at most as many weights as ``[V, 1]`` has rank. The sparsest row of all is NP-hard to find in general;
    but where no output happens to lie in the span of fewer keys, all vertices have the same number.
    """
    sparse = np.zeros_like(attention)
    for query, seen, reached in _rows(value, visible):
        row = attention[query, seen]
        sparse[query, seen] = RowPolytope(row, reached).least(-row)
    return sparse


def smallest_map(
    attention: Map, value: Float64[np.ndarray, "key d_head"], visible: Bool[np.ndarray, "query key"]
) -> Map:
    """Return for each row the one of smallest Euclidean norm; see ``smallest_row``."""
    smallest = np.zeros_like(attention)
    for query, seen, reached in _rows(value, visible):
        smallest[query, seen] = smallest_row(attention[query, seen], reached)
    return smallest


def _rows(
    value: NDArray[np.float64], visible: NDArray[np.bool_]
) -> Iterator[tuple[int, NDArray[np.bool_], NDArray[np.float64]]]:
    """Yield each query, what it sees and Q, which queries that see the same share."""
    known: dict[bytes, NDArray[np.float64]] = {}
    for query, seen in enumerate(visible):
        name = seen.tobytes()
        if name not in known:
            known[name] = reached_by(value[seen])
        yield query, seen, known[name]


def smallest_row(weights: Row, reached: Float64[np.ndarray, "key rank"]) -> Row:
    """Return the row of smallest Euclidean norm in the polytope of ``weights``.

    It is ``x = max(0, Q y)`` for the y at which ``Q^T x = Q^T a``: these are the conditions of Karush, Kuhn and Tucker,
    and y minimises the convex dual ``|max(0, Q y)|^2 / 2 - (Q^T a) . y``. By Newton's method, whose matrix is ``Q_A^T
    Q_A`` over the keys with ``Q y > 0`` (made a little larger, as far as it is still to go, for it may be singular),
    from ``y = Q^T a``, where ``Q y`` is the affine reading and, if nothing of it is below 0, the answer.

    Raises:
        ArithmeticError: The output is not reached to 1e-10.
    """
    if reached.shape[1] == reached.shape[0]:
        return weights.copy()
    target = weights @ reached
    multipliers = target.copy()
    for _ in range(_ROUNDS):
        row = np.maximum(reached @ multipliers, 0)
        slope = row @ reached - target
        missed = float(np.abs(slope).max())
        if missed <= _REACHED:
            return row
        inside = reached[row > 0]
        matrix = inside.T @ inside
        matrix[np.diag_indices(len(matrix))] += 1e-3 * min(missed, 1) + 1e-14
        step = -np.linalg.solve(matrix, slope)
        multipliers = multipliers + _step_length(reached, target, multipliers, step) * step
    raise ArithmeticError(f"the smallest row over {len(weights)} keys was not found: its output is {missed:.1e} off")


def _step_length(reached: NDArray[np.float64], target: Row, start: Row, step: Row) -> float:
    """Return how far to go for the dual to be smallest, exactly: its slope is made of lines and never falls.

    Between places where an entry of ``Q y`` changes its sign the slope is a line; the place where it is 0 lies on the
    first of them that ends at or above 0.
    """
    along, onto = reached @ start, reached @ step
    turning = np.flatnonzero(along * onto < 0)
    places = -along[turning] / onto[turning]
    order = np.argsort(places)
    comes = np.where(onto[turning] > 0, 1.0, -1.0)[order]
    begins = (along > 0) | ((along == 0) & (onto > 0))
    lines = np.concatenate([[0], np.cumsum(comes * onto[turning][order] ** 2)]) + (onto[begins] ** 2).sum()
    offsets = np.concatenate([[0], np.cumsum(comes * (along * onto)[turning][order])]) + along[begins] @ onto[begins]
    offsets -= target @ step
    ends = np.append(places[order], np.inf)
    rising = np.flatnonzero(offsets[:-1] + lines[:-1] * ends[:-1] >= 0)
    line = int(rising[0]) if len(rising) else len(ends) - 1
    return float(-offsets[line] / lines[line]) if lines[line] > 0 else 1.0
