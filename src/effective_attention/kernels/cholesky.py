"""Compiled Cholesky factors of V V^T and V^T V, one for each (batch, head), straight from the values.

On the CPU, PyTorch factors a batch of small matrices one after the other on one core, each through a general routine,
and every step in between (a copy in float64, the Gram matrix, the inverse, a product) goes through memory. Here all
steps of one problem follow one another in the processor's cache, in float64, and the problems are shared among the
threads that PyTorch may use. On a GPU the batched routines of PyTorch are the fast ones, so only the CPU comes here.

Matrices are worked on in tiles of 4 x 8 numbers that stay in registers (``kernels.vectors``). For that their sizes are
multiples of 8: the spare columns are those of an identity matrix, which changes nothing.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from effective_attention.kernels.threads import COMPILE, share
from effective_attention.kernels.vectors import LANES, load, minus, plus, store, times, zeros


def independent_rows(value: Tensor, seen: Tensor, shift: float) -> Tensor:
    """True where ``V V^T - shift * trace * I`` has a Cholesky factor, V being the rows that are seen; never if they are too many.

    Args:
        value: (problem, key, d_head), float32 or float64.
        seen: (problem, key), bool.
        shift: Relative to the trace of ``V V^T``.

    Returns:
        (problem,), bool.
    """
    _compile(value.dtype, torch.get_num_threads() > 1)
    positive = np.empty(len(value), dtype=np.bool_)
    share(_prove_each, _prove_each_parallel, value.contiguous().numpy(), seen.contiguous().numpy(), shift, positive)
    return torch.from_numpy(positive)


def orthonormal_columns(value: Tensor, seen: Tensor, *, whitener: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Q = V R with ``Q^T Q = I``, V being the rows that are seen, and R the inverse of the Cholesky factor of ``V^T V``.

    Args:
        value: (problem, key, d_head), float32 or float64.
        seen: (problem, key), bool.
        whitener: Whether R is wanted.

    Returns:
        Q (problem, key, d_head), float32, 0 where not seen. R (problem, d_head, d_head), float64, upper triangular;
        empty if not wanted. ``||V||_F ||R||_F`` (problem,), which bounds the condition number of V. All NaN where ``V^T
        V`` is not positive definite.
    """
    _compile(value.dtype, torch.get_num_threads() > 1)
    problems, keys, size = value.shape
    basis = np.empty((problems, keys, size), dtype=np.float32)
    inverse = np.empty((problems, size, size) if whitener else (problems, 0, 0))
    bound = np.empty(problems)
    share(
        _whiten_each,
        _whiten_each_parallel,
        value.contiguous().numpy(),
        seen.contiguous().numpy(),
        basis,
        inverse,
        bound,
    )
    return torch.from_numpy(basis), torch.from_numpy(inverse), torch.from_numpy(bound)


@cache
def _compile(dtype: torch.dtype, _parallel: bool) -> None:
    """All loops on the first call, so that none is compiled in the midst of something that is timed."""
    one, seen = torch.ones(1, 1, 1, dtype=dtype).numpy(), np.ones((1, 1), dtype=np.bool_)
    share(_prove_each, _prove_each_parallel, one, seen, 0.0, np.empty(1, dtype=np.bool_))
    basis = np.empty((1, 1, 1), dtype=np.float32)
    share(_whiten_each, _whiten_each_parallel, one, seen, basis, np.empty((1, 1, 1)), np.empty(1))


# --- tiles of 4 x 8 ---


@njit(**COMPILE)
def _remaining_tile(rows, factor, row, column):  # type: ignore[no-untyped-def]
    """Of ``rows^T rows`` what the factor's rows above do not make up: 4 rows from ``row``, 8 columns from ``column``."""
    a, b, c, d = zeros(), zeros(), zeros(), zeros()
    for k in range(len(rows)):
        right = load(rows, k, column)
        a, b = plus(a, rows[k, row], right), plus(b, rows[k, row + 1], right)
        c, d = plus(c, rows[k, row + 2], right), plus(d, rows[k, row + 3], right)
    for k in range(row):
        right = load(factor, k, column)
        a, b = minus(a, factor[k, row], right), minus(b, factor[k, row + 1], right)
        c, d = minus(c, factor[k, row + 2], right), minus(d, factor[k, row + 3], right)
    return a, b, c, d


