"""Compiled loops over one symmetric matrix of a head's size: multiply, change by one vector, invert.

Sizes are multiples of 8 (``kernels.vectors``). A matrix of 64 x 64 numbers fits the processor's nearest cache, where
time goes into reading and writing it: so a change and the products that need its result share one pass.
"""

from __future__ import annotations

import numpy as np

from effective_attention.kernels.cholesky import factor_gram, invert, product_tile, store_tile
from effective_attention.kernels.threads import loop
from effective_attention.kernels.vectors import LANES, load, plus, store, zeros


@loop
def step_inverse(matrix, factors, lines, vectors, results):  # type: ignore[no-untyped-def]
    """Do ``matrix += factors[n] lines[n] lines[n]^T`` for n = 0, 1, then ``results[n] = matrix vectors[n]`` for all n.

    There are four vectors. Lines, vectors and results are rows of matrices.
    """
    for column in range(0, len(matrix), LANES):
        across0, across1 = load(lines, 0, column), load(lines, 1, column)
        total0, total1, total2, total3 = zeros(), zeros(), zeros(), zeros()
        for row in range(len(matrix)):
            numbers = plus(load(matrix, row, column), factors[0] * lines[0, row], across0)
            numbers = plus(numbers, factors[1] * lines[1, row], across1)
            store(matrix, row, column, numbers)
            total0 = plus(total0, vectors[0, row], numbers)
            total1 = plus(total1, vectors[1, row], numbers)
            total2 = plus(total2, vectors[2, row], numbers)
            total3 = plus(total3, vectors[3, row], numbers)
        store(results, 0, column, total0)
        store(results, 1, column, total1)
        store(results, 2, column, total2)
        store(results, 3, column, total3)


@loop
def step_gram(matrix, keys, vectors, results):  # type: ignore[no-untyped-def]
    """Do ``matrix += keys[n] keys[n]^T``, then ``results[n] = matrix vectors[n]``, for n = 0 and after it for n = 1."""
    for column in range(0, len(matrix), LANES):
        across0, across1 = load(keys, 0, column), load(keys, 1, column)
        even0, even1, odd0, odd1 = zeros(), zeros(), zeros(), zeros()
        for row in range(0, len(matrix), 2):
            numbers = plus(load(matrix, row, column), keys[0, row], across0)
            even0 = plus(even0, vectors[0, row], numbers)
            numbers = plus(numbers, keys[1, row], across1)
            even1 = plus(even1, vectors[1, row], numbers)
            store(matrix, row, column, numbers)
            numbers = plus(load(matrix, row + 1, column), keys[0, row + 1], across0)
            odd0 = plus(odd0, vectors[0, row + 1], numbers)
            numbers = plus(numbers, keys[1, row + 1], across1)
            odd1 = plus(odd1, vectors[1, row + 1], numbers)
            store(matrix, row + 1, column, numbers)
        store(results, 0, column, plus(even0, 1.0, odd0))
        store(results, 1, column, plus(even1, 1.0, odd1))


@loop
def multiply(matrix, vector, result):  # type: ignore[no-untyped-def]
    """Do ``result = matrix vector``."""
    size = len(matrix)
    for column in range(0, size, LANES):
        even, odd = zeros(), zeros()
        for row in range(0, size, 2):
            even = plus(even, vector[0, row], load(matrix, row, column))
            odd = plus(odd, vector[0, row + 1], load(matrix, row + 1, column))
        store(result, 0, column, plus(even, 1.0, odd))


@loop
def change(matrix, factor, left, right):  # type: ignore[no-untyped-def]
    """Do ``matrix += factor left right^T``."""
    size = len(matrix)
    for row in range(size):
        for column in range(0, size, LANES):
            store(matrix, row, column, plus(load(matrix, row, column), factor * left[0, row], load(right, 0, column)))


@loop(fastmath={"contract", "reassoc"})
def dot(left, right):  # type: ignore[no-untyped-def]
    """Return the sum of products of two vectors."""
    total = 0.0
    for k in range(left.shape[1]):
        total += left[0, k] * right[0, k]
    return total


@loop
def trace(matrix, width):  # type: ignore[no-untyped-def]
    """Return the sum over the first ``width`` numbers of the diagonal."""
    total = 0.0
    for k in range(width):
        total += matrix[k, k]
    return total


@loop(fastmath={"contract", "reassoc"})
def multiply_rows(matrix, vector, result):  # type: ignore[no-untyped-def]
    """Do ``result = matrix vector`` for a matrix that is not symmetric; ``multiply`` does it for the transpose."""
    for row in range(len(matrix)):
        total = 0.0
        for k in range(vector.shape[1]):
            total += matrix[row, k] * vector[0, k]
        result[0, row] = total


@loop
def change_both(matrix, left, right):  # type: ignore[no-untyped-def]
    """Do ``matrix += left right^T + right left^T``."""
    size = len(matrix)
    for column in range(0, size, LANES):
        across, other = load(left, 0, column), load(right, 0, column)
        for row in range(size):
            numbers = plus(load(matrix, row, column), right[0, row], across)
            store(matrix, row, column, plus(numbers, left[0, row], other))


@loop(fastmath={"contract", "reassoc"})
def sum_of_squares(matrix, width):  # type: ignore[no-untyped-def]
    """Return the sum over the first ``width`` rows; what else there is of them must be 0."""
    total = 0.0
    for row in range(width):
        part = 0.0  # a sum of its own for each row, which the compiler can do in vectors
        for column in range(matrix.shape[1]):
            part += matrix[row, column] * matrix[row, column]
        total += part
    return total


@loop
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


@loop
def square(whitener, result, turned):  # type: ignore[no-untyped-def]
    """Do ``result = R R^T`` for an upper triangular R; ``turned`` is room to work in."""
    size = len(whitener)
    for row in range(size):
        for column in range(size):
            turned[column, row] = whitener[row, column]
    for top in range(0, size, 4):
        for column in range(top // LANES * LANES, size, LANES):
            store_tile(result, top, column, product_tile(whitener, turned, column, size, top, column))
    for row in range(size):
        for column in range(row):
            result[row, column] = result[column, row]
