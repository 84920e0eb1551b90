"""What ``max_flow`` computes, pair by pair with SciPy: for a machine without numba, and to test the compiled loops by.

``scipy.sparse.csgraph.maximum_flow`` takes whole numbers only, of 32 bits. So capacities are rounded down to multiples
of a small unit, the flow of that graph is taken off the capacities, and what is left of them is solved again with a
smaller unit, until no more than the tolerance can be missing:

- No flow is larger than ``limit``, so no edge needs a capacity above it: with ``limit / 2^29`` for a unit, 32 bits
  suffice even where an edge and its reverse add up.
- A round leaves a cut that is full up to rounding, which is less than one unit for each edge. So no more than the
  number of edges times the unit is missing: the next limit, thousands of times smaller. A few rounds reach the
  tolerance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

Array = NDArray[np.float64]

_UNITS = 2**29
_TOLERANCE = 1e-12  # of the largest capacity; as ``dinic.ATTAINED``


class LayeredGraph:
    """A graph of layers; as ``max_flow.LayeredGraph``.

    Args:
        capacity: (layer, query, key), finite and not negative; not changed.
    """

    def __init__(self, capacity: Array) -> None:
        self.capacity = np.asarray(capacity, dtype=np.float64)

    def flow(self, first: Array, layers: int) -> Array:
        """Return the maximum flow from sources that stand on so many layers to each input token.

        Args:
            first: (source, key): the capacities of a source's edges to the nodes below it.
            layers: How many layers are below; 0: the nodes below are the input tokens themselves.

        Returns:
            (source, key).
        """
        found = np.array(first, dtype=np.float64)
        if layers == 0 or found.size == 0:
            return found
        edges = self._edges(layers)
        tolerance = _TOLERANCE * max(float(self.capacity.max()), float(found.max()))
        top = slice(layers * found.shape[1], -1)  # the nodes of the highest level; the last node of all is the source
        for source in range(len(found)):
            edges[-1, top] = first[source]
            for key in range(found.shape[1]):
                found[source, key] = pair_flow(edges, len(edges) - 1, key, tolerance)
        return found

    def _edges(self, layers: int) -> Array:
        """Return the capacities from node to node: level by level from 0, then a source, which has no edges yet."""
        size = self.capacity.shape[1]
        edges = np.zeros(((layers + 1) * size + 1,) * 2)
        for layer in range(layers):
            above, below = slice((layer + 1) * size, (layer + 2) * size), slice(layer * size, (layer + 1) * size)
            edges[above, below] = self.capacity[layer]
        return edges


def pair_flow(capacity: Array, source: int, sink: int, tolerance: float) -> float:
    """Return the maximum flow between two nodes of any graph, less at most ``tolerance``; see the module's docstring.

    >>> pair_flow(np.array([[0.0, 0.75, 0.5], [0.0, 0.0, 0.25], [0.0, 0.0, 0.0]]), 0, 2, 1e-12)
    0.75
    """
    left, flow = capacity.copy(), 0.0
    limit = float(min(left[source].sum(), left[:, sink].sum()))
    while limit > tolerance:
        unit, edges = limit / _UNITS, np.count_nonzero(left)
        whole = csr_array(np.floor(np.minimum(left, limit) / unit).astype(np.int32))
        found = maximum_flow(whole, source, sink)
        flow += unit * float(found.flow_value)
        left = np.maximum(left - unit * found.flow.toarray(), 0)  # a flow counts negative the other way round
        limit = min(limit - unit * float(found.flow_value), unit * edges)
    return flow
