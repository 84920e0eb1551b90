"""Compiled Cholesky factors of V V^T and V^T V, one for each (batch, head), straight from the values.

On the CPU, PyTorch factors a batch of small matrices one after the other on one core, each through a general routine,
and every step in between (a copy in float64, the Gram matrix, the inverse, a product) goes through memory. Here all
steps of one problem follow one another in the processor's cache, in float64, and the problems are divided among the
threads that PyTorch may use. On a GPU the batched routines of PyTorch are the fast ones: ``cholesky_reference`` is the
same in plain PyTorch, and ``choice`` picks one of the two.

Matrices are worked on in tiles of 4 x 8 numbers that stay in registers: four rows (``row0`` to ``row3``) of eight
numbers each (``kernels.vectors``). For that their sizes are multiples of 8: the columns this adds are those of an
identity matrix, which changes nothing. Behind them come ``SPARE`` columns that nobody reads. A tile is named by its
first row (``top``) and its first column (``column``).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from effective_attention.kernels.threads import loop, share_out
from effective_attention.kernels.vectors import LANES, SPARE, load, minus, plus, store, times, zeros


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


def orthonormal_columns(value: Tensor, seen: Tensor, *, whitener: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return Q = V R with ``Q^T Q = I``, R and a bound of V's condition number, V being the rows that are seen.

    R is the inverse of the Cholesky factor of ``V^T V``.

    Args:
        value: (problem, key, d_head), float32 or float64, on the CPU.
        seen: (problem, key), bool.
        whitener: Whether R is wanted.

    Returns:
        Q (problem, key, d_head), float32, 0 where not seen. R (problem, d_head, d_head), float64, upper triangular;
        empty if not wanted. ``||V||_F ||R||_F`` (problem,), which bounds the condition number of V. All NaN where ``V^T
        V`` is not positive definite.
    """
    problems, keys, size = value.shape
    basis = np.empty((problems, keys, size), dtype=np.float32)
    inverse = np.empty((problems, size, size) if whitener else (problems, 0, 0))
    bound = np.empty(problems)
    arrays = value.contiguous().numpy(), seen.contiguous().numpy()
    share_out(_whiten_each, len(value), *arrays, basis, inverse, bound)
    return torch.from_numpy(basis), torch.from_numpy(inverse), torch.from_numpy(bound)


def compile_loops(dtype: torch.dtype) -> None:
    """Compile every loop for values of this type, by running each on one number.

    So none is compiled in the midst of something that is timed, and ``choice`` sees in time if one cannot be.
    """
    value = torch.ones(1, 1, 1, dtype=dtype)
    seen = torch.ones(1, 1, dtype=torch.bool)
    independent_rows(value, seen, 0.0)
    orthonormal_columns(value, seen, whitener=True)


# --- tiles of 4 x 8 ---


@loop
def _gram_tile(rows, top, column):  # type: ignore[no-untyped-def]
    """Return the tile of ``rows^T rows`` at (``top``, ``column``)."""
    row0, row1, row2, row3 = zeros(), zeros(), zeros(), zeros()
    for k in range(len(rows)):
        right = load(rows, k, column)
        row0 = plus(row0, rows[k, top], right)
        row1 = plus(row1, rows[k, top + 1], right)
        row2 = plus(row2, rows[k, top + 2], right)
        row3 = plus(row3, rows[k, top + 3], right)
    return row0, row1, row2, row3


@loop
def _remaining_tile(rows, factor, top, column):  # type: ignore[no-untyped-def]
    """Return the tile of ``rows^T rows`` at (``top``, ``column``), less what the factor's rows above it make up."""
    return less_rows_above(_gram_tile(rows, top, column), factor, factor, top, column)


@loop
def less_rows_above(tile, factor, rows, top, column):  # type: ignore[no-untyped-def]
    """Return a tile, less ``factor[:top, top : top + 4]^T rows[:top]``, in those columns."""
    row0, row1, row2, row3 = tile
    for k in range(top):
        right = load(rows, k, column)
        row0 = minus(row0, factor[k, top], right)
        row1 = minus(row1, factor[k, top + 1], right)
        row2 = minus(row2, factor[k, top + 2], right)
        row3 = minus(row3, factor[k, top + 3], right)
    return row0, row1, row2, row3


