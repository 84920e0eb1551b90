"""Compiled maximum flow between one source and one sink of a layered graph, by Dinic's algorithm; see ``max_flow``.

The first phase is ``blocking_flow``. What it leaves is little, and near the sink: so the further phases look for ways
from the sink upwards, and follow them from the source.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from effective_attention.kernels import blocking_flow
from effective_attention.kernels.blocking_flow import Down, send_down
from effective_attention.kernels.threads import leaf, loop

FULL = 1e-14
"""In units of the largest capacity: an edge with less left counts as full."""
ATTAINED = 1e-12
"""Likewise: a flow that is less below its bound counts as having attained it."""


class Around(NamedTuple):
    """Scratch memory of the further phases. Nodes are numbered level * size + node."""

    # (layer, key, query): what is left of an edge, turned so that a search upwards reads it in a row
    free: NDArray[np.float64]
    used: NDArray[np.float64]  # (layer, query, key): what flows through an edge
    place: NDArray[np.int64]  # (node,): the first edge that is still worth a try
    distance: NDArray[np.int64]  # (node,): to the sink; 0: not reached, or a dead end
    unseen: NDArray[np.int64]  # (level, node + 1): which nodes are not reached; the last entry counts them
    queue: NDArray[np.int64]  # (node,)
    way: NDArray[np.int64]  # (depth,): from the source to the node that is looked at
    wanted: NDArray[np.float64]  # (depth,): what they were asked to pass on
    sent: NDArray[np.float64]  # (depth,): what they did pass on


class Work(NamedTuple):
    """Scratch memory."""

    down: Down
    around: Around


@loop
def scratch(layers, size):  # type: ignore[no-untyped-def]
    """Return memory for flows through so many layers."""
    nodes = (layers + 1) * size
    around = Around(
        np.empty((layers, size, size)),
        np.empty((layers, size, size)),
        np.empty(nodes, dtype=np.int64),
        np.empty(nodes, dtype=np.int64),
        np.empty((layers + 1, size + 1), dtype=np.int64),
        np.empty(nodes, dtype=np.int64),
        np.empty(nodes + 1, dtype=np.int64),
        np.empty(nodes + 1),
        np.empty(nodes + 1),
    )
    return Work(blocking_flow.scratch(layers, size), around)


@leaf
def pair_flow(work, ordered, widest, into, first, widest_first, bound, unit):  # type: ignore[no-untyped-def]
    """Return the maximum flow between a source and a sink; ``ordered`` as in ``send_down``."""
    down, around = work.down, work.around
    top = down.room.shape[0] - 1
    full, attained = unit * FULL, unit * ATTAINED
    if top == 1 or bound <= full:
        return bound
    flow = send_down(down, ordered, widest, into, first, widest_first, bound, full)
    if bound - flow > attained:
        _begin(around, down.left, ordered, widest)
    while bound - flow > attained:
        distance = _search(around, down.room[1], down.first, full)
        if distance == 0:
            return flow
        for node in widest_first:
            amount = min(bound - flow, down.first[node])
            if amount > full and around.distance[top * down.first.size + node] == distance:
                sent = _send(around, down.room[1], top * down.first.size + node, amount, full)
                down.first[node] -= sent
                flow += sent
    return bound


@leaf
def _begin(around, left, ordered, widest):  # type: ignore[no-untyped-def]
    """Go on from a flow straight down."""
    layers, size, _ = left.shape
    for layer in range(1, layers):
        for query in range(size):
            for place in range(size):
                key = widest[layer, query, place]
                around.free[layer, key, query] = left[layer, query, place]
                around.used[layer, query, key] = ordered[layer, query, place] - left[layer, query, place]


@leaf
def _search(around, last, first, full):  # type: ignore[no-untyped-def]
    """Find distances to the sink over edges that are not full, breadth first; return that of the source, or 0."""
    top, size = around.unseen.shape[0] - 1, first.shape[0]
    for level in range(1, top + 1):
        around.unseen[level, size] = size
        for node in range(size):
            around.unseen[level, node] = node
            around.distance[level * size + node] = 0
    end = _see(around, last, 1, 1, 0, full)
    begin = 0
    while begin < end:
        level, node = around.queue[begin] // size, around.queue[begin] % size
        begin += 1
        distance = around.distance[level * size + node]
        if level == top and first[node] > full:
            return distance
        if level < top:
            end = _see(around, around.free[level, node], level + 1, distance + 1, end, full)
        if level > 1:
            end = _see(around, around.used[level - 1, node], level - 1, distance + 1, end, full)
    return 0


@leaf
def _see(around, left, level, distance, end, full):  # type: ignore[no-untyped-def]
    """Queue the nodes of a level that are reached for the first time; return the queue's new end.

    ``left`` (node,) is what is left of the edges that lead from them.
    """
    size = left.shape[0]
    unseen = around.unseen[level]
    place = 0
    while place < unseen[size]:
        node = unseen[place]
        if left[node] > full:
            around.distance[level * size + node] = distance
            around.place[level * size + node] = 0
            around.queue[end] = level * size + node
            end += 1
            unseen[size] -= 1
            unseen[place] = unseen[unseen[size]]
        else:
            place += 1
    return end


@leaf
def _send(around, last, start, amount, full):  # type: ignore[no-untyped-def]
    """Send from each node to such as are one step nearer to the sink; return how much of ``amount`` came through."""
    size, depth = last.shape[0], 0
    around.way[0], around.wanted[0], around.sent[0] = start, amount, 0
    while True:
        number = around.way[depth]
        rest = around.wanted[depth] - around.sent[depth]
        if around.distance[number] == 1:
            step = min(rest, last[number - size])
            last[number - size] -= step
            around.sent[depth] += step
            rest -= step
        elif rest > full:
            target, step = _next(around, number, rest, full)
            if target >= 0:
                depth += 1
                around.way[depth], around.wanted[depth], around.sent[depth] = target, step, 0
                continue
        if rest > full:
            around.distance[number] = 0
        sent = around.sent[depth]
        if depth == 0:
            return sent
        depth -= 1
        _carry(around, around.way[depth], number, sent)
        around.sent[depth] += sent


@leaf
def _carry(around, begin, end, amount):  # type: ignore[no-untyped-def]
    """Send through the edge between two nodes, or take back where it leads from the second to the first."""
    size = around.free.shape[1]
    level, node, beside, other = begin // size, begin % size, end // size, end % size
    if beside < level:
        around.free[beside, other, node] -= amount
        around.used[beside, node, other] += amount
    else:
        around.free[level, node, other] += amount
        around.used[level, other, node] -= amount


@leaf
def _next(around, number, rest, full):  # type: ignore[no-untyped-def]
    """Return the next node on a way to the sink and how much may go there; -1 where there is none."""
    size, top = around.free.shape[1], around.unseen.shape[0] - 1
    level, node = number // size, number % size
    nearer = around.distance[number] - 1
    place = around.place[number]
    while place < 2 * size:
        down = place < size
        target = (level - 1) * size + place if down else level * size + place  # (level + 1) * size + place - size
        other = place if down else place - size
        if size <= target < (top + 1) * size and around.distance[target] == nearer:
            step = around.free[level - 1, other, node] if down else around.used[level, other, node]
            if step > full:
                around.place[number] = place
                return target, min(rest, step)
        place += 1
    around.place[number] = place
    return -1, 0.0
