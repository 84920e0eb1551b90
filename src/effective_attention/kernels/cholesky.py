"""Compiled Cholesky factors of V V^T and V^T V, one for each (batch, head), straight from the values.

On the CPU, PyTorch factors a batch of small matrices one after the other on one core, each through a general routine,
and every step in between (a copy in float64, the Gram matrix, the inverse, a product) goes through memory. Here all
steps of one problem follow one another in the processor's cache, in float64, and the problems are divided among the
threads that PyTorch may use. On a GPU the batched routines of PyTorch are the fast ones: ``cholesky_reference`` is the
same in plain PyTorch, and ``choice`` picks one of the two.

Matrices are worked on in tiles of 4 x 8 numbers that stay in registers (``kernels.tiles``). For that their sizes are
multiples of 8: the columns this adds are those of an identity matrix, which changes nothing. Behind them come ``SPARE``
columns that nobody reads.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from effective_attention.kernels.memory import room
from effective_attention.kernels.threads import leaf, loop, share_out
from effective_attention.kernels.tiles import (
    BLOCK_COLUMNS,
    BLOCK_ROWS,
    factor_block,
    less_rows_above,
    load_tile,
    product_tile,
    put_gram,
    put_product,
    read_block,
    solve_from_bottom,
    solve_from_top,
    store_tile,
)
from effective_attention.kernels.vectors import LANES, SPARE, load, store

_KEYS = 64  # of which products are summed at a time: so many stay in the processor's nearest cache


def independent_rows(value: Tensor, seen: Tensor, shift: float) -> Tensor:
    """Return True where ``V V^T - shift * trace * I`` has a Cholesky factor, V being the rows that are seen.

    Args:
        value: (problem, key, d_head), float32 or float64, on the CPU.
        seen: (problem, key), bool.
        shift: Relative to the trace of ``V V^T``.

    Returns:
        (problem,), bool. False where more rows are seen than V has columns.
    """
    positive = np.empty(len(value), dtype=np.bool_)
    arrays = value.contiguous().numpy(), seen.contiguous().numpy()
    share_out(_test_each, len(value), *arrays, shift, positive)
    return torch.from_numpy(positive)


def orthonormal_columns(
    value: Tensor, seen: Tensor, *, whitener: bool, products: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return Q = V R with ``Q^T Q = I``, R, Q^T V and a bound of V's condition number, V being the rows that are seen.

    R is the inverse of the Cholesky factor of ``V^T V``, and ``Q^T V = R^T V^T V``.

    Args:
        value: (problem, key, d_head), float32 or float64, on the CPU.
        seen: (problem, key), bool.
        whitener: Whether R is wanted.
        products: Whether Q^T V is.

    Returns:
        Q (problem, key, d_head), float32, 0 where not seen. R (problem, d_head, d_head), float64, upper triangular, and
        Q^T V, likewise, float32; empty if not wanted. ``||V||_F ||R||_F`` (problem,), which bounds the condition number
        of V. All NaN where ``V^T V`` is not positive definite.
    """
    problems, keys, size = value.shape
    basis = np.empty((problems, keys, size), dtype=np.float32)
    square, nothing = (problems, size, size), (problems, 0, 0)
    inverse = np.empty(square if whitener else nothing)
    back = np.empty(square if products else nothing, dtype=np.float32)
    bound = np.empty(problems)
    arrays = value.contiguous().numpy(), seen.contiguous().numpy()
    share_out(_whiten_each, len(value), *arrays, basis, inverse, back, bound)
    return torch.from_numpy(basis), torch.from_numpy(inverse), torch.from_numpy(back), torch.from_numpy(bound)


def compile_loops(dtype: torch.dtype) -> None:
    """Compile every loop for values of this type, by running each on one number.

    So none is compiled in the midst of something that is timed, and ``choice`` sees in time if one cannot be.
    """
    value = torch.ones(1, 1, 1, dtype=dtype)
    seen = torch.ones(1, 1, dtype=torch.bool)
    independent_rows(value, seen, 0.0)
    orthonormal_columns(value, seen, whitener=True)


# --- one problem: sizes are multiples of 8 ---


@leaf
def _factor(rows, shift, factor):  # type: ignore[no-untyped-def]
    """Fill the upper triangle of ``factor`` with F, ``F^T F = rows^T rows - shift I``; return whether there is an F."""
    _sum_gram(rows, factor, True)
    for k in range(len(factor)):
        factor[k, k] -= shift
    return factor_gram(factor, factor)