@loop
def product_tile(left, right, start, stop, top, column):  # type: ignore[no-untyped-def]
    """Return ``left[top : top + 4, start:stop] @ right[start:stop, column : column + 8]``."""
    row0, row1, row2, row3 = zeros(), zeros(), zeros(), zeros()
    for k in range(start, stop):
        numbers = load(right, k, column)
        row0 = plus(row0, left[top, k], numbers)
        row1 = plus(row1, left[top + 1, k], numbers)
        row2 = plus(row2, left[top + 2, k], numbers)
        row3 = plus(row3, left[top + 3, k], numbers)
    return row0, row1, row2, row3


@loop
def load_tile(matrix, top, column):  # type: ignore[no-untyped-def]
    return (
        load(matrix, top, column),
        load(matrix, top + 1, column),
        load(matrix, top + 2, column),
        load(matrix, top + 3, column),
    )


@loop
def tile_plus(tile, factor, other):  # type: ignore[no-untyped-def]
    """Return ``tile + factor other``."""
    row0, row1 = plus(tile[0], factor, other[0]), plus(tile[1], factor, other[1])
    row2, row3 = plus(tile[2], factor, other[2]), plus(tile[3], factor, other[3])
    return row0, row1, row2, row3


@loop
def store_tile(matrix, top, column, tile):  # type: ignore[no-untyped-def]
    store(matrix, top, column, tile[0])
    store(matrix, top + 1, column, tile[1])
    store(matrix, top + 2, column, tile[2])
    store(matrix, top + 3, column, tile[3])


# --- the 4 x 4 block U on the diagonal of the factor ---
#
# It is passed around as numbers: ``scales`` are one over its diagonal, ``upper`` are (u01, u02, u03, u12, u13, u23),
# where u12 stands in its row 1 and column 2.


@loop
def _factor_block(gram, top):  # type: ignore[no-untyped-def]
    """Factor the 4 x 4 block of ``gram`` at ``top``; return scales and upper.

    A pivot that is not positive makes the last scale NaN or infinite.
    """
    scale0 = 1 / np.sqrt(gram[top, top])
    u01 = scale0 * gram[top, top + 1]
    u02 = scale0 * gram[top, top + 2]
    u03 = scale0 * gram[top, top + 3]
    scale1 = 1 / np.sqrt(gram[top + 1, top + 1] - u01 * u01)
    u12 = scale1 * (gram[top + 1, top + 2] - u01 * u02)
    u13 = scale1 * (gram[top + 1, top + 3] - u01 * u03)
    scale2 = 1 / np.sqrt(gram[top + 2, top + 2] - u02 * u02 - u12 * u12)
    u23 = scale2 * (gram[top + 2, top + 3] - u02 * u03 - u12 * u13)
    scale3 = 1 / np.sqrt(gram[top + 3, top + 3] - u03 * u03 - u13 * u13 - u23 * u23)
    return (scale0, scale1, scale2, scale3), (u01, u02, u03, u12, u13, u23)


@loop
def read_block(factor, top):  # type: ignore[no-untyped-def]
    """Return scales and upper of the block at ``top`` of a finished factor."""
    scale0, scale1 = 1 / factor[top, top], 1 / factor[top + 1, top + 1]
    scale2, scale3 = 1 / factor[top + 2, top + 2], 1 / factor[top + 3, top + 3]
    u01, u02, u03 = factor[top, top + 1], factor[top, top + 2], factor[top, top + 3]
    u12, u13 = factor[top + 1, top + 2], factor[top + 1, top + 3]
    u23 = factor[top + 2, top + 3]
    return (scale0, scale1, scale2, scale3), (u01, u02, u03, u12, u13, u23)


