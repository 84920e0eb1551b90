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
)
def flow(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Compute the maximum flow from the row's token in each layer to each input token."""
    graph = work.graph(attention)
    found = flows(graph, work.trace.mask, rows=[work.settings.row], residual=work.settings.residual)
    return found[:, :, 0].to(graph.device)  # flows are computed on the CPU
