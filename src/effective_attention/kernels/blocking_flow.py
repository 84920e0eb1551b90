"""Compiled blocking flow straight down a layered graph, the first phase of Dinic's algorithm; see ``max_flow``.

Depth first, the widest edges of a node first. So the edges of a node lie in that order: what is left of them is read
in a row. Most steps are between the lowest levels, so these are loops, each in the other; the higher levels are
kept on a stack.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from effective_attention.kernels.threads import leaf, loop


class Down(NamedTuple):
    """Scratch memory of one flow: what is left of it, and the way from the source to the node that is looked at."""

    left: NDArray[np.float64]  # (layer, query, place): of a node's edges, the widest at place 0; layer 0 is not used
    first: NDArray[np.float64]  # (key,): of the source's edges
    # (level, node): what a node may still pass on; on level 1: what is left of its edge to the sink
    room: NDArray[np.float64]
    place: NDArray[np.int64]  # (level, node): of the first edge that is still worth a try
    way: NDArray[np.int64]  # (level,): the nodes
    wanted: NDArray[np.float64]  # (level,): what they were asked to pass on
    sent: NDArray[np.float64]  # (level,): what they did pass on


@loop
def scratch(layers, size):  # type: ignore[no-untyped-def]
    """Return memory for flows through so many layers."""
    return Down(
        np.empty((layers, size, size)),
        np.empty(size),
        np.empty((layers + 1, size)),
        np.empty((layers + 1, size), dtype=np.int64),
        np.empty(layers + 1, dtype=np.int64),
        np.empty(layers + 1),
        np.empty(layers + 1),
    )


@leaf
def send_down(down, ordered, widest, into, first, widest_first, bound, full):  # type: ignore[no-untyped-def]
    """Send what can be sent straight down from the source to the sink, at most ``bound``; return how much it is.

    ``ordered`` (layer, query, place) has the capacities of each node's edges in the order of ``widest``, which has the
    keys they lead to.
    """
    _begin(down, ordered, into, first)
    top, flow = down.room.shape[0] - 1, 0.0
    for place in range(widest_first.shape[0]):
        node = widest_first[place]
        amount = min(bound - flow, down.first[node], down.room[top, node])
        if amount > full:
            sent = _send_from(down, widest, top, node, amount, full)
            down.first[node] -= sent
            flow += sent
    return flow


@leaf
def _begin(down, ordered, into, first):  # type: ignore[no-untyped-def]
    size = first.shape[0]  # loops, for assignments to slices take seconds to compile
    for node in range(size):
        down.first[node] = first[node]
    for level in range(1, down.room.shape[0]):
        for node in range(size):
            down.room[level, node] = into[level, node]
            down.place[level, node] = 0
    for layer in range(1, down.left.shape[0]):
        for query in range(size):
            for place in range(size):
                down.left[layer, query, place] = ordered[layer, query, place]


@leaf
def _send_from(down, widest, top, node, amount, full):  # type: ignore[no-untyped-def]
    """Send straight down from a node of the highest level; return how much of ``amount`` came through."""
    if top == 2:
        return _spread(down, widest[1], node, amount, full)
    level = top
    _ask(down, level, node, amount)
    while True:
        if level == 3:
            down.sent[3] = _pass_on(down, widest, down.way[3], down.wanted[3], full)
        else:
            below, step = _next(down, widest[level - 1], level, full)
            if step > full:
                level -= 1
                _ask(down, level, below, step)
                continue
        sent = down.sent[level]
        if level == top:
            return sent
        level += 1
        _take(down, level, sent, full)


@leaf
def _ask(down, level, node, amount):  # type: ignore[no-untyped-def]
    down.way[level], down.wanted[level], down.sent[level] = node, amount, 0


@leaf
def _take(down, level, sent, full):  # type: ignore[no-untyped-def]
    """Note what came through the edge that was tried last."""
    node = down.way[level]
    down.left[level - 1, node, down.place[level, node]] -= sent
    down.sent[level] += sent
    if down.wanted[level] - down.sent[level] > full:
        down.place[level, node] += 1  # either nothing is left of it, or the node below can pass on no more


@leaf
def _next(down, widest, level, full):  # type: ignore[no-untyped-def]
    """Return the next node below and how much may go there; 0 where the node is done, which then has less room."""
    node = down.way[level]
    left, keys, room = down.left[level - 1, node], widest[node], down.room[level - 1]
    place, rest = down.place[level, node], down.wanted[level] - down.sent[level]
    if rest > full:
        while place < keys.shape[0]:
            step = min(rest, left[place], room[keys[place]])
            if step > full:
                down.place[level, node] = place
                return keys[place], step
            place += 1
    _done(down, level, node, place, down.sent[level], rest > full)
    return -1, 0.0


@leaf
def _done(down, level, node, place, sent, stuck):  # type: ignore[no-untyped-def]
    """Note where a node is to go on, and how much it may still pass on: nothing, where it is stuck."""
    down.place[level, node] = place
    down.room[level, node] = 0 if stuck else down.room[level, node] - sent


@leaf
def _pass_on(down, widest, node, wanted, full):  # type: ignore[no-untyped-def]
    """Send from a node of level 3, as ``_send_from`` does from higher ones; return how much came through."""
    left, keys, room = down.left[2, node], widest[2, node], down.room[2]
    place, rest = down.place[3, node], wanted
    while place < keys.shape[0]:
        step = min(rest, left[place], room[keys[place]])
        if step > full:
            sent = _spread(down, widest[1], keys[place], step, full)
            left[place] -= sent
            rest -= sent
            if rest <= full:
                break
        place += 1
    _done(down, 3, node, place, wanted - rest, rest > full)
    return wanted - rest


@leaf
def _spread(down, widest, node, wanted, full):  # type: ignore[no-untyped-def]
    """Send from a node of level 2 to the sink, over every node of level 1 that has room; return how much."""
    left, keys, room = down.left[1, node], widest[node], down.room[1]
    place, rest = down.place[2, node], wanted
    while place < keys.shape[0]:
        step = min(left[place], room[keys[place]])
        if step >= rest:  # a test, for a third ``min`` would have the next step wait for it
            left[place] -= rest
            room[keys[place]] -= rest
            _done(down, 2, node, place, wanted, False)
            return wanted
        left[place] -= step
        room[keys[place]] -= step
        rest -= step
        place += 1
    _done(down, 2, node, place, wanted - rest, rest > full)
    return wanted - rest