@loop
def solve_from_top(scales, upper, tile):  # type: ignore[no-untyped-def]
    """Return the tile T with ``U^T T = tile``: each row needs those above it."""
    u01, u02, u03, u12, u13, u23 = upper
    row0 = times(scales[0], tile[0])
    row1 = times(scales[1], minus(tile[1], u01, row0))
    row2 = times(scales[2], minus(minus(tile[2], u02, row0), u12, row1))
    row3 = times(scales[3], minus(minus(minus(tile[3], u03, row0), u13, row1), u23, row2))
    return row0, row1, row2, row3


@loop
def _solve_from_bottom(scales, upper, tile, known):  # type: ignore[no-untyped-def]
    """Return the tile T with ``U T = tile - known``: each row needs those below it."""
    u01, u02, u03, u12, u13, u23 = upper
    row3 = times(scales[3], minus(tile[3], 1.0, known[3]))
    row2 = times(scales[2], minus(minus(tile[2], 1.0, known[2]), u23, row3))
    row1 = times(scales[1], minus(minus(minus(tile[1], 1.0, known[1]), u12, row2), u13, row3))
    row0 = times(scales[0], minus(minus(minus(minus(tile[0], 1.0, known[0]), u01, row1), u02, row2), u03, row3))
    return row0, row1, row2, row3


# --- one problem: sizes are multiples of 8 ---


@loop
def _factor(rows, shift, factor):  # type: ignore[no-untyped-def]
    """Fill the upper triangle of ``factor`` with F, ``F^T F = rows^T rows - shift I``; return whether there is an F.

    There is none where a pivot is NaN or not positive. Four rows at a time, from the top: what the rows above leave of
    the Gram matrix, then the four among themselves. What comes to stand left of the diagonal has no meaning.
    """
    size = len(factor)
    for top in range(0, size, 4):
        corner = top // LANES * LANES  # first column of the tile that holds the diagonal
        store_tile(factor, top, corner, _remaining_tile(rows, factor, top, corner))
        for k in range(top, top + 4):
            factor[k, k] -= shift
        scales, upper = _factor_block(factor, top)
        if not scales[3] < np.inf:
            return False
        tile = load_tile(factor, top, corner)
        for column in range(corner, size, LANES):
            if column > corner:
                tile = _remaining_tile(rows, factor, top, column)
            store_tile(factor, top, column, solve_from_top(scales, upper, tile))
    return True


@loop
def factor_gram(gram, factor):  # type: ignore[no-untyped-def]
    """Do what ``_factor`` does, for a Gram matrix that is there already; ``gram`` is left as it is."""
    size = len(gram)
    for top in range(0, size, 4):
        corner = top // LANES * LANES
        for column in range(corner, size, LANES):
            tile = less_rows_above(load_tile(gram, top, column), factor, factor, top, column)
            store_tile(factor, top, column, tile)
        scales, upper = _factor_block(factor, top)
        if not scales[3] < np.inf:
            return False
        for column in range(corner, size, LANES):
            store_tile(factor, top, column, solve_from_top(scales, upper, load_tile(factor, top, column)))
    return True


@loop
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
            store_tile(inverse, top, column, _solve_from_bottom(scales, upper, identity, below))


@loop
def _multiply(rows, length, inverse):  # type: ignore[no-untyped-def]
    """Overwrite the first ``length`` rows with ``rows @ inverse``.

    From the last columns back: each of the product's columns needs only those of ``rows`` up to itself.
    """
    for top in range(0, length, 4):
        for column in range(len(inverse) - LANES, -1, -LANES):
            store_tile(rows, top, column, product_tile(rows, inverse, 0, column + LANES, top, column))


@loop
def _are_independent(value, seen, shift):  # type: ignore[no-untyped-def]
    """Return whether the shifted Gram matrix of one problem's seen rows has a factor."""
    keys = _places_of_true(seen)
    if len(keys) > value.shape[1]:
        return False
    columns, trace = _padded_columns(value, keys)
    return _factor(columns, shift * trace, np.empty((columns.shape[1] - SPARE, columns.shape[1])))


