"""Compiled bounds on the flow through each node of a layered graph; ``max_flow`` says what for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from effective_attention.kernels.threads import loop, share_out_long

Array = NDArray[np.float64]

_EDGE = 0.1  # ns that an edge takes
_SUMS = {"reassoc", "contract", "nnan", "nsz"}  # sums may run in vector registers; there are neither NaN nor infinity


def bounds_into(capacity: Array, last: Array) -> Array:
    """Return what at most gets from each node to each sink, (sink, level, node); level 0 is not used.

    Args:
        capacity: (layer, query, key).
        last: (sink, node): the capacities of a sink's edges from level 1.
    """
    into = np.zeros((len(last), len(capacity) + 1, last.shape[1]))
    share_out_long(_bound_into, len(into), _EDGE * len(into) * capacity.size, capacity, last, into)
    return into


def bounds_out_of(capacity: Array, first: Array) -> Array:
    """Return what at most gets from each source to each node, (source, level, node); level 0 is not used.

    Args:
        capacity: (layer, query, key).
        first: (source, node): the capacities of a source's edges to the highest level.
    """
    out_of = np.empty((len(first), len(capacity) + 1, first.shape[1]))
    share_out_long(_bound_out_of, len(first), _EDGE * len(first) * capacity.size, capacity, first, out_of)
    return out_of


def bounds_of_pairs(into: Array, out_of: Array) -> Array:
    """Return what at most gets from each source to each sink, (source, sink), from the two bounds of every node."""
    bounds = np.empty((len(out_of), len(into)))
    share_out_long(_bound_pairs, len(out_of), _EDGE * len(into) * out_of.size, into, out_of, bounds)
    return bounds


def in_common(delivered: Array, drawn: Array) -> Array:
    """Return how much of what each source delivers each sink draws, (source, sink), node by node of one level.

    Args:
        delivered: (source, node).
        drawn: (sink, node).
    """
    return bounds_of_pairs(np.stack([drawn, drawn], axis=1), np.stack([delivered, delivered], axis=1))


# --- one source, one sink ---


@loop(fastmath=_SUMS)
def _bound_into_one(capacity, last, into):  # type: ignore[no-untyped-def]
    size, total = capacity.shape[1], 0.0
    for node in range(size):
        into[1, node] = last[node]
        total += into[1, node]
    for level in range(1, capacity.shape[0]):
        for node in range(size):
            passed = 0.0
            for below in range(size):
                passed += min(capacity[level, node, below], into[level, below])
            into[level + 1, node] = min(passed, total)


@loop(fastmath=_SUMS)
def _bound_out_of_one(capacity, first, out_of):  # type: ignore[no-untyped-def]
    top, size, total = out_of.shape[0] - 1, first.size, 0.0
    for node in range(size):
        out_of[top, node] = first[node]
        total += first[node]
    for level in range(top, 1, -1):
        for node in range(size):
            out_of[level - 1, node] = 0
        for node in range(size):
            given = out_of[level, node]
            for below in range(size):
                out_of[level - 1, below] += min(capacity[level - 1, node, below], given)
        for below in range(size):
            out_of[level - 1, below] = min(out_of[level - 1, below], total)


@loop(fastmath=_SUMS)
def _bound(into, out_of):  # type: ignore[no-untyped-def]
    least = np.inf
    for level in range(1, out_of.shape[0]):
        passed = 0.0
        for node in range(out_of.shape[1]):
            passed += min(into[level, node], out_of[level, node])
        least = min(least, passed)
    return least


# --- some of all ---


@loop
def _bound_into(begin, end, capacity, last, into):  # type: ignore[no-untyped-def]
    for sink in range(begin, end):
        _bound_into_one(capacity, last[sink], into[sink])


@loop
def _bound_out_of(begin, end, capacity, first, out_of):  # type: ignore[no-untyped-def]
    for source in range(begin, end):
        _bound_out_of_one(capacity, first[source], out_of[source])


@loop
def _bound_pairs(begin, end, into, out_of, bounds):  # type: ignore[no-untyped-def]
    for source in range(begin, end):
        for sink in range(len(into)):
            bounds[source, sink] = _bound(into[sink], out_of[source])
