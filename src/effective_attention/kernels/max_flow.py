"""Compiled maximum flow through a layered attention graph, from many sources to every input token.

Nodes stand on levels: level 0 are the input tokens, level l + 1 the outputs of attention layer l. An edge leads from
node i of level l + 1 to node k of level l and has the capacity ``capacity[l, i, k]``. A source stands above one of the
levels, its edges to that level's nodes are its own: a row of the next layer, or of one head of it. General solvers see
one source, one sink and a list of edges; here the graph is dense and layered, and all pairs share it:

1. Bounds. ``into[t, l, k]``: no more gets from node k of level l to sink t. ``out_of[s, l, k]``: no more gets from
   source s to that node. So no more than ``sum_k min(into, out_of)`` passes level l, and the least such sum is a bound
   for the pair, which the maximum mostly attains (always, where only one level lies between source and sink).
2. Flow that pairs share. Let x be amounts at the nodes of a level half way, ``delivered[s]`` what source s can deliver
   of x at once, and ``drawn[t]`` what sink t can draw from x. Then at least ``sum_k min(delivered, drawn)`` flows from
   s to t: less than a source can deliver, it can deliver as well, and so it is with what a sink can draw. Where that is
   the bound, the pair is done: n + n problems of half the depth in place of n x n. Else nothing is concluded.
3. For the pairs that are left, a blocking flow straight down, the first phase of Dinic's algorithm: depth first, widest
   edges first, as much at once as a node can still pass on. Where it attains the bound, nothing is left to do.
4. Else the further phases of Dinic's algorithm, with reverse edges. What is missing is mostly little, and near the
   sink: so the search goes from the sink upwards, and what is sent never strays from ways that lead there. It keeps
   lists of the nodes it has not seen, to be cheap where it reaches almost everything and where it is stuck soon.

What is left of a node's edges lies in the order in which they are tried. And the loops that solve a pair are all leaves
(``threads.leaf``): counting who uses their dozen arrays, at every step, takes longer than the steps.

**Tolerance.** In units of the largest capacity: an edge with less than 1e-14 left counts as full, a flow less than
1e-12 below its bound as having attained it. So values are exact to 1e-9 if no minimal cut has more than 100 000 edges,
in practice to 1e-12.

``max_flow_reference`` computes the same, pair by pair with SciPy; ``choice`` picks one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from effective_attention.kernels.dinic import ATTAINED, FULL, pair_flow, scratch
from effective_attention.kernels.flow_bounds import bounds_into, bounds_of_pairs, bounds_out_of, in_common
from effective_attention.kernels.threads import loop, share_out_long

Array = NDArray[np.float64]

_BLOCKS = 16  # of sinks that are not neighbours, so that the parts of a few threads take about as long as each other
_EDGE = 3.0  # ns that an edge takes when a pair is solved


class LayeredGraph:
    """A graph, and what all its sources and sinks share.

    Args:
        capacity: (layer, query, key), finite and not negative; not changed.
    """

    def __init__(self, capacity: Array) -> None:
        self.capacity = np.ascontiguousarray(capacity, dtype=np.float64)
        self.widest = _widest_first(self.capacity)
        self.ordered = np.take_along_axis(self.capacity, self.widest.astype(np.int64), axis=-1)
        self.into = bounds_into(self.capacity, np.ascontiguousarray(self.capacity[0].T))
        self.largest = float(self.capacity.max())

    def flow(self, first: Array, layers: int) -> Array:
        """Return the maximum flow from sources that stand on so many layers to each input token.

        Args:
            first: (source, key): the capacities of a source's edges to the nodes below it.
            layers: How many layers are below; 0: the nodes below are the input tokens themselves.

        Returns:
            (source, key).
        """
        first = np.ascontiguousarray(first, dtype=np.float64)
        if layers == 0 or first.size == 0:
            return first.copy()
        part = _Part(self, slice(layers), first, self.into, max(self.largest, float(first.max())))
        todo = np.ones(part.flows.shape, dtype=np.bool_)
        level = layers // 2 + 1
        for amounts in _shared_amounts(part, level):
            if 2 <= level < layers and todo.sum() > 4 * sum(todo.shape):  # else a check costs more than it saves
                todo &= self._reached(part, level, amounts) < part.flows - ATTAINED * part.unit
        return part.solve(todo)

    def _reached(self, part: _Part, level: int, amounts: Array) -> Array:
        """Return a flow that each pair (source, sink) has at least, by way of amounts at a level that all aim at.

        Args:
            part: Sources, sinks and all layers between them.
            level: Where the amounts are.
            amounts: (node,), of sum 1.
        """
        total = part.first.sum(axis=1)
        sources, sinks = (np.arange(count) for count in part.flows.shape)
        upper, lower = slice(level - 1, len(part.capacity)), slice(level)
        above = _Part(self, upper, part.first, bounds_into(part.capacity[upper], total[:, None] * amounts), part.unit)
        _, delivered = above.amounts(sources, sources)
        # Rows that were float32 do not sum to the same. Every source delivers at least the smaller amounts, so a sink
        # may draw from these; it can take the whole of any source if it can take the larger amounts.
        reached = np.zeros(part.flows.shape)
        for end in (total.min(), total.max()):
            below = _Part(self, lower, end * amounts[None], part.into, part.unit)
            drawn, _ = below.amounts(np.zeros_like(sinks), sinks)
            reached[:, sinks] = np.maximum(reached[:, sinks], in_common(delivered, drawn))
            sinks = sinks[drawn.sum(axis=1) >= end - ATTAINED * part.unit]  # others would draw hardly more
        return reached


class _Part:
    """Sources, some layers of a graph below them, and sinks; ``flows`` (source, sink): bounds until it is solved."""

    def __init__(self, graph: LayeredGraph, layers: slice, first: Array, into: Array, unit: float) -> None:
        self.capacity, self.first, self.into, self.unit = graph.capacity[layers], first, into, unit
        self.out_of = bounds_out_of(self.capacity, first)
        self.flows = bounds_of_pairs(into, self.out_of)
        self._given = graph.ordered[layers], graph.widest[layers], into, first, _widest_first(first), unit

    def solve(self, todo: NDArray[np.bool_]) -> Array:
        """Return maximum flows where ``todo``, bounds elsewhere."""
        share_out_long(_solve, _BLOCKS, self._long(int(todo.sum())), *self._given, todo, self.flows)
        return self.flows

    def amounts(self, sources: NDArray[np.int64], sinks: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return what maximum flows between some pairs take from the source's nodes, and get to the sink's.

        Both are (pair, key).
        """
        taken, got = np.zeros((len(sources), self.first.shape[1])), np.zeros((len(sources), self.first.shape[1]))
        given = *self._given, sources, sinks, self.flows
        share_out_long(_solve_amounts, len(sources), self._long(len(sources)), *given, taken, got)
        return taken, got

    def _long(self, pairs: int) -> float:
        return _EDGE * pairs * self.capacity.size