@njit(**COMPILE)
def _product_tile(left, right, start, stop, row, column):  # type: ignore[no-untyped-def]
    """``left[row : row + 4, start:stop] right[start:stop, column : column + 8]``."""
    a, b, c, d = zeros(), zeros(), zeros(), zeros()
    for k in range(start, stop):
        numbers = load(right, k, column)
        a, b = plus(a, left[row, k], numbers), plus(b, left[row + 1, k], numbers)
        c, d = plus(c, left[row + 2, k], numbers), plus(d, left[row + 3, k], numbers)
    return a, b, c, d


@njit(**COMPILE)
def _load_tile(matrix, row, column):  # type: ignore[no-untyped-def]
    a, b = load(matrix, row, column), load(matrix, row + 1, column)
    return a, b, load(matrix, row + 2, column), load(matrix, row + 3, column)


@njit(**COMPILE)
def _store_tile(matrix, row, column, tile):  # type: ignore[no-untyped-def]
    a, b, c, d = tile
    store(matrix, row, column, a)
    store(matrix, row + 1, column, b)
    store(matrix, row + 2, column, c)
    store(matrix, row + 3, column, d)


# --- one problem: sizes are multiples of 8 ---


@njit(**COMPILE)
def _factor(rows, shift, factor):  # type: ignore[no-untyped-def]
    """F with ``F^T F = rows^T rows - shift I`` in the upper triangle of ``factor``; False where a pivot is not positive, or NaN.

    Four rows at a time, from the top: what the rows above leave of the Gram matrix, then the four among themselves.
    What comes to stand left of the diagonal has no meaning.
    """
    size = rows.shape[1]
    for row in range(0, size, 4):
        corner = row // LANES * LANES
        _store_tile(factor, row, corner, _remaining_tile(rows, factor, row, corner))
        for k in range(row, row + 4):
            factor[k, k] -= shift
        scales, (ab, ac, ad, bc, bd, cd) = _factor_four(factor, row)
        if not scales[3] < np.inf:
            return False
        left = _load_tile(factor, row, corner)
        for column in range(corner, size, LANES):
            if column > corner:
                left = _remaining_tile(rows, factor, row, column)
            a = times(scales[0], left[0])
            b = times(scales[1], minus(left[1], ab, a))
            c = times(scales[2], minus(minus(left[2], ac, a), bc, b))
            d = times(scales[3], minus(minus(minus(left[3], ad, a), bd, b), cd, c))
            _store_tile(factor, row, column, (a, b, c, d))
    return True


@njit(**COMPILE)
def _factor_four(gram, row):  # type: ignore[no-untyped-def]
    """Of the four rows and columns from ``row``: one over the factor's diagonal, and what is above it. Bad pivots: NaN, inf."""
    p = 1 / np.sqrt(gram[row, row])
    ab, ac, ad = p * gram[row, row + 1], p * gram[row, row + 2], p * gram[row, row + 3]
    q = 1 / np.sqrt(gram[row + 1, row + 1] - ab * ab)
    bc, bd = q * (gram[row + 1, row + 2] - ab * ac), q * (gram[row + 1, row + 3] - ab * ad)
    r = 1 / np.sqrt(gram[row + 2, row + 2] - ac * ac - bc * bc)
    cd = r * (gram[row + 2, row + 3] - ac * ad - bc * bd)
    s = 1 / np.sqrt(gram[row + 3, row + 3] - ad * ad - bd * bd - cd * cd)
    return (p, q, r, s), (ab, ac, ad, bc, bd, cd)


