"""Attention flow, Abnar & Zuidema (2020): how much could reach a layer's token from each input token?

See ``graphs.flow`` for the method itself.
"""

from __future__ import annotations

from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Part
from effective_attention.attributions.registry import register
from effective_attention.attributions.shared_work import SharedWork
from effective_attention.graphs.flow import flows
from effective_attention.graphs.receptive_field import even_graph, over_even


@cache
def compile_flow() -> None:
    """Compile the kernels on a graph of two layers and two tokens."""
    flows(torch.ones(1, 2, 2, 2) / 2, torch.ones(1, 2, dtype=torch.bool))


@register(
    "flow",
    title="flow",
    summary="maximum flow, attention as capacities",
    reads_attention=True,
    needs=["graph"],
    prepare=compile_flow,
    pieces="largest",
)
def flow(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Compute the maximum flow from each layer's token, or the largest from any, to each input token."""
    graph = work.graph(attention)
    if work.settings.query == "max":
        return work.read(flow_maps(work, graph))
    found = _row_flows(work, graph)
    return over_even(found, _row_flows(work, even_graph(work.trace))) if work.settings.receptive_field else found


def flow_maps(
    work: SharedWork, graph: Float[Tensor, "batch layer query key"]
) -> Float[Tensor, "batch layer query key"]:
    """Compute the flow from every query, which sums to 1 as in the authors' code, so that queries can be compared."""
    found = flows(graph, work.trace.mask, residual=work.settings.residual).to(graph.device)
    if work.settings.receptive_field:
        even = flows(even_graph(work.trace), work.trace.mask, residual=work.settings.residual).to(graph.device)
        return over_even(found, even)
    return found / found.sum(dim=-1, keepdim=True).where(found.sum(dim=-1, keepdim=True) > 0, 1.0)


def _row_flows(work: SharedWork, graph: Float[Tensor, "batch layer query key"]) -> Float[Tensor, "batch layer key"]:
    """Compute flows from each example's own row; on the CPU, and bring them back."""
    examples = zip(graph[:, None], work.trace.mask[:, None], work.rows.tolist(), strict=True)
    found = [flows(one, mask, rows=[row], residual=work.settings.residual) for one, mask, row in examples]
    return torch.cat(found)[:, :, 0].to(graph.device)
