"""How much would the output change if a token's embedding, or an attention weight, changed a little?

Abnar & Zuidema (2020) compare attention with input gradients (F5) and name attention weighted by gradients as future
work (F10). All methods here read the one backward pass of ``AttributionRequest.gradients``; the output is the target's
log-odds (see ``request``).

- ``input_gradients``: the L2 norm of the gradient at a token's embedding. The paper does not say which norm it takes.
- ``gradient_times_input``: gradient x embedding, summed over the embedding's width. Signed: positive where the
  embedding, as a direction from zero, speaks for the class. Take the absolute value to rank by importance.
- ``gradient_weighted``: mean over heads of ``max(0, A * dE/dA)``, as in Chefer et al. (2021), a graph that rollout or
  flow can follow. Under effective attention ``A`` is the effective part and ``dE/dA`` stays what it is: with ``G =
  dE/dZ V^T`` every row of ``A_null * G`` sums to 0 (``A_null V = 0``), so that a row's total evidence is the same and
  only its place among the keys changes. (The positive part is taken after that, weight by weight.)
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Part
from effective_attention.attributions.request import AttributionRequest


def input_gradients(request: AttributionRequest) -> Float[Tensor, "batch key"]:
    """Norm of the gradient at each token's embedding; at least 0, and 0 on padding."""
    return _on_tokens(request.gradients.embedding.norm(dim=-1), request)


def gradient_times_input(request: AttributionRequest) -> Float[Tensor, "batch key"]:
    """Gradient times embedding; signed, and 0 on padding."""
    found = request.gradients
    return _on_tokens((found.embedding * found.embeddings).sum(dim=-1), request)


def gradient_weighted(
    request: AttributionRequest, attention: Part = "standard"
) -> Float[Tensor, "batch layer query key"]:
    """Mean over heads of the positive part of weight times gradient; not normalised, 0 on padding."""
    graphs = [
        (layer.part(attention) * gradient).clamp_min(0).mean(dim=1)
        for layer, gradient in zip(request.trace.layers, request.gradients.attention, strict=True)
    ]
    mask = request.trace.mask
    return torch.stack(graphs, dim=1).masked_fill(~(mask[:, None, :, None] & mask[:, None, None, :]), 0)


def _on_tokens(scores: Tensor, request: AttributionRequest) -> Tensor:
    return scores.masked_fill(~request.trace.mask, 0)
