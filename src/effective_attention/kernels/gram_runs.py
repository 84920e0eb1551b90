"""Compiled: queries that see one key more each, where the keys span all dimensions. Part of ``moving_gram``.

This is nearly all there is to do in causal attention, so it is done two keys at a time: P and G are then read and
written once for two keys. First all that needs P, then all that needs G: one matrix stays in the processor's nearest
cache where two do not. Pairs of vectors are rows of a matrix; the second is 0 where a run ends on its first.
"""

from __future__ import annotations

import numpy as np

from effective_attention.kernels.gram_changes import up_to_limit
from effective_attention.kernels.small_matrices import step_gram, step_inverse, trace
from effective_attention.kernels.threads import loop


@loop
def extend(value, gram, inverse, places, output, coefficients, result, bound, rank, query, run):  # type: ignore[no-untyped-def]
    """Take in a key and solve, ``run`` times, from ``query`` on."""
    width, size = value.shape[1], len(gram)
    key = places[1]
    lines, factors = np.zeros((2, size)), np.zeros(2)
    vectors, results = np.zeros((4, size)), np.zeros((4, size))
    total = trace(inverse, width)
    for k in range(0, run, 2):
        pair = min(2, run - k)
        _solve_pair(value, key + k, inverse, factors, lines, vectors, results, output, coefficients, query + k, pair)
        for n in range(pair):
            total += factors[n] * _dot(lines, n, lines, n)
            bound[query + k + n] = total
    step_inverse(inverse, factors, lines, vectors, results)  # the last changes; nobody reads the products
    keys, solved, back = np.zeros((2, size)), np.zeros((2, size)), np.zeros((2, size))
    total = trace(gram, width)
    for k in range(0, run, 2):
        pair = min(2, run - k)
        _multiply_pair(value, key + k, gram, keys, solved, back, coefficients, result, query + k, pair)
        for n in range(pair):
            _read(value, key + k + n, True, keys, n)
            total += _dot(keys, n, keys, n)
            bound[query + k + n] = up_to_limit(np.sqrt(total * bound[query + k + n]))
            rank[query + k + n] = width
    places[1] += run
    places[2] += run
    places[5] += run


@loop
def _solve_pair(value, key, inverse, factors, lines, vectors, results, output, coefficients, query, pair):  # type: ignore[no-untyped-def]
    """Find the coefficients of two queries.

    P is changed when it is next read: by ``factors[n] lines[n] lines[n]^T``, which stand for the keys of the pair
    before this, and for those of this pair afterwards. What P lacks of them is made up for vector by vector.
    """
    for n in range(2):
        _read(value, key + n, n < pair, vectors, n)
    for member in range(len(output)):
        for n in range(2):
            _read(output[member], query + n, n < pair, vectors, 2 + n)
        step_inverse(inverse, factors, lines, vectors, results)
        _change(factors, lines, vectors, results, 0)
        _make_up(factors, lines, 0, vectors, results, 1)
        _make_up(factors, lines, 0, vectors, results, 3)
        _change(factors, lines, vectors, results, 1)
        for n in range(pair):
            _write(results, 2 + n, coefficients[member], query + n)
        if member + 1 < len(output):
            factors[0] = factors[1] = 0.0  # the next member of the group reads the same P


@loop
def _change(factors, lines, vectors, results, n):  # type: ignore[no-untyped-def]
    """Write down how key ``n`` changes P, and what that makes of its own query."""
    for k in range(lines.shape[1]):
        lines[n, k] = results[n, k]
    factors[n] = -1 / (1 + _dot(vectors, n, lines, n))
    _make_up(factors, lines, n, vectors, results, 2 + n)


@loop
def _make_up(factors, lines, n, vectors, results, row):  # type: ignore[no-untyped-def]
    """Add what change ``n`` makes of ``vectors[row]``."""
    amount = factors[n] * _dot(lines, n, vectors, row)
    for k in range(results.shape[1]):
        results[row, k] += amount * lines[n, k]


@loop
def _multiply_pair(value, key, gram, keys, solved, back, coefficients, result, query, pair):  # type: ignore[no-untyped-def]
    """Change G by two keys, and multiply the coefficients of two queries by what it is for each."""
    for member in range(len(coefficients)):
        for n in range(2):
            _read(value, key + n, n < pair and member == 0, keys, n)
            _read(coefficients[member], query + n, n < pair, solved, n)
        step_gram(gram, keys, solved, back)
        if member > 0 and pair == 2:  # G has both keys by now, of which the first query sees one
            _read(value, key + 1, True, keys, 0)
            amount = _dot(keys, 0, solved, 0)
            for k in range(value.shape[1]):
                back[0, k] -= amount * keys[0, k]
        for n in range(pair):
            _write(back, n, result[member], query + n)


@loop(fastmath={"contract", "reassoc"})
def _dot(left, row, right, other):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(left.shape[1]):
        total += left[row, k] * right[other, k]
    return total


@loop
def _read(matrix, row, wanted, lines, n):  # type: ignore[no-untyped-def]
    """Fill ``lines[n]`` with a row, or with 0."""
    if wanted:
        for k in range(matrix.shape[1]):
            lines[n, k] = matrix[row, k]
    else:
        for k in range(matrix.shape[1]):
            lines[n, k] = 0.0


@loop
def _write(lines, n, matrix, row):  # type: ignore[no-untyped-def]
    for k in range(matrix.shape[1]):
        matrix[row, k] = lines[n, k]
