"""Compiled loops over many small Gram matrices: one Cholesky factor per (batch, head).

On the CPU, PyTorch factors a batch of small matrices one after the other on one core, each through a general routine. These loops
take half that time at the sizes of attention heads, read the Gram matrices as they are (keys that are not seen are left out on
the way), work in float64, and share the problems among the threads that PyTorch may use. On a GPU the batched routines of PyTorch
are the fast ones, so only the CPU comes here.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from effective_attention.compiled.threads import COMPILE, share


def is_positive_definite(gram: Tensor, seen: Tensor, shift: float) -> Tensor:
    """True where ``gram - shift * trace * I`` has a Cholesky factor, over the keys seen only.

    Args:
        gram: (problem, key, key), float32 or float64.
        seen: (problem, key), bool.
        shift: Relative to the trace over the keys seen.

    Returns:
        (problem,), bool.
    """
    _compile(torch.get_num_threads() > 1)
    positive = np.empty(len(gram), dtype=np.bool_)
    share(_factor_seen, _factor_seen_parallel, gram.numpy(), seen.numpy(), shift, positive)
    return torch.from_numpy(positive)


def inverse_factor(gram: Tensor) -> Tensor:
    """R with ``R^T gram R = I``, upper triangular; NaN where ``gram`` is not positive definite.

    Args:
        gram: (problem, size, size), contiguous float64; overwritten.

    Returns:
        (problem, size, size).
    """
    _compile(torch.get_num_threads() > 1)
    inverse = np.empty(gram.shape)
    share(_invert_each, _invert_each_parallel, gram.numpy(), inverse)
    return torch.from_numpy(inverse)


@cache
def _compile(_parallel: bool) -> None:
    """All loops on the first call, so that none is compiled in the midst of something that is timed."""
    for dtype in (np.float32, np.float64):
        one = np.ones((1, 1, 1), dtype=dtype)
        share(_factor_seen, _factor_seen_parallel, one, np.ones((1, 1), dtype=np.bool_), 0.0, np.empty(1, dtype=np.bool_))
    share(_invert_each, _invert_each_parallel, one, np.empty((1, 1, 1)))


# --- one problem ---


@njit(fastmath={"contract"}, **COMPILE)
def _cholesky(gram):  # type: ignore[no-untyped-def]
    """F of gram = F^T F in place of the upper triangle; False where a pivot is not positive (NaN included).

    Four rows are finished at a time; then the rows below are updated by all four, two rows in one pass. Written out, because the
    compiler keeps the eight weights in registers only so.
    """
    size = gram.shape[0]
    for start in range(0, size, 4):
        stop = min(start + 4, size)
        if not _finish_rows(gram, start, stop):
            return False
        for row in range(stop, size - 1, 2):  # here stop is start + 4
            a, b, c, d = gram[start, row], gram[start + 1, row], gram[start + 2, row], gram[start + 3, row]
            e, f, g, h = gram[start, row + 1], gram[start + 1, row + 1], gram[start + 2, row + 1], gram[start + 3, row + 1]
            for column in range(row, size):
                w, x, y, z = gram[start, column], gram[start + 1, column], gram[start + 2, column], gram[start + 3, column]
                gram[row, column] -= a * w + b * x + c * y + d * z
                gram[row + 1, column] -= e * w + f * x + g * y + h * z
        if (size - stop) % 2 == 1:
            for above in range(start, stop):
                gram[size - 1, size - 1] -= gram[above, size - 1] ** 2
    return True


@njit(fastmath={"contract"}, **COMPILE)
def _finish_rows(gram, start, stop):  # type: ignore[no-untyped-def]
    size = gram.shape[0]
    for row in range(start, stop):
        if not gram[row, row] > 0:
            return False
        scale = 1 / np.sqrt(gram[row, row])
        for column in range(row, size):
            gram[row, column] *= scale
        for below in range(row + 1, stop):
            factor = gram[row, below]
            for column in range(below, size):
                gram[below, column] -= factor * gram[row, column]
    return True


@njit(fastmath={"contract"}, **COMPILE)
def _invert(factor, inverse):  # type: ignore[no-untyped-def]
    """The inverse of an upper triangular matrix, from the last row up: two rows in one pass over four finished ones."""
    size = factor.shape[0]
    inverse[:] = 0
    if size % 2 == 1:
        inverse[size - 1, size - 1] = 1 / factor[size - 1, size - 1]
    for row in range(size - size % 2 - 2, -1, -2):
        start = row + 2
        while start + 4 <= size:
            a, b, c, d = factor[row, start], factor[row, start + 1], factor[row, start + 2], factor[row, start + 3]
            below = factor[row + 1]
            e, f, g, h = below[start], below[start + 1], below[start + 2], below[start + 3]
            for column in range(start, size):
                w, x = inverse[start, column], inverse[start + 1, column]
                y, z = inverse[start + 2, column], inverse[start + 3, column]
                inverse[row, column] -= a * w + b * x + c * y + d * z
                inverse[row + 1, column] -= e * w + f * x + g * y + h * z
            start += 4
        _finish_pair(factor, inverse, row, start)


@njit(fastmath={"contract"}, **COMPILE)
def _finish_pair(factor, inverse, row, start):  # type: ignore[no-untyped-def]
    """What the rows from ``start`` on and the two rows themselves still contribute."""
    size = factor.shape[0]
    for rest in range(start, size):
        for column in range(rest, size):
            inverse[row, column] -= factor[row, rest] * inverse[rest, column]
            inverse[row + 1, column] -= factor[row + 1, rest] * inverse[rest, column]
    inverse[row, row] = inverse[row + 1, row + 1] = 1
    for column in range(row + 1, size):
        inverse[row + 1, column] /= factor[row + 1, row + 1]
        inverse[row, column] -= factor[row, row + 1] * inverse[row + 1, column]
    for column in range(row, size):
        inverse[row, column] /= factor[row, row]


@njit(**COMPILE)
def _is_positive(gram, seen, shift):  # type: ignore[no-untyped-def]
    length, trace = 0, 0.0
    keys = np.empty(seen.size, dtype=np.int64)
    for key in range(seen.size):
        if seen[key]:
            keys[length] = key
            trace += gram[key, key]
            length += 1
    part = np.empty((length, length))
    for row in range(length):
        for column in range(row, length):
            part[row, column] = gram[keys[row], keys[column]]
        part[row, row] -= shift * trace
    return _cholesky(part)


# --- all problems, on one thread or on many ---


@njit(**COMPILE)
def _factor_seen(gram, seen, shift, positive):  # type: ignore[no-untyped-def]
    for problem in range(positive.size):
        positive[problem] = _is_positive(gram[problem], seen[problem], shift)


@njit(parallel=True, **COMPILE)
def _factor_seen_parallel(gram, seen, shift, positive):  # type: ignore[no-untyped-def]
    for problem in prange(positive.size):
        positive[problem] = _is_positive(gram[problem], seen[problem], shift)


@njit(**COMPILE)
def _invert_one(gram, inverse):  # type: ignore[no-untyped-def]
    if _cholesky(gram):
        _invert(gram, inverse)
    else:
        inverse[:] = np.nan


@njit(**COMPILE)
def _invert_each(gram, inverse):  # type: ignore[no-untyped-def]
    for problem in range(len(gram)):
        _invert_one(gram[problem], inverse[problem])


@njit(parallel=True, **COMPILE)
def _invert_each_parallel(gram, inverse):  # type: ignore[no-untyped-def]
    for problem in prange(len(gram)):
        _invert_one(gram[problem], inverse[problem])
