"""Compiled loops over one symmetric matrix of a head's size: multiply, change by one vector, invert.

Sizes are multiples of 8, and rows have ``SPARE`` numbers more (``kernels.vectors``). Products of two matrices go by
the tiles of ``cholesky``.
"""

from __future__ import annotations

import numpy as np

from effective_attention.kernels.cholesky import factor_gram, invert
from effective_attention.kernels.threads import leaf
from effective_attention.kernels.tiles import (
    BLOCK_COLUMNS,
    BLOCK_ROWS,
    less_rows_above,
    load_tile,
    put_gram,
    put_product,
    read_block,
    solve_from_top,
    store_tile,
)
from effective_attention.kernels.vectors import LANES, load, plus, store, zeros


@leaf
def multiply_matrices(left, right, result):  # type: ignore[no-untyped-def]
    """Do ``result = left right``, in as many columns as the result has."""
    size = len(left), result.shape[1]
    for column in range(0, result.shape[1], BLOCK_COLUMNS):  # these of ``right`` stay in the nearest cache
        for top in range(0, len(left), BLOCK_ROWS):
            put_product(left, right, 0, len(right), (top, column), result, size, False, 1.0)


@leaf
def multiply_lower(factor, left, right, result):  # type: ignore[no-untyped-def]
    """Do ``result += factor L right``, L being what stands on and below the diagonal of ``left``; clear the rest."""
    for row in range(len(left)):
        for column in range(row + 1, left.shape[1]):
            left[row, column] = 0.0
    size = len(left), right.shape[1]
    for column in range(0, right.shape[1], BLOCK_COLUMNS):
        for top in range(0, len(left), BLOCK_ROWS):
            put_product(left, right, 0, top + BLOCK_ROWS, (top, column), result, size, True, factor)


@leaf
def add_gram(matrix, factor, rows):  # type: ignore[no-untyped-def]
    """Do ``matrix += factor rows^T rows``."""
    size = rows.shape[1]
    for column in range(0, size, BLOCK_COLUMNS):
        for top in range(0, size, BLOCK_ROWS):
            put_gram(rows, rows, 0, len(rows), (top, column), matrix, (size, size), True, factor)


@leaf
def solve_transposed(factor, rows):  # type: ignore[no-untyped-def]
    """Overwrite ``rows`` with the X of ``U^T X = rows``, U being the upper triangle of ``factor``."""
    for top in range(0, len(rows), 4):
        scales, upper = read_block(factor, top)
        for column in range(0, rows.shape[1], LANES):
            tile = less_rows_above(load_tile(rows, top, column), factor, rows, top, column)
            store_tile(rows, top, column, solve_from_top(scales, upper, tile))


@leaf
def transpose(matrix, turned):  # type: ignore[no-untyped-def]
    """Fill ``turned`` with the transpose of as many columns as it has rows."""
    for row in range(len(matrix)):
        for column in range(len(turned)):
            turned[column, row] = matrix[row, column]


@leaf
def multiply(matrix, vector, result):  # type: ignore[no-untyped-def]
    """Do ``result = matrix vector``."""
    size = len(matrix)
    for column in range(0, size, LANES):
        even, odd = zeros(), zeros()
        for row in range(0, size, 2):
            even = plus(even, vector[0, row], load(matrix, row, column))
            odd = plus(odd, vector[0, row + 1], load(matrix, row + 1, column))
        store(result, 0, column, plus(even, 1.0, odd))


@leaf
def change(matrix, factor, left, right):  # type: ignore[no-untyped-def]
    """Do ``matrix += factor left right^T``."""
    size = len(matrix)
    for row in range(size):
        for column in range(0, size, LANES):
            store(matrix, row, column, plus(load(matrix, row, column), factor * left[0, row], load(right, 0, column)))


@leaf(fastmath={"contract", "reassoc"})
def dot(left, right):  # type: ignore[no-untyped-def]
    """Return the sum of products of two vectors."""
    total = 0.0
    for k in range(left.shape[1]):
        total += left[0, k] * right[0, k]
    return total


@leaf
def trace(matrix, width):  # type: ignore[no-untyped-def]
    """Return the sum over the first ``width`` numbers of the diagonal."""
    total = 0.0
    for k in range(width):
        total += matrix[k, k]
    return total


@leaf(fastmath={"contract", "reassoc"})
def multiply_rows(matrix, vector, result):  # type: ignore[no-untyped-def]
    """Do ``result = matrix vector`` for a matrix that is not symmetric; ``multiply`` does it for the transpose."""
    for row in range(len(matrix)):
        total = 0.0
        for k in range(vector.shape[1]):
            total += matrix[row, k] * vector[0, k]
        result[0, row] = total


@leaf
def change_both(matrix, left, right):  # type: ignore[no-untyped-def]
    """Do ``matrix += left right^T + right left^T``."""
    size = len(matrix)
    for column in range(0, size, LANES):
        across, other = load(left, 0, column), load(right, 0, column)
        for row in range(size):
            numbers = plus(load(matrix, row, column), right[0, row], across)
            store(matrix, row, column, plus(numbers, left[0, row], other))


@leaf(fastmath={"contract", "reassoc"})
def sum_of_squares(matrix, width):  # type: ignore[no-untyped-def]
    """Return the sum over the first ``width`` rows; what else there is of them must be 0."""
    total = 0.0
    for row in range(width):
        part = 0.0  # a sum of its own for each row, which the compiler can do in vectors
        for column in range(len(matrix)):
            part += matrix[row, column] * matrix[row, column]
        total += part
    return total


@leaf
def whiten(gram, whitener, factor):  # type: ignore[no-untyped-def]
    """Fill ``whitener`` with R, upper triangular, ``R R^T`` the inverse of ``gram``; return whether there is one.

    ``factor`` is room to work in.
    """
    size = len(gram)
    if not factor_gram(gram, factor):
        return False
    for row in range(size):
        for column in range(0, size, LANES):
            store(whitener, row, column, zeros())
    invert(factor, whitener)
    return bool(np.isfinite(whitener[0, 0]))


@leaf
def square(whitener, result, turned):  # type: ignore[no-untyped-def]
    """Do ``result = R R^T`` for an upper triangular R; ``turned`` is room to work in."""
    size = len(whitener)
    transpose(whitener, turned)
    for column in range(0, size, BLOCK_COLUMNS):
        for top in range(0, size, BLOCK_ROWS):
            start = max(top, column)  # both factors are 0 before
            put_product(whitener, turned, start, size, (top, column), result, (size, size), False, 1.0)
