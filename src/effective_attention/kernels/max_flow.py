"""Compiled maximum flow through a layered attention graph, from many sources to every input token.

Nodes stand on levels: level 0 are the input tokens, level l + 1 the outputs of attention layer l. An edge leads from
node i of level l + 1 to node k of level l and has the capacity ``capacity[l, i, k]``. A source stands above one of the
levels, its edges to that level's nodes are its own: a row of the next layer, or of one head of it. General solvers see
one source, one sink and a list of edges; here the graph is dense and layered, and all pairs share it:

1. Bounds. ``into[t, l, k]``: no more gets from node k of level l to sink t. ``out_of[s, l, k]``: no more gets from
   source s to that node. So no more than ``sum_k min(into, out_of)`` passes level l, and the least such sum is a bound
   for the pair, which the maximum mostly attains (always, where only one level lies between source and sink).
2. A share of flow that all pairs may use. Let x be amounts at the nodes of a level half way. If source s can deliver
   all of x at once and sink t can draw its bound from x, then the flow from s to t attains the bound: sources and sinks
   are checked one by one, n + n problems of half the depth in place of n x n. Where the check fails, nothing is
   concluded.
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

import numpy as np
from numpy.typing import NDArray

from effective_attention.kernels.dinic import ATTAINED, pair_flow, scratch
from effective_attention.kernels.flow_bounds import bounds_into, bounds_of_pairs, bounds_out_of
from effective_attention.kernels.threads import loop, share_out

Array = NDArray[np.float64]

_BLOCKS = 16  # of sinks that are not neighbours, so that the parts of a few threads take about as long as each other


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
        for level in (layers // 2 + 1, layers // 2 + 2):
            if 2 <= level < layers and todo.sum() > 4 * sum(todo.shape):  # else a check costs more than it saves
                todo &= ~self._attained(part, level)
        return part.solve(todo)

    def _attained(self, part: _Part, level: int) -> NDArray[np.bool_]:
        """Return True for pairs (source, key) whose bound is attained by way of amounts at a level that all share.

        A source delivers them in proportion to its total.
        """
        total, amounts = part.first.sum(axis=1), part.first
        for layer in range(len(part.capacity) - 1, level - 1, -1):
            amounts = amounts @ part.capacity[layer]
        shared = amounts.sum(axis=0)
        if not total.min() > 0 or not shared.sum() > 0:
            return np.zeros(part.flows.shape, dtype=np.bool_)
        shared /= shared.sum()
        upper, lower = slice(level - 1, len(part.capacity)), slice(level)
        near = bounds_into(part.capacity[upper], total[:, None] * shared)
        tolerance = ATTAINED * part.unit
        above = _Part(self, upper, part.first, near, part.unit)
        delivered = np.diagonal(above.solve(np.eye(len(total), dtype=np.bool_))) >= total - tolerance
        ends = np.array([total.min(), total.max()])  # rows that were float32 do not sum to the same
        below = _Part(self, lower, ends[:, None] * shared, part.into, part.unit)
        least, most = below.solve(np.ones(below.flows.shape, dtype=np.bool_))
        # Every source delivers at least the smaller amounts, so a sink may draw from these; it can take the whole of
        # any source if it can take the larger amounts.
        drawn: NDArray[np.bool_] = (least >= part.flows - tolerance) | (most >= total.max() - tolerance)
        return delivered[:, None] & drawn


class _Part:
    """Sources, some layers of a graph below them, and sinks; ``flows`` (source, sink): bounds until it is solved."""

    def __init__(self, graph: LayeredGraph, layers: slice, first: Array, into: Array, unit: float) -> None:
        self.capacity, self.first, self.into, self.unit = graph.capacity[layers], first, into, unit
        self.out_of = bounds_out_of(self.capacity, first)
        self.flows = bounds_of_pairs(into, self.out_of)
        self._given = graph.ordered[layers], graph.widest[layers], into, first, _widest_first(first), unit

    def solve(self, todo: NDArray[np.bool_]) -> Array:
        """Return maximum flows where ``todo``, bounds elsewhere."""
        share_out(_solve, _BLOCKS, *self._given, todo, self.flows)
        return self.flows


def compile_loops() -> None:
    """Compile every loop, by running each on a graph of one node per level."""
    one = np.ones((1, 1, 1))
    LayeredGraph(one).flow(one[0], 1)


def _widest_first(capacity: Array) -> NDArray[np.int32]:
    return np.argsort(-capacity, axis=-1, kind="stable").astype(np.int32)


# --- all pairs of some blocks ---


@loop
def _solve(begin, end, ordered, widest, into, first, widest_first, unit, todo, flows):  # type: ignore[no-untyped-def]
    work = scratch(ordered.shape[0], ordered.shape[1])
    for block in range(begin, end):
        for sink in range(block, flows.shape[1], _BLOCKS):
            for source in range(flows.shape[0]):
                if todo[source, sink]:
                    given = into[sink], first[source], widest_first[source], flows[source, sink]
                    flows[source, sink] = pair_flow(work, ordered, widest, *given, unit)
