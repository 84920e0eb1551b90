"""Attention weights that know their values: how long they are, and whether they point where the output points.

- ``vatp``: Guo et al. (2024), "Attention Score is not All You Need for Token Importance Indicator in KV Cache
  Reduction" (arXiv 2406.12335): ``|alpha_ij| * ||v_j||_1``, averaged over heads. The paper prunes keys by the sum over
  all queries; an explanation reads one query's row.
- ``contribution_weights``: Cunningham & Muca Cirone (2026, arXiv 2606.07604): ``alpha_ij <v_j, o_i> / ||o_i||^2``, the
  share of a head's output ``o_i = sum_j alpha_ij v_j`` that lies in what token j brings, averaged over heads. Signed;
  the shares of a query sum to 1, under effective attention too, because its output is the same. A head without output
  (``o_i = 0``) has none.

Values are those of the heads, before the output projection, as in both papers.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Layer, Part
from effective_attention.attributions.registry import register
from effective_attention.attributions.shared_work import SharedWork
from effective_attention.graphs.conventions import unsigned


@register(
    "vatp",
    title="attention \N{MULTIPLICATION SIGN} value norm",
    summary="attention times the L1 norm of the value, heads averaged",
    reads_attention=True,
    needs=["weights"],
    pieces="largest",
)
def vatp(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Multiply weights and the L1 norms of values; negative weights count as the convention says."""
    layers = [
        (unsigned(weights.double(), work.settings.convention) * layer.value.double().norm(p=1, dim=-1)[:, :, None])
        for weights, layer in zip(work.weights(attention), work.trace.layers, strict=True)
    ]  # (batch, head, query, key) each
    return work.row(torch.stack([layer.mean(dim=1) for layer in layers], dim=1))


@register(
    "contribution_weights",
    title="contribution weights",
    summary="share of the heads' outputs that lies in what a token brings",
    reads_attention=True,
    needs=["weights"],
)
def contribution_weights(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Project what each token brings onto the heads' outputs; signed, each text's scores sum to 1."""
    layers = [
        projections(layer, weights).mean(dim=1)
        for weights, layer in zip(work.weights(attention), work.trace.layers, strict=True)
    ]
    return work.row(torch.stack(layers, dim=1))


def projections(layer: Layer, weights: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query key"]:
    """Return the share of each head's output that each key brings; 0 where there is no output."""
    value = layer.value.double()
    weights = weights.double()
    output = weights @ value  # (batch, head, query, d_head)
    size = output.square().sum(dim=-1, keepdim=True)
    return weights * (output @ value.transpose(-1, -2)) / size.where(size > 0, torch.inf)
