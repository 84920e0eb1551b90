"""What solving along moving keys gives, whichever loops did it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

LIMIT = 1e5
"""The largest condition number of V for which ``V^T V`` gives an answer: at this one it is exact to about 1e-6."""


_UNIT = 8  # vectors.LANES and vectors.SPARE, which cannot be had without numba


@dataclass(frozen=True)
class Solution:
    """The coefficients ``w`` with ``w (V^T V) = o`` of each query; V being the keys that it sees.

    Attributes:
        coefficients: w, (problem, group, query, d_head), float64.
        output: ``w (V^T V)``, likewise: o again, up to rounding.
        bound: A bound of the condition number of V, (problem, query); infinite where w means nothing.
        rank: The rank of V, (problem, query); -1 where it could not be proved.
    """

    coefficients: Tensor
    output: Tensor
    bound: Tensor
    rank: Tensor


@dataclass
class State:
    """What a stream keeps of the keys it has seen, between two tokens; the compiled loop reads and writes it.

    Attributes:
        gram: G, (problem, size, size + 8); ``size`` is d_head, rounded up to a multiple of 8. The last columns are
            spare (``vectors.SPARE``).
        inverse: P, likewise.
        outside: Projection on what the keys do not span, while that is something; likewise.
        places: First key, behind the last key, number of keys, rank, mode, and changes since P was made, (problem, 6).
        sums: What was taken away from G, and the trace of P when it was made, (problem, 2).
    """

    gram: NDArray[np.float64]
    inverse: NDArray[np.float64]
    outside: NDArray[np.float64]
    places: NDArray[np.int64]
    sums: NDArray[np.float64]

    @classmethod
    def empty(cls, problems: int, width: int) -> State:
        """Return the state of problems that have seen no key."""
        size = -(-width // _UNIT) * _UNIT
        shape = (problems, size, size + _UNIT)
        places = np.zeros((problems, 6), dtype=np.int64)
        outside = _zeros(*shape)
        outside[:] = np.eye(size, size + _UNIT)
        return cls(_zeros(*shape), _zeros(*shape), outside, places, np.zeros((problems, 2)))


def _zeros(*shape: int) -> NDArray[np.float64]:
    """Return matrices that begin on a line of the processor's cache, as those of ``memory.room`` do."""
    numbers = np.zeros(math.prod(shape) + _UNIT)
    first = -(numbers.ctypes.data // numbers.itemsize) % _UNIT
    return numbers[first : first + math.prod(shape)].reshape(shape)