def _shared_amounts(part: _Part, level: int) -> Iterator[Array]:
    """Yield amounts (node,) at a level, of sum 1, that many sources can deliver and many sinks can draw.

    First as all that the sources give away, each node passing on what it gets in proportion to its edges: the best
    where many layers lie above and below. Then the same at every node: better for sinks that are not many layers below,
    where attention gathers at a few tokens, as that of trained models does.
    """
    amounts = part.first.sum(axis=0)
    for layer in range(len(part.capacity) - 1, level - 1, -1):
        amounts = amounts @ part.capacity[layer]
    if amounts.sum() > 0:
        yield amounts / amounts.sum()
    yield np.full_like(amounts, 1 / len(amounts))


def compile_loops() -> None:
    """Compile every loop, by running each on a graph of one node per level."""
    one = np.ones((1, 1, 1))
    LayeredGraph(one).flow(one[0], 1)


def _widest_first(capacity: Array) -> NDArray[np.int32]:
    return np.argsort(-capacity, axis=-1, kind="stable").astype(np.int32)


# --- some of all pairs ---


@loop
def _solve(begin, end, ordered, widest, into, first, widest_first, unit, todo, flows):  # type: ignore[no-untyped-def]
    work = scratch(ordered.shape[0], ordered.shape[1])
    for block in range(begin, end):
        for sink in range(block, flows.shape[1], _BLOCKS):
            for source in range(flows.shape[0]):
                if todo[source, sink]:
                    given = into[sink], first[source], widest_first[source], flows[source, sink]
                    flows[source, sink] = pair_flow(work, ordered, widest, *given, unit)


@loop
def _solve_amounts(  # type: ignore[no-untyped-def]
    begin, end, ordered, widest, into, first, widest_first, unit, sources, sinks, flows, taken, got
):
    work = scratch(ordered.shape[0], ordered.shape[1])
    for pair in range(begin, end):
        source, sink = sources[pair], sinks[pair]
        given = into[sink], first[source], widest_first[source], flows[source, sink]
        if pair_flow(work, ordered, widest, *given, unit) > unit * FULL:
            for node in range(first.shape[1]):
                taken[pair, node] = first[source, node] - work.down.first[node]
                got[pair, node] = into[sink, 1, node] - work.down.room[1, node]