@leaf
def _sum_gram(rows, gram, upper):  # type: ignore[no-untyped-def]
    """Fill ``gram`` with ``rows^T rows``, or what stands on and above its diagonal."""
    size = len(gram)
    for first in range(0, max(len(rows), 1), _KEYS):
        last = min(first + _KEYS, len(rows))
        for top in range(0, size, BLOCK_ROWS):
            for column in range(top // BLOCK_COLUMNS * BLOCK_COLUMNS if upper else 0, size, BLOCK_COLUMNS):
                put_gram(rows, rows, first, last, (top, column), gram, (size, size), first > 0, 1.0)


@leaf
def factor_gram(gram, factor):  # type: ignore[no-untyped-def]
    """Fill the upper triangle of ``factor`` with F, ``F^T F = gram``; return whether there is an F.

    There is none where a pivot is NaN or not positive. Four rows at a time, from the top: what the rows above leave of
    the Gram matrix, then the four among themselves. What comes to stand left of the diagonal has no meaning. ``factor``
    may be ``gram`` itself.
    """
    size = len(gram)
    for top in range(0, size, 4):
        corner = top // LANES * LANES
        for column in range(corner, size, LANES):
            tile = less_rows_above(load_tile(gram, top, column), factor, factor, top, column)
            store_tile(factor, top, column, tile)
        scales, upper = factor_block(factor, top)
        if not scales[3] < np.inf:
            return False
        for column in range(corner, size, LANES):
            store_tile(factor, top, column, solve_from_top(scales, upper, load_tile(factor, top, column)))
    return True


@leaf
def invert(factor, inverse):  # type: ignore[no-untyped-def]
    """Fill ``inverse`` with that of an upper triangular matrix, four rows at a time, from the bottom.

    ``inverse`` must come filled with 0.
    """
    size = len(factor)
    for top in range(size - 4, -1, -4):
        scales, upper = read_block(factor, top)
        for k in range(top, top + 4):
            inverse[k, k] = 1  # the right-hand side, an identity matrix, is overwritten by the answer
        for column in range(top // LANES * LANES, size, LANES):
            identity = load_tile(inverse, top, column)
            below = product_tile(factor, inverse, top + 4, column + LANES, top, column)
            store_tile(inverse, top, column, solve_from_bottom(scales, upper, identity, below))


@loop
def _write_product(rows, keys, inverse, basis):  # type: ignore[no-untyped-def]
    """Write ``rows @ inverse``, of an upper triangular matrix, into the basis at ``keys``."""
    size = len(inverse)
    some = room(BLOCK_ROWS, size)
    for top in range(0, len(keys), BLOCK_ROWS):
        count = min(BLOCK_ROWS, len(rows) - top)
        for column in range(0, size, BLOCK_COLUMNS):
            stop = min(column + BLOCK_COLUMNS, size)
            put_product(rows[top:], inverse, 0, stop, (0, column), some, (count, size), False, 1.0)
        for row in range(min(count, len(keys) - top)):
            _copy_row(some, row, basis, keys[top + row], basis.shape[1])


@leaf
def _write_transposed_product(inverse, gram, some, products):  # type: ignore[no-untyped-def]
    """Write ``inverse^T gram``; of the symmetric ``gram`` what stands on and above the diagonal is known.

    ``some`` is room for the result.
    """
    size = len(gram)
    for row in range(size):
        for column in range(row):
            gram[row, column] = gram[column, row]
    for top in range(0, size, BLOCK_ROWS):
        stop = min(top + BLOCK_ROWS, size)  # below it the inverse is 0
        for column in range(0, size, BLOCK_COLUMNS):
            put_gram(inverse, gram, 0, stop, (top, column), some, (size, size), False, 1.0)
    for row in range(len(products)):
        _copy_row(some, row, products, row, len(products))


@loop
def _are_independent(value, seen, shift):  # type: ignore[no-untyped-def]
    """Return whether the shifted Gram matrix of one problem's seen rows has a factor."""
    keys = _places_of_true(seen)
    if len(keys) > value.shape[1]:
        return False
    columns, trace = _padded_columns(value, keys)
    return _factor(columns, shift * trace, room(columns.shape[1] - SPARE, columns.shape[1]))


@loop
def condition_of_rows(value, seen):  # type: ignore[no-untyped-def]
    """Return a bound of the condition number of one problem's seen rows; infinite where they are not independent."""
    keys = _places_of_true(seen)
    if len(keys) > value.shape[1]:
        return np.inf
    columns, trace = _padded_columns(value, keys)
    size = columns.shape[1] - SPARE
    factor, inverse = room(size, size + SPARE), room(size, size + SPARE)
    if not _factor(columns, 0.0, factor):
        return np.inf
    invert(factor, inverse)
    return np.sqrt(trace * _sum_of_squares(inverse, len(keys)))


@loop
def _padded_columns(value, keys):  # type: ignore[no-untyped-def]
    """Return V's rows at ``keys`` as columns in float64, then a row for each spare column; and their sum of squares."""
    length, width = len(keys), value.shape[1]
    size = _round_up(length, LANES)
    columns = room(width + size - length, size + SPARE)
    for place in range(length):
        for k in range(width):
            columns[k, place] = value[keys[place], k]
    trace = _sum_of_squares(columns, width)
    for spare in range(size - length):
        columns[width + spare, length + spare] = np.sqrt(trace)
    return columns, trace


@loop
def fill_gram(value, seen, gram):  # type: ignore[no-untyped-def]
    """Fill ``gram`` with ``V^T V`` of one problem's seen rows; spare columns stay 0."""
    keys = _places_of_true(seen)
    rows = room(len(keys), len(gram) + SPARE)
    for place in range(len(keys)):
        for column in range(value.shape[1]):
            rows[place, column] = value[keys[place], column]
    _sum_gram(rows, gram, False)


@loop
def _whiten(value, seen, basis, whitener, products):  # type: ignore[no-untyped-def]
    """Fill ``basis`` and what is not empty of the others; return the bound of the condition number."""
    keys = _places_of_true(seen)
    rows = _padded_rows(value, keys)
    length, size = len(keys), rows.shape[1] - SPARE
    squares = _sum_of_squares(rows, length)
    gram, factor, inverse = room(size, size + SPARE), room(size, size + SPARE), room(size, size + SPARE)
    _sum_gram(rows, gram, True)
    if not factor_gram(gram, factor):
        _fill(basis, np.nan)
        _fill(whitener, np.nan)
        _fill(products, np.nan)
        return np.nan
    invert(factor, inverse)
    if len(products) > 0:
        _write_transposed_product(inverse, gram, factor, products)
    if length < len(basis):
        _fill(basis, 0.0)
    _write_product(rows, keys, inverse, basis)
    for row in range(len(whitener)):
        _copy_row(inverse, row, whitener, row, whitener.shape[1])
    return np.sqrt(squares * _sum_of_squares(inverse, value.shape[1]))


@loop
def _padded_rows(value, keys):  # type: ignore[no-untyped-def]
    """Return V's rows at ``keys`` in float64, then an identity matrix's row for each spare column, then rows of 0."""
    length, width = len(keys), value.shape[1]
    size = _round_up(width, LANES)
    rows = room(_round_up(length + size - width, 4), size + SPARE)
    for place in range(length):
        _copy_row(value, keys[place], rows, place, width)
    for spare in range(size - width):
        rows[length + spare, width + spare] = 1
    return rows


@leaf(fastmath={"contract", "reassoc"})
def _sum_of_squares(matrix, rows):  # type: ignore[no-untyped-def]
    """Return the sum over the first ``rows`` rows."""
    total = 0.0
    for row in range(rows):
        for column in range(matrix.shape[1]):
            total += matrix[row, column] * matrix[row, column]
    return total


# NumPy's own ways to say these two (``np.flatnonzero``, ``matrix[:] = number``) take seconds to compile.


@loop
def _places_of_true(seen):  # type: ignore[no-untyped-def]
    """Return the positions at which ``seen`` is True, in order."""
    places, count = np.empty(seen.size, dtype=np.int64), 0
    for place in range(seen.size):
        if seen[place]:
            places[count] = place
            count += 1
    return places[:count]


@leaf
def _fill(matrix, number):  # type: ignore[no-untyped-def]
    for row in range(matrix.shape[0]):
        for column in range(matrix.shape[1]):
            matrix[row, column] = number


@leaf
def _copy_row(source, source_row, target, target_row, width):  # type: ignore[no-untyped-def]
    """Copy so many numbers of a row, of any type into any."""
    whole = width // LANES * LANES
    for column in range(0, whole, LANES):
        store(target, target_row, column, load(source, source_row, column))
    for column in range(whole, width):
        target[target_row, column] = source[source_row, column]


@leaf
def _round_up(number, unit):  # type: ignore[no-untyped-def]
    """Return the smallest multiple of ``unit`` that is not below ``number``."""
    return -(-number // unit) * unit


# --- some of all problems ---


@loop
def _test_each(first, last, value, seen, shift, positive):  # type: ignore[no-untyped-def]
    for problem in range(first, last):
        positive[problem] = _are_independent(value[problem], seen[problem], shift)


@loop
def _whiten_each(first, last, value, seen, basis, whitener, products, bound):  # type: ignore[no-untyped-def]
    for problem in range(first, last):
        into = basis[problem], whitener[problem], products[problem]
        bound[problem] = _whiten(value[problem], seen[problem], *into)
