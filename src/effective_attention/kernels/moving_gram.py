"""Compiled: solve ``w (V^T V) = o`` for every query, where each sees an interval of keys that moves along.

Causal attention, sliding windows, decoding: the keys of one query are those of the one before, a key more, perhaps a
key less. So ``G = V^T V`` and its inverse ``P`` change by one vector at a time, in d^2 steps instead of d^3, all in
float64 (Sherman & Morrison):

    G + v v^T    P - u u^T / (1 + v u)      u = P v
    G - v v^T    P + u u^T / (1 - v u)

While there are fewer independent keys than ``d`` numbers, ``P`` is the pseudo-inverse: a key with a part ``c`` outside
the span of those before it (found by projecting twice) adds a dimension (Meyer 1973),

    P - (u c^T + c u^T) / c c + (1 + v u) c c^T / (c c)^2

and one without changes nothing but ``P``. Nothing is taken on trust: ``tr G tr P`` bounds the square of the condition
number of V; ``P`` is made anew from a Cholesky factor of ``G`` every 64 changes, and whenever removing a key would
cancel; ``G`` is summed anew when too much was taken away from it. Where none of this proves the condition number below
``LIMIT``, the query is marked, and somebody else solves it. ``gram_changes`` has the details.

Windows with so few keys that removing one always cancels are followed by other means (``tight_windows``). Queries whose
keys are independent need nothing but the proof of that, where the caller has their attention (``skip_independent``).

``moving_gram_reference`` is the same in plain PyTorch, for a GPU and to test this by.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from effective_attention.kernels.cholesky import condition_of_rows
from effective_attention.kernels.gram_changes import (
    CHANGES,
    FACTORED,
    FULL,
    SHIFTED,
    add,
    begin_with,
    forget,
    proved,
    read,
    remove,
    renew,
    write,
)
from effective_attention.kernels.gram_runs import extend
from effective_attention.kernels.memory import room
from effective_attention.kernels.small_matrices import multiply, multiply_rows
from effective_attention.kernels.solution import LIMIT, Solution, State
from effective_attention.kernels.threads import leaf, loop, share_out
from effective_attention.kernels.tight_windows import follow_window, length_of_window_run
from effective_attention.kernels.vectors import SPARE

_PATIENCE = 8  # queries that go the long way before a tight window is tried again
_WORTH_IT = 4  # queries whose keys are looked at together, at least
_AGAIN = 3  # times: each leaves a hundredth at most, as ``gram_changes._GAP`` says


def solve_along(
    value: Tensor,
    seen: Tensor,
    start: Tensor,
    stop: Tensor,
    output: Tensor,
    *,
    state: State,
    skip_independent: bool = False,
) -> Solution:
    """Solve for every query, in the order in which they come.

    Args:
        value: (problem, key, d_head), float64, on the CPU.
        seen: (problem, key), bool; the others count for nobody.
        start: First key of each query's interval, (problem, query).
        stop: One behind its last.
        output: o, (problem, group, query, d_head), float64: ``group`` queries share their keys.
        state: Where to go on from; changed. A key's number counts from the first one ever seen.
        skip_independent: See ``choice.solve_along``; only where ``state`` is not used again.
    """
    problems, group, queries, width = output.shape
    coefficients = np.empty((problems, group, queries, width))
    result = np.empty_like(coefficients)
    bound = np.empty((problems, queries))
    rank = np.empty((problems, queries), dtype=np.int64)
    arrays = [part.contiguous().numpy() for part in (value, seen, start, stop, output)]
    held = state.gram, state.inverse, state.outside, state.places, state.sums
    results = coefficients, result, bound, rank
    share_out(_solve_each, len(value), *arrays, skip_independent, held, results)
    return Solution(*map(torch.from_numpy, results))


def compile_loops() -> None:
    """Compile the loops, by running them on one number."""
    value = torch.ones(1, 1, 1, dtype=torch.float64)
    first = torch.zeros(1, 1, dtype=torch.long)
    seen = torch.ones(1, 1, dtype=torch.bool)
    output = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    solve_along(value, seen, first, first + 1, output, state=State.empty(1, 1))


# --- one problem ---
#
# ``places`` and ``sums`` are those of ``State``, of one problem; ``squares`` are two matrices and ``lines`` six vectors
# (matrices of one row) to work in.


@loop
def _solve(value, seen, start, stop, output, skip, held, results):  # type: ignore[no-untyped-def]
    gram, inverse, outside, places, sums = held
    coefficients, result, bound, rank = results
    width, size = value.shape[1], len(gram)
    lines = room(6, size).reshape(6, 1, size)
    squares = room(size, size + SPARE), room(size, size + SPARE)
    seen_before = _count_before(seen)
    not_free = 0 if skip else len(start)  # up to this query it is known, or does not matter, which keys are independent
    not_tight = 0  # up to this one, windows could not be followed
    query = 0
    while query < len(start):
        done = 0
        if query >= not_free:
            done, not_free = _skip_free(value, seen, seen_before, start, stop, output, held, results, query)
        if done == 0 and query >= not_tight:
            run = length_of_window_run(seen_before, start, stop, query, width)
            done = follow_window(value, seen, start, stop, output, *results, query, run)
            not_tight = query + done + _PATIENCE if done < run else 0
        if done == 0:
            done = _length_of_run(seen, start, stop, query, places)
            extend(value, gram, inverse, places, output, *results, query, done)
        if done == 0:
            _move(value, seen, start[query], stop[query], gram, inverse, outside, places, sums, lines)
            renew(value, seen, gram, inverse, places, sums, squares, lines[0])
            _solve_here(gram, inverse, places, lines, output, coefficients, result, query)
            rank[query], bound[query] = proved(gram, inverse, places, sums, width)
            done = 1
        query += done


@loop
def _skip_free(value, seen, seen_before, start, stop, output, held, results, query):  # type: ignore[no-untyped-def]
    """Skip queries whose keys, all together, are independent; return how many, and up to where there is none."""
    gram, _, _, places, sums = held
    _, _, bound, rank = results
    width = value.shape[1]
    run, first, last = _length_of_free_run(seen_before, start, stop, query, width)
    condition = condition_of_rows(value[first:last], seen[first:last]) if run >= _WORTH_IT else np.inf
    if not condition < LIMIT:
        return 0, query + run
    for k in range(query, query + run):
        _hand_on(output, results, k)
        rank[k], bound[k] = seen_before[stop[k]] - seen_before[start[k]], condition
    if seen_before[last] - seen_before[first] == width:
        begin_with(value, seen, first, last, gram, places, sums)
    return run, 0


@leaf
def _length_of_free_run(seen_before, start, stop, query, width):  # type: ignore[no-untyped-def]
    """Count the queries from here on that together see no more keys than there are dimensions; where those are."""
    first, last = start[query], stop[query]
    k = query
    while k < len(start):
        some, more = min(first, start[k]), max(last, stop[k])
        if seen_before[more] - seen_before[some] > width:
            break
        first, last = some, more
        k += 1
    return k - query, first, last


@leaf
def _hand_on(output, results, query):  # type: ignore[no-untyped-def]
    """Hand on what is asked for, without coefficients."""
    coefficients, result, _, _ = results
    for member in range(len(output)):
        for k in range(output.shape[2]):
            coefficients[member, query, k] = 0.0
            result[member, query, k] = output[member, query, k]


@loop
def _count_before(seen):  # type: ignore[no-untyped-def]
    """Return how many keys are seen before each key, and before the end."""
    counts = np.zeros(len(seen) + 1, dtype=np.int64)
    for key in range(len(seen)):
        counts[key + 1] = counts[key] + seen[key]
    return counts


@leaf
def _length_of_run(seen, start, stop, query, places):  # type: ignore[no-untyped-def]
    """Count the queries from here on that see one key more each, where the dimensions are complete."""
    if places[4] != FULL:
        return 0
    most = min(len(start) - query, CHANGES - places[5])
    for k in range(most):
        key = places[1] + k
        if start[query + k] != places[0] or stop[query + k] != key + 1 or not seen[key]:
            return k
    return most


@leaf
def _solve_here(gram, inverse, places, lines, output, coefficients, result, query):  # type: ignore[no-untyped-def]
    """Solve for the keys at hand; with a shifted inverse again and again, for what is left."""
    answer, solved, back, more = lines[1], lines[3], lines[4], lines[5]
    for member in range(len(output)):
        read(output[member], query, answer)
        _apply(inverse, places, answer, solved, lines[2])
        multiply(gram, solved, back)
        for _ in range(_AGAIN if places[4] == SHIFTED else 0):
            for k in range(answer.shape[1]):
                answer[0, k] -= back[0, k]
            _apply(inverse, places, answer, more, lines[2])
            for k in range(answer.shape[1]):
                solved[0, k] += more[0, k]
            multiply(gram, solved, back)
            read(output[member], query, answer)
        write(coefficients[member], query, solved)
        write(result[member], query, back)


@leaf
def _apply(inverse, places, answer, solved, between):  # type: ignore[no-untyped-def]
    """Do ``solved = P answer``, whatever P is made of."""
    if places[4] == FACTORED:
        multiply(inverse, answer, between)  # R^T answer
        multiply_rows(inverse, between, solved)
    else:
        multiply(inverse, answer, solved)


@loop
def _move(value, seen, start, stop, gram, inverse, outside, places, sums, lines):  # type: ignore[no-untyped-def]
    """Take in keys on either side, then take away those before ``start``; or begin anew where that is less work."""
    gone = max(0, start - places[0])
    if start > places[1] or stop < places[1] or 2 * gone > stop - start:
        forget(gram, inverse, outside, places, sums)
        places[0] = places[1] = start
    while places[1] < stop:
        if seen[places[1]]:
            read(value, places[1], lines[0])
            add(gram, inverse, outside, places, value.shape[1], lines)
        places[1] += 1
    while places[0] > start:
        places[0] -= 1
        if seen[places[0]]:
            read(value, places[0], lines[0])
            add(gram, inverse, outside, places, value.shape[1], lines)
    while places[0] < start:
        if seen[places[0]]:
            read(value, places[0], lines[0])
            remove(gram, inverse, places, sums, lines)
        places[0] += 1


# --- some of all problems ---


# ``held`` are the arrays of ``State``, ``results`` those of ``Solution``.


@loop
def _solve_each(first, last, value, seen, start, stop, output, skip, held, results):  # type: ignore[no-untyped-def]
    gram, inverse, outside, places, sums = held
    w, wg, bound, rank = results
    for p in range(first, last):
        held_one = gram[p], inverse[p], outside[p], places[p], sums[p]
        _solve(value[p], seen[p], start[p], stop[p], output[p], skip, held_one, (w[p], wg[p], bound[p], rank[p]))
