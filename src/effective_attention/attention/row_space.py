"""What ``[V, 1]`` makes of a query's weights: the directions that its output and its sum depend on, and the others.

All in double precision on the visible keys only. What counts as 0 among the singular values is much less than in
``decomposition``, whose line suits float32: here a direction that reaches the output ever so little is not used, so
that outputs agree to 1e-9.

Notation: key is a visible key; rank is that of ``[V, 1]``; freedom is the dimension of the null space, ``key - rank``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64
from numpy.typing import NDArray

_RTOL = 1e-10  # of the largest singular value

Row = Float64[np.ndarray, " key"]


@dataclass(frozen=True, eq=False)
class Space:
    """What ``[V, 1]`` makes of weights on some keys.

    Attributes:
        null: Orthonormal columns that span its left null space: what can be added to weights unseen.
        reached: Orthonormal columns that span its column space: what the output and the sum depend on.
    """

    null: Float64[np.ndarray, "key freedom"]
    reached: Float64[np.ndarray, "key rank"]

    @property
    def freedom(self) -> int:
        return self.null.shape[1]

    @cached_property
    def pulls(self) -> Float64[np.ndarray, "key key"]:
        """Row i: the direction in the null space that is nearest to key i."""
        return np.asarray(self.null @ self.null.T)


def space_of(value: Float64[np.ndarray, "key d_head"]) -> Space:
    """Find the two spaces by the singular vectors of ``[V, 1]``.

    >>> np.abs(space_of(np.array([[0.0], [1.0], [2.0]])).null).round(3).tolist()
    [[0.408], [0.816], [0.408]]
    """
    left, rank = _left_vectors(value, all_of_them=True)
    return Space(left[:, rank:], left[:, :rank])


def reached_by(value: Float64[np.ndarray, "key d_head"]) -> Float64[np.ndarray, "key rank"]:
    """Find what the output and the sum depend on, without the null space, which costs more."""
    left, rank = _left_vectors(value, all_of_them=False)
    return left[:, :rank]


def _left_vectors(value: NDArray[np.float64], *, all_of_them: bool) -> tuple[NDArray[np.float64], int]:
    keys = len(value)
    size = np.linalg.norm(value)  # both sides of [V, 1] at the same size, so that neither decides the other's rank
    augmented = np.column_stack([value / size if size > 0 else value, np.full(keys, max(keys, 1) ** -0.5)])
    left, singular, _ = np.linalg.svd(augmented, full_matrices=all_of_them)
    return left, int((singular > _RTOL * singular.max(initial=0)).sum())


def spaces(value: NDArray[np.float64], visible: NDArray[np.bool_]) -> Iterator[tuple[int, NDArray[np.bool_], Space]]:
    """Yield each query, what it sees and its space, which neighbours that see the same share."""
    before: NDArray[np.bool_] | None = None
    for query, seen in enumerate(visible):
        if before is None or not np.array_equal(before, seen):
            space = space_of(value[seen])
            before = seen
        yield query, seen, space