@njit(**COMPILE)
def _invert(factor, inverse):  # type: ignore[no-untyped-def]
    """The inverse of an upper triangular matrix, four rows at a time, from the bottom; ``inverse`` comes filled with 0."""
    size = len(factor)
    for row in range(size - 4, -1, -4):
        p, ab, ac, ad = 1 / factor[row, row], factor[row, row + 1], factor[row, row + 2], factor[row, row + 3]
        q, bc, bd = 1 / factor[row + 1, row + 1], factor[row + 1, row + 2], factor[row + 1, row + 3]
        r, cd, s = 1 / factor[row + 2, row + 2], factor[row + 2, row + 3], 1 / factor[row + 3, row + 3]
        for k in range(row, row + 4):
            inverse[k, k] = 1
        for column in range(row // LANES * LANES, size, LANES):
            a, b, c, d = _load_tile(inverse, row, column)
            e, f, g, h = _product_tile(factor, inverse, row + 4, column + LANES, row, column)
            d = times(s, minus(d, 1.0, h))
            c = times(r, minus(minus(c, 1.0, g), cd, d))
            b = times(q, minus(minus(minus(b, 1.0, f), bc, c), bd, d))
            a = times(p, minus(minus(minus(minus(a, 1.0, e), ab, b), ac, c), ad, d))
            _store_tile(inverse, row, column, (a, b, c, d))


@njit(**COMPILE)
def _prove(value, seen, shift):  # type: ignore[no-untyped-def]
    keys = _places(seen)
    length, width = len(keys), value.shape[1]
    if length > width:
        return False
    size = _whole(length, LANES)
    columns = np.zeros((width + size - length, size))  # V^T, then the spare columns' own rows
    for place in range(length):
        for k in range(width):
            columns[k, place] = value[keys[place], k]
    trace = _sum_of_squares(columns, width)
    for spare in range(size - length):
        columns[width + spare, length + spare] = np.sqrt(trace)
    return _factor(columns, shift * trace, np.empty((size, size)))


@njit(**COMPILE)
def _whiten(value, seen, basis, whitener):  # type: ignore[no-untyped-def]
    """Fills ``basis`` and, if it has any size, ``whitener``; returns the bound."""
    keys = _places(seen)
    length, width = len(keys), value.shape[1]
    size = _whole(width, LANES)
    rows = np.zeros((_whole(length + size - width, 4), size))  # V, then the spare columns' own rows
    for place in range(length):
        for column in range(width):
            rows[place, column] = value[keys[place], column]
    squares = _sum_of_squares(rows, length)
    for spare in range(size - width):
        rows[length + spare, width + spare] = 1
    factor, inverse = np.empty((size, size)), np.zeros((size, size))
    if not _factor(rows, 0.0, factor):
        _fill(basis, np.nan)
        _fill(whitener, np.nan)
        return np.nan
    _invert(factor, inverse)
    _multiply(rows, length, inverse)
    _fill(basis, 0.0)
    for place in range(length):
        _copy_row(rows, place, basis, keys[place])
    for row in range(len(whitener)):
        _copy_row(inverse, row, whitener, row)
    return np.sqrt(squares * _sum_of_squares(inverse, width))


@njit(**COMPILE)
def _multiply(rows, length, inverse):  # type: ignore[no-untyped-def]
    """``rows = rows inverse`` for the first rows, from the last column back: each needs only those before it."""
    for row in range(0, length, 4):
        for column in range(len(inverse) - LANES, -1, -LANES):
            _store_tile(rows, row, column, _product_tile(rows, inverse, 0, column + LANES, row, column))


@njit(fastmath={"contract", "reassoc"}, **COMPILE)
def _sum_of_squares(matrix, rows):  # type: ignore[no-untyped-def]
    """Of the first rows."""
    total = 0.0
    for row in range(rows):
        for column in range(matrix.shape[1]):
            total += matrix[row, column] * matrix[row, column]
    return total


# NumPy's own ways to say these two take seconds to compile.


@njit(**COMPILE)
def _places(seen):  # type: ignore[no-untyped-def]
    """Where it is True."""
    places, count = np.empty(seen.size, dtype=np.int64), 0
    for place in range(seen.size):
        if seen[place]:
            places[count] = place
            count += 1
    return places[:count]


@njit(**COMPILE)
def _fill(matrix, number):  # type: ignore[no-untyped-def]
    for row in range(matrix.shape[0]):
        for column in range(matrix.shape[1]):
            matrix[row, column] = number


@njit(**COMPILE)
def _copy_row(source, row, target, place):  # type: ignore[no-untyped-def]
    """As much of it as the target is wide."""
    for column in range(target.shape[1]):
        target[place, column] = source[row, column]


@njit(**COMPILE)
def _whole(number, unit):  # type: ignore[no-untyped-def]
    return -(-number // unit) * unit


# --- all problems, on one thread or on many ---


@njit(**COMPILE)
def _prove_each(value, seen, shift, positive):  # type: ignore[no-untyped-def]
    for problem in range(positive.size):
        positive[problem] = _prove(value[problem], seen[problem], shift)


@njit(parallel=True, **COMPILE)
def _prove_each_parallel(value, seen, shift, positive):  # type: ignore[no-untyped-def]
    for problem in prange(positive.size):
        positive[problem] = _prove(value[problem], seen[problem], shift)


@njit(**COMPILE)
def _whiten_each(value, seen, basis, whitener, bound):  # type: ignore[no-untyped-def]
    for problem in range(bound.size):
        bound[problem] = _whiten(value[problem], seen[problem], basis[problem], whitener[problem])


@njit(parallel=True, **COMPILE)
def _whiten_each_parallel(value, seen, basis, whitener, bound):  # type: ignore[no-untyped-def]
    for problem in prange(bound.size):
        bound[problem] = _whiten(value[problem], seen[problem], basis[problem], whitener[problem])