@loop
def condition_of_rows(value, seen):  # type: ignore[no-untyped-def]
    """Return a bound of the condition number of one problem's seen rows; infinite where they are not independent."""
    keys = _places_of_true(seen)
    if len(keys) > value.shape[1]:
        return np.inf
    columns, trace = _padded_columns(value, keys)
    size = columns.shape[1] - SPARE
    factor, inverse = np.empty((size, size + SPARE)), np.zeros((size, size + SPARE))
    if not _factor(columns, 0.0, factor):
        return np.inf
    invert(factor, inverse)
    return np.sqrt(trace * _sum_of_squares(inverse, len(keys)))


@loop
def _padded_columns(value, keys):  # type: ignore[no-untyped-def]
    """Return V's rows at ``keys`` as columns in float64, then a row for each spare column; and their sum of squares."""
    length, width = len(keys), value.shape[1]
    size = _round_up(length, LANES)
    columns = np.zeros((width + size - length, size + SPARE))
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
    rows = np.zeros((len(keys), len(gram) + SPARE))
    for place in range(len(keys)):
        for column in range(value.shape[1]):
            rows[place, column] = value[keys[place], column]
    for top in range(0, len(gram), 4):
        for column in range(0, len(gram), LANES):
            store_tile(gram, top, column, _gram_tile(rows, top, column))


@loop
def _whiten(value, seen, basis, whitener):  # type: ignore[no-untyped-def]
    """Fill ``basis`` and, unless it is empty, ``whitener`` of one problem; return the bound of the condition number."""
    keys = _places_of_true(seen)
    rows = _padded_rows(value, keys)
    length, size = len(keys), rows.shape[1] - SPARE
    squares = _sum_of_squares(rows, length)
    factor, inverse = np.empty((size, size + SPARE)), np.zeros((size, size + SPARE))
    if not _factor(rows, 0.0, factor):
        _fill(basis, np.nan)
        _fill(whitener, np.nan)
        return np.nan
    invert(factor, inverse)
    _multiply(rows, length, inverse)
    _fill(basis, 0.0)
    for place in range(length):
        _copy_row(rows, place, basis, keys[place])
    for row in range(len(whitener)):
        _copy_row(inverse, row, whitener, row)
    return np.sqrt(squares * _sum_of_squares(inverse, value.shape[1]))


@loop
def _padded_rows(value, keys):  # type: ignore[no-untyped-def]
    """Return V's rows at ``keys`` in float64, then an identity matrix's row for each spare column, then rows of 0."""
    length, width = len(keys), value.shape[1]
    size = _round_up(width, LANES)
    rows = np.zeros((_round_up(length + size - width, 4), size + SPARE))
    for place in range(length):
        for column in range(width):
            rows[place, column] = value[keys[place], column]
    for spare in range(size - width):
        rows[length + spare, width + spare] = 1
    return rows


@loop(fastmath={"contract", "reassoc"})
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


@loop
def _fill(matrix, number):  # type: ignore[no-untyped-def]
    for row in range(matrix.shape[0]):
        for column in range(matrix.shape[1]):
            matrix[row, column] = number


@loop
def _copy_row(source, source_row, target, target_row):  # type: ignore[no-untyped-def]
    """Copy as much of a row as the target is wide."""
    for column in range(target.shape[1]):
        target[target_row, column] = source[source_row, column]


@loop
def _round_up(number, unit):  # type: ignore[no-untyped-def]
    """Return the smallest multiple of ``unit`` that is not below ``number``."""
    return -(-number // unit) * unit


# --- some of all problems ---


@loop
def _test_each(first, last, value, seen, shift, positive):  # type: ignore[no-untyped-def]
    for problem in range(first, last):
        positive[problem] = _are_independent(value[problem], seen[problem], shift)


@loop
def _whiten_each(first, last, value, seen, basis, whitener, bound):  # type: ignore[no-untyped-def]
    for problem in range(first, last):
        bound[problem] = _whiten(value[problem], seen[problem], basis[problem], whitener[problem])
