"""Compiled: memory for matrices, so laid out that the processor reads eight numbers at once."""

from __future__ import annotations

import numpy as np

from effective_attention.kernels.threads import loop
from effective_attention.kernels.vectors import LINE

_BYTES = 8  # of a float64 number


@loop
def room(rows, columns):  # type: ignore[no-untyped-def]
    """Return a matrix of 0 that begins on a line of the cache; so do its rows, where columns are a multiple of 8.

    Eight numbers that lie on two lines take twice as long to read, and NumPy's own matrices begin anywhere.
    """
    spare = LINE // _BYTES
    numbers = np.zeros(rows * columns + spare)
    first = (-(numbers.ctypes.data // _BYTES)) % spare
    return numbers[first : first + rows * columns].reshape(rows, columns)
