"""Compiled: queries that see one key more each, where the keys span all dimensions. Part of ``moving_gram``.

This is nearly all there is to do in causal attention, so it is done for sixteen keys at a time, by products of small
matrices instead of matrices with vectors. With ``V`` the sixteen keys, ``P`` and ``G`` as they are before them, and
``U`` the Cholesky factor ``U^T U = I + V P V^T`` (Woodbury; its leading blocks are the factors of fewer keys):

    Z = U^-T V P                row by row what each key takes off P
    w = o P - (o Z^T) Z         of the rows of Z up to the query's own key
    w G = w G + (w V^T) V       of the rows of V up to the query's own key
    P - Z^T Z,  G + V^T V       what the next sixteen begin with

The naive equivalent is a rank-one change of P and G for each key. Rows of 0 fill up where a run ends earlier.
"""

from __future__ import annotations

import numpy as np

from effective_attention.kernels.cholesky import factor_gram
from effective_attention.kernels.gram_changes import up_to_limit
from effective_attention.kernels.small_matrices import (
    add_product,
    multiply_lower,
    multiply_matrices,
    solve_transposed,
    trace,
    transpose,
)
from effective_attention.kernels.threads import loop

_KEYS = 16  # at a time: with more, what they need among themselves costs more than is saved; a multiple of 8


@loop
def extend(value, gram, inverse, places, output, coefficients, result, bound, rank, query, run):  # type: ignore[no-untyped-def]
    """Take in a key and solve, ``run`` times, from ``query`` on."""
    size = len(gram)
    keys, lines = np.zeros((_KEYS, size)), np.zeros((_KEYS, size))
    turned, turned_lines = np.empty((size, _KEYS)), np.empty((size, _KEYS))
    room = np.zeros((3, _KEYS, size))
    for done in range(0, run, _KEYS):
        count = min(_KEYS, run - done)
        here = query + done
        _copy_rows(value, places[1] + done, keys, count)
        transpose(keys, turned)
        _find_lines(keys, turned, inverse, lines)
        transpose(lines, turned_lines)
        _bound_conditions(gram, inverse, keys, lines, value.shape[1], bound, rank, here, count)
        for member in range(len(output)):
            _copy_rows(output[member], here, room[0], count)
            _solve(inverse, lines, turned_lines, room)
            _write_rows(room[1], coefficients[member], here, count)
            _hand_on(gram, keys, turned, room)
            _write_rows(room[2], result[member], here, count)
        add_product(inverse, -1.0, turned_lines, lines)
        add_product(gram, 1.0, turned, keys)
    places[1] += run
    places[2] += run
    places[5] += run


@loop
def _find_lines(keys, turned, inverse, lines):  # type: ignore[no-untyped-def]
    """Fill ``lines`` with Z."""
    square, factor = np.empty((_KEYS, _KEYS)), np.empty((_KEYS, _KEYS))
    multiply_matrices(keys, inverse, lines)
    multiply_matrices(lines, turned, square)
    for k in range(_KEYS):
        square[k, k] += 1.0
    factor_gram(square, factor)  # no eigenvalue is below 1
    solve_transposed(factor, lines)


@loop
def _bound_conditions(gram, inverse, keys, lines, width, bound, rank, query, count):  # type: ignore[no-untyped-def]
    """Bound the condition number of each query's keys by the traces of G and P, which change with each key."""
    first, second = trace(gram, width), trace(inverse, width)
    for k in range(count):
        first += _square_of_row(keys, k)
        second -= _square_of_row(lines, k)
        bound[query + k] = up_to_limit(np.sqrt(first * second))
        rank[query + k] = width


@loop
def _solve(inverse, lines, turned_lines, room):  # type: ignore[no-untyped-def]
    """Fill ``room[1]`` with the coefficients of the outputs in ``room[0]``."""
    square = np.empty((_KEYS, _KEYS))
    multiply_matrices(room[0], inverse, room[1])
    multiply_matrices(room[0], turned_lines, square)
    multiply_lower(-1.0, square, lines, room[1])


@loop
def _hand_on(gram, keys, turned, room):  # type: ignore[no-untyped-def]
    """Fill ``room[2]`` with the product of the coefficients in ``room[1]`` with each query's own G."""
    square = np.empty((_KEYS, _KEYS))
    multiply_matrices(room[1], gram, room[2])
    multiply_matrices(room[1], turned, square)
    multiply_lower(1.0, square, keys, room[2])


@loop(fastmath={"contract", "reassoc"})
def _square_of_row(matrix, row):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(matrix.shape[1]):
        total += matrix[row, k] * matrix[row, k]
    return total


@loop
def _copy_rows(matrix, first, rows, count):  # type: ignore[no-untyped-def]
    """Copy ``count`` rows from the first on; those behind them are 0."""
    for row in range(count):
        for k in range(matrix.shape[1]):
            rows[row, k] = matrix[first + row, k]
    for row in range(count, len(rows)):
        for k in range(rows.shape[1]):
            rows[row, k] = 0.0


@loop
def _write_rows(rows, matrix, first, count):  # type: ignore[no-untyped-def]
    for row in range(count):
        for k in range(matrix.shape[1]):
            matrix[first + row, k] = rows[row, k]
