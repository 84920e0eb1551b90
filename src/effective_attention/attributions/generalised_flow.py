"""How much evidence flows from a token to the top, if attention times gradient are the capacities?

Azarkhalili & Libbrecht (2025), "Generalized Attention Flow" (arXiv 2502.15765, ACL 2025), its variant AGF: the
capacities are ``gradients.gradient_graph``, the positive part of attention times gradient with heads averaged; every
token of the top layer is a source; the flow is the maximum one with a logarithmic barrier (``graphs.barrier_flow``),
and a token's score is what reaches it. No residual is added, no row is read. For a lower layer the graph ends there.

Deviations: log-odds are differentiated, not a logit. How small the barrier's mu is, and which bound the edges of
source and target have, we could not read in the paper; ours have none, and mu makes the flow fall short of the
maximum by at most a thousandth of the least capacity between two layers.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Part
from effective_attention.attributions.gradients import gradient_graph
from effective_attention.attributions.registry import register
from effective_attention.attributions.shared_work import SharedWork
from effective_attention.graphs.barrier_flow import barrier_flow


@register(
    "generalised_flow",
    title="generalised flow",
    summary="maximum flow of attention times gradient, kept off every bound",
    reads_attention=True,
    needs=["gradient_graph"],
)
def generalised_flow(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Sum up what reaches each input token from every token of a layer."""
    graph = gradient_graph(work, attention)
    found = torch.zeros_like(graph[:, :, 0])
    for example, mask in enumerate(work.trace.mask):
        if not bool(mask.any()):
            continue
        capacities = graph[example][:, mask][..., mask]
        for top in range(len(capacities)):
            found[example, top, mask] = barrier_flow(capacities[: top + 1])[0].sum(dim=0)
    return found
