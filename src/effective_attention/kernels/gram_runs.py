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
from effective_attention.kernels.memory import room
from effective_attention.kernels.small_matrices import (
    add_gram,
    multiply_lower,
    multiply_matrices,
    solve_transposed,
    trace,
    transpose,
)
from effective_attention.kernels.threads import leaf, loop

_KEYS = 16  # at a time: with more, what they need among themselves costs more than is saved; a multiple of 8


@loop
def extend(value, gram, inverse, places, output, coefficients, result, bound, rank, query, run):  # type: ignore[no-untyped-def]
    """Take in a key and solve, ``run`` times, from ``query`` on."""
    size = len(gram)
    keys, lines = room(_KEYS, size), room(_KEYS, size)
    turned, turned_lines = room(size, _KEYS), room(size, _KEYS)
    rows = room(_KEYS, size), room(_KEYS, size), room(_KEYS, size), room(_KEYS, _KEYS)
    for done in range(0, run, _KEYS):
        count = min(_KEYS, run - done)
        here = query + done
        _copy_rows(value, places[1] + done, keys, count)
        transpose(keys, turned)
        _find_lines(keys, turned, inverse, lines)
        transpose(lines, turned_lines)
        _bound_conditions(gram, inverse, keys, lines, value.shape[1], bound, rank, here, count)
        for member in range(len(output)):
            _copy_rows(output[member], here, rows[0], count)
            _solve(inverse, lines, turned_lines, rows)
            _write_rows(rows[1], coefficients[member], here, count)
            _hand_on(gram, keys, turned, rows)
            _write_rows(rows[2], result[member], here, count)
        add_gram(inverse, -1.0, lines)
        add_gram(gram, 1.0, keys)
    places[1] += run
    places[2] += run
    places[5] += run


@loop
def _find_lines(keys, turned, inverse, lines):  # type: ignore[no-untyped-def]
    """Fill ``lines`` with Z."""
    square, factor = room(_KEYS, _KEYS), room(_KEYS, _KEYS)
    multiply_matrices(keys, inverse, lines)
    multiply_matrices(lines, turned, square)
    for k in range(_KEYS):
        square[k, k] += 1.0
    factor_gram(square, factor)  # no eigenvalue is below 1
    solve_transposed(factor, lines)


@leaf
def _bound_conditions(gram, inverse, keys, lines, width, bound, rank, query, count):  # type: ignore[no-untyped-def]
    """Bound the condition number of each query's keys by the traces of G and P, which change with each key."""
    first, second = trace(gram, width), trace(inverse, width)
    for k in range(count):
        first += _square_of_row(keys, k)
        second -= _square_of_row(lines, k)
        bound[query + k] = up_to_limit(np.sqrt(first * second))
        rank[query + k] = width


@leaf
def _solve(inverse, lines, turned_lines, rows):  # type: ignore[no-untyped-def]
    """Fill ``rows[1]`` with the coefficients of the outputs in ``rows[0]``; ``rows[3]`` is room to work in."""
    multiply_matrices(rows[0], inverse, rows[1])
    multiply_matrices(rows[0], turned_lines, rows[3])
    multiply_lower(-1.0, rows[3], lines, rows[1])


@leaf
def _hand_on(gram, keys, turned, rows):  # type: ignore[no-untyped-def]
    """Fill ``rows[2]`` with the product of the coefficients in ``rows[1]`` with each query's own G."""
    multiply_matrices(rows[1], gram, rows[2])
    multiply_matrices(rows[1], turned, rows[3])
    multiply_lower(1.0, rows[3], keys, rows[2])


@leaf(fastmath={"contract", "reassoc"})
def _square_of_row(matrix, row):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(matrix.shape[1]):
        total += matrix[row, k] * matrix[row, k]
    return total


@leaf
def _copy_rows(matrix, first, rows, count):  # type: ignore[no-untyped-def]
    """Copy ``count`` rows from the first on; those behind them are 0."""
    for row in range(count):
        for k in range(matrix.shape[1]):
            rows[row, k] = matrix[first + row, k]
    for row in range(count, len(rows)):
        for k in range(rows.shape[1]):
            rows[row, k] = 0.0


@leaf
def _write_rows(rows, matrix, first, count):  # type: ignore[no-untyped-def]
    for row in range(count):
        for k in range(matrix.shape[1]):
            matrix[first + row, k] = rows[row, k]
