"""How much could reach a node from each input token, if attention weights are capacities?

Abnar & Zuidema (2020), section 3: the attention graph as a flow network, an edge carries at most its weight (residual
included, as in rollout); the attention of a node to an input token is the value of the maximum flow between the two.
Single heads (appendix A.1): head k of layer i on top of the graph of all heads of the layers below.

Values are those of the flow itself; the paper's figures divide each node's values by their sum. Exact to 1e-9 of the
largest capacity, in float64; see ``kernels.max_flow`` for how, and why it is fast. The naive equivalent is one run of
``networkx.maximum_flow_value`` per pair, as the authors do.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.graphs.conventions import RESIDUAL, as_float64_graph, numbers_from, with_residual
from effective_attention.graphs.rollout import HEADS, LAYERS
from effective_attention.kernels import choice


def attention_flow(
    attention: Float[Tensor, "layer query key"] | Float[np.ndarray, "layer query key"],
    *,
    residual: float = RESIDUAL,
    rows: Iterable[int] | None = None,
    layers: Iterable[int] | None = None,
    start: int = 0,
) -> Float[Tensor, "layers rows key"]:
    """Return the maximum flow from the nodes of each layer to each input token.

    Args:
        attention: Averaged over heads, without residual, not negative. A row may be zero: then only the residual leaves
            it.
        residual: Weight of the residual connection, from 0 to 1.
        rows: Which queries, such as ``[0]`` for [CLS]; None: all.
        layers: Which layers' outputs the flow comes from, such as ``[-1]``; None: all from ``start`` on.
        start: The lowest layer to go through; 0: down to the input tokens.

    Returns:
        float64, on the CPU. From 0 to the sum of the row; at least the rollout, if rows sum to at most 1.

    >>> attention_flow(torch.tensor([[[0.0, 1.0], [0.0, 1.0]]] * 2))[1]
    tensor([[0.5000, 1.0000],
            [0.0000, 1.0000]], dtype=torch.float64)
    """
    graph = _capacities(attention, residual, LAYERS)
    if graph.ndim != len(LAYERS):
        raise ValueError(
            f"attention must be (layer, query, key), got shape {tuple(graph.shape)}; for a batch use flows"
        )
    return _flow(graph, graph[:, None], rows, layers, start)[:, 0]


def head_flow(
    heads: Float[Tensor, "layer head query key"] | Float[np.ndarray, "layer head query key"],
    *,
    residual: float = RESIDUAL,
    rows: Iterable[int] | None = None,
    layers: Iterable[int] | None = None,
    below: Float[Tensor, "layer query key"] | None = None,
) -> Float[Tensor, "layers head rows key"]:
    """Return the maximum flow from each head of each layer, on top of all heads of the layers below it.

    Options are those of ``attention_flow``.

    Args:
        heads: Without residual, which is added to each.
        residual: Weight of the residual connection.
        rows: Which queries.
        layers: Which layers.
        below: The graph of all heads together; None: their average.
    """
    top = _capacities(heads, residual, HEADS)
    return _flow(top.mean(dim=1) if below is None else _capacities(below, residual, LAYERS), top, rows, layers, 0)


def flows(
    graphs: Float[Tensor, "batch layer query key"],
    mask: Bool[Tensor, "batch key"],
    *,
    residual: float = RESIDUAL,
    rows: Iterable[int] | None = None,
    layers: Iterable[int] | None = None,
) -> Float[Tensor, "batch layers rows key"]:
    """Return ``attention_flow`` of each example of a padded batch, over its real tokens only.

    0 where a row or a key is padding.
    """
    queries = numbers_from(rows, graphs.shape[-2], "rows")
    levels = numbers_from(layers, graphs.shape[1], "layers")
    found = torch.zeros(len(graphs), len(levels), len(queries), graphs.shape[-1], dtype=torch.float64)
    for example, graph in enumerate(graphs):
        real = mask[example].nonzero()[:, 0].tolist()
        places = [place for place, query in enumerate(queries) if query in real]
        if places:
            wanted = [real.index(queries[place]) for place in places]
            values = attention_flow(graph[:, real][:, :, real], residual=residual, rows=wanted, layers=levels)
            found[example][:, torch.tensor(places)[:, None], torch.tensor(real)] = values
    return found


def _capacities(attention: object, residual: float, axes: tuple[str, ...]) -> Tensor:
    weights = as_float64_graph(attention, residual, axes).cpu()
    if bool((weights < 0).any()):
        raise ValueError(
            "attention must not be negative where it is a capacity: "
            "make it so with graphs.conventions.signed_to_weights, by the convention absolute or positive"
        )
    return with_residual(weights, residual)


def _flow(graph: Tensor, heads: Tensor, rows: Iterable[int] | None, layers: Iterable[int] | None, start: int) -> Tensor:
    """Return (layers, head, rows, key) from the heads (layer, head, query, key) over the graph of the layers below."""
    (start,) = numbers_from([start], len(graph), "start")
    queries = numbers_from(rows, graph.shape[-1], "rows")
    levels = numbers_from(layers, len(graph), "layers", least=start)
    found = torch.empty(len(levels), heads.shape[1], len(queries), graph.shape[-1], dtype=torch.float64)
    below = graph[start : max(levels, default=start)].numpy()
    network = choice.layered_graph(below) if len(below) > 0 else None
    for place, level in enumerate(levels):
        first = heads[level][:, queries].flatten(0, 1)  # (head * rows, key)
        values = first if network is None else torch.from_numpy(network.flow(first.numpy(), level - start))
        found[place] = values.view_as(found[place])
    return found
