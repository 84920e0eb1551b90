"""What ``simplex`` computes, program by program with SciPy: for a machine without numba, and to test by.

HiGHS allows for 1e-7, and at times gives up where it is asked for less. So weights and costs are handed to it 1 000
times as large, and what it finds is made smaller again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Array = NDArray[np.float64]

TOLERANCE = 1e-9
"""How far the cost of a vertex may be from what is proved, in units of the largest cost."""
_UNIT = 1e3


class Polytope:
    """All rows with one row's output and sum; as ``simplex.Polytope``.

    Args:
        reached: Q, (key, rank), with fewer columns than rows; not changed.
        weights: One of its points, (key,), not negative; not changed.
    """

    def __init__(self, reached: Array, weights: Array) -> None:
        self.reached, self.weights = reached, weights

    def least(self, cost: Array) -> tuple[Array, float]:
        """Return a vertex (key,) of least cost, and a cost that no point is below; see ``simplex_table.proved``.

        Raises:
            ArithmeticError: The solver gave up.
        """
        largest = float(np.abs(cost).max()) or 1.0
        same = _UNIT * (self.weights @ self.reached)
        for presolve in (True, False):  # the second was never needed
            answer = linprog(
                _UNIT / largest * cost, A_eq=self.reached.T, b_eq=same, method="highs", options={"presolve": presolve}
            )
            if answer.status == 0:
                fitted = self.reached @ (answer.eqlin.marginals * largest / _UNIT)
                bound = fitted @ self.weights + self.weights.sum() * (cost - fitted).min()
                return np.maximum(answer.x / _UNIT, 0), float(bound)
        raise ArithmeticError(f"the linear program over {len(cost)} keys was not solved: {answer.message}")


def ends_of(polytope: Polytope, weights: Array) -> Array:
    """Return the smallest and the largest value of each weight, (2, key)."""
    ends = np.empty((2, len(weights)))
    for key, cost in enumerate(np.eye(len(weights))):
        ends[0, key] = max(min(polytope.least(cost)[1], weights[key]), 0)
        ends[1, key] = min(max(-polytope.least(-cost)[1], weights[key]), weights.sum())
    return ends


def intervals(reached: Array, sizes: NDArray[np.int64], which: NDArray[np.int64], weights: Array) -> Array:
    """Return the smallest and the largest value of every weight of many rows, (2, row, key); as in ``simplex``."""
    ends = np.stack([weights, weights])
    for row, (keys, rank) in enumerate(sizes[which].tolist()):
        if rank < keys:
            own = weights[row, :keys]
            ends[:, row, :keys] = ends_of(Polytope(reached[which[row], :keys, :rank], own), own)
    return ends
