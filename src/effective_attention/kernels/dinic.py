"""Compiled maximum flow between one source and one sink of a layered graph, by Dinic's algorithm; see ``max_flow``.

``_send_down`` and ``_send_around`` are longer than one would like: with their inner steps as functions of their own,
the whole flow takes twice as long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from effective_attention.kernels.threads import loop

FULL = 1e-14
"""In units of the largest capacity: an edge with less left counts as full."""
ATTAINED = 1e-12
"""Likewise: a flow that is less below its bound counts as having attained it."""


class Work(NamedTuple):
    """Scratch memory. ``free`` and ``used`` describe the flow; the source's and the sink's edges are kept apart."""

    free: NDArray[np.float64]  # (layer, query, key): what is left of an edge
    # (layer, key, query): what flows through an edge, turned so that reverse edges are read in a row
    used: NDArray[np.float64]
    first: NDArray[np.float64]  # (key,): what is left of the source's edges
    # (level, node): what a node may still pass on; on level 1: what is left of its edge to the sink
    room: NDArray[np.float64]
    marked: NDArray[np.bool_]  # (edge,): whether it is in ``touched``
    touched: NDArray[np.int64]  # (edge + 1,): which edges carried flow; the last entry counts them
    arc: NDArray[np.int64]  # (level, node): the first edge that is still worth a try
    distance: NDArray[np.int64]  # (level, node): from the source; 0: not reached, or a dead end
    unseen: NDArray[np.int64]  # (level, node + 1): which nodes are not reached; the last entry counts them
    queue: NDArray[np.int64]  # (level * node,)
    path: NDArray[np.int64]  # (depth,): nodes on the way, as level * size + node
    wanted: NDArray[np.float64]  # (depth,): what they were asked to pass on
    sent: NDArray[np.float64]  # (depth,): what they did pass on


@loop
def scratch(capacity):  # type: ignore[no-untyped-def]
    layers, size, _ = capacity.shape
    levels, edges = layers + 1, capacity.size
    return Work(
        capacity.copy(),
        np.zeros((layers, size, size)),
        np.empty(size),
        np.empty((levels, size)),
        np.zeros(capacity.shape, dtype=np.bool_),
        np.zeros(edges + 1, dtype=np.int64),
        np.empty((levels, size), dtype=np.int64),
        np.empty((levels, size), dtype=np.int64),
        np.empty((levels, size + 1), dtype=np.int64),
        np.empty(levels * size, dtype=np.int64),
        np.empty(levels * size + 1, dtype=np.int64),
        np.empty(levels * size + 1),
        np.empty(levels * size + 1),
    )


@loop
def _carry(work, layer, query, key, amount):  # type: ignore[no-untyped-def]
    """Send ``amount`` through an edge; a negative amount takes back."""
    work.free[layer, query, key] -= amount
    work.used[layer, key, query] += amount
    if not work.marked[layer, query, key]:
        work.marked[layer, query, key] = True
        work.touched[work.touched[-1]] = (layer << 40) | (query << 20) | key
        work.touched[-1] += 1


@loop
def _put_back(work, capacity):  # type: ignore[no-untyped-def]
    for place in range(work.touched[-1]):
        edge = work.touched[place]
        layer, query, key = edge >> 40, (edge >> 20) & 0xFFFFF, edge & 0xFFFFF
        work.marked[layer, query, key] = False
        work.free[layer, query, key] = capacity[layer, query, key]
        work.used[layer, key, query] = 0
    work.touched[-1] = 0


@loop
def _begin(work, into, out_of):  # type: ignore[no-untyped-def]
    for node in range(work.first.size):  # loops, for assignments to slices take seconds to compile
        work.first[node] = out_of[-1, node]
    for level in range(1, out_of.shape[0]):
        for node in range(work.first.size):
            work.room[level, node] = into[level, node]
            work.arc[level, node] = 0


@loop
def pair_flow(work, capacity, widest, into, widest_first, out_of, bound, unit):  # type: ignore[no-untyped-def]
    """Return the maximum flow between a source and a sink."""
    top = out_of.shape[0] - 1
    full, attained = unit * FULL, unit * ATTAINED
    if top == 1 or bound <= full:
        return bound
    _begin(work, into, out_of)
    flow = 0.0
    for node in widest_first:
        flow += _start(work, widest, top, node, bound - flow, full, False)
    while bound - flow > attained and _search(work, top, full):
        for node in widest_first:
            if work.distance[top, node] == 1:
                flow += _start(work, widest, top, node, bound - flow, full, True)
    _put_back(work, capacity)
    return bound if bound - flow <= attained else flow


@loop
def _start(work, widest, top, node, rest, full, turned):  # type: ignore[no-untyped-def]
    """Send what can be sent through one of the source's edges."""
    amount = min(rest, work.first[node])
    if not turned:
        amount = min(amount, work.room[top, node])
    if amount <= full:
        return 0.0
    sent = _send_around(work, top, node, amount, full) if turned else _send_down(work, widest, top, node, amount, full)
    work.first[node] -= sent
    return sent


@loop
def _send_down(work, widest, top, node, amount, full):  # type: ignore[no-untyped-def]
    """Send straight down from a node; return how much of ``amount`` came through.

    A node that can pass on no more has no room left.
    """
    size = work.first.size
    level = top
    work.path[level], work.wanted[level], work.sent[level] = node, amount, 0
    while True:
        node = work.path[level]
        if level == 1:
            work.sent[1] = work.wanted[1]
            work.room[1, node] -= work.sent[1]
        else:
            arc = work.arc[level, node]
            rest = work.wanted[level] - work.sent[level]
            step = 0.0
            while rest > full and arc < size:
                below = widest[level - 1, node, arc]
                step = min(rest, work.free[level - 1, node, below], work.room[level - 1, below])
                if step > full:
                    break
                arc += 1
            work.arc[level, node] = arc
            if rest > full and arc < size:
                level -= 1
                work.path[level], work.wanted[level], work.sent[level] = below, step, 0
                continue
            work.room[level, node] = 0 if arc == size else work.room[level, node] - work.sent[level]
        if level == top:
            return work.sent[level]
        if work.sent[level] > 0:
            _carry(work, level, work.path[level + 1], node, work.sent[level])
            work.sent[level + 1] += work.sent[level]
        level += 1


@loop
def _search(work, top, full):  # type: ignore[no-untyped-def]
    """Find distances from the source over edges that are not full, breadth first; return if the sink is reached."""
    size = work.first.size
    for level in range(1, top + 1):
        work.unseen[level, size] = size
        for node in range(size):
            work.unseen[level, node] = node
            work.distance[level, node] = 0
    end = _see(work, work.first, top, 1, 0, full)
    begin = 0
    while begin < end:
        level, node = work.queue[begin] // size, work.queue[begin] % size
        begin += 1
        if level == 1 and work.room[1, node] > full:
            return True
        distance = work.distance[level, node] + 1
        if level > 1:
            end = _see(work, work.free[level - 1, node], level - 1, distance, end, full)
        if level < top:
            end = _see(work, work.used[level, node], level + 1, distance, end, full)
    return False


@loop
def _see(work, left, level, distance, end, full):  # type: ignore[no-untyped-def]
    """Queue the nodes of a level that are reached for the first time; return the queue's new end.

    ``left`` (node,) is what is left of the edges that lead to them.
    """
    size = work.first.size
    unseen = work.unseen[level]
    place = 0
    while place < unseen[size]:
        node = unseen[place]
        if left[node] > full:
            work.distance[level, node] = distance
            work.arc[level, node] = 0
            work.queue[end] = level * size + node
            end += 1
            unseen[size] -= 1
            unseen[place] = unseen[unseen[size]]
        else:
            place += 1
    return end


@loop
def _send_around(work, top, node, amount, full):  # type: ignore[no-untyped-def]
    """Send as ``_send_down`` does, over reverse edges too, from each node to such as are one step farther on."""
    size = work.first.size
    depth = 1
    work.path[depth], work.wanted[depth], work.sent[depth] = top * size + node, amount, 0
    while True:
        level, node = work.path[depth] // size, work.path[depth] % size
        rest = work.wanted[depth] - work.sent[depth]
        if level == 1 and work.room[1, node] > full:
            step = min(rest, work.room[1, node])
            work.room[1, node] -= step
            work.sent[depth] += step
            rest -= step
        if rest > full:
            target, step = _next(work, level, node, top, rest, depth + 1, full)
            if target >= 0:
                depth += 1
                work.path[depth], work.wanted[depth], work.sent[depth] = target, step, 0
                continue
            work.distance[level, node] = 0
        if depth == 1:
            return work.sent[1]
        sent = work.sent[depth]
        depth -= 1
        if sent > 0:
            above, origin = work.path[depth] // size, work.path[depth] % size
            if above > level:
                _carry(work, level, origin, node, sent)
            else:
                _carry(work, above, node, origin, -sent)
            work.sent[depth] += sent


@loop
def _next(work, level, node, top, rest, distance, full):  # type: ignore[no-untyped-def]
    """Return the next node on a way to the sink and how much may go there; -1 where there is none."""
    size = work.first.size
    arc = work.arc[level, node]
    while arc < 2 * size:
        down = arc < size
        other = arc if down else arc - size
        beside = level - 1 if down else level + 1
        if 1 <= beside <= top and work.distance[beside, other] == distance:
            step = work.free[beside, node, other] if down else work.used[level, node, other]
            if step > full:
                work.arc[level, node] = arc
                return beside * size + other, min(rest, step)
        arc += 1
    work.arc[level, node] = arc
    return -1, 0.0
