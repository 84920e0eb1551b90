"""How much would the output change if a token's embedding, or an attention weight, changed a little?

Abnar & Zuidema (2020) compare attention with input gradients (F5) and name attention weighted by gradients as future
work (F10). All methods here read the one backward pass of ``AttributionRequest.gradients``; the output is the target's
log-odds (see ``request``).

- ``input_gradient``: the L2 norm of the gradient at a token's embedding. The paper does not say which norm it takes.
- ``gradient_x_input``: gradient x embedding, summed over the embedding's width. Signed: positive where the embedding,
  as a direction from zero, speaks for the target. Take the absolute value to rank by importance.
- ``gradient_attention``: mean over heads of ``max(0, A * dE/dA)``, as in Chefer et al. (2021): a graph that rollout can
  follow (``gradient_rollout``). Under effective attention ``A`` is the effective part and ``dE/dA`` stays what it is:
  with ``G = dE/dZ V^T`` every row of ``A_null * G`` sums to 0 (``A_null V = 0``), so that a row's total evidence is the
  same and only its place among the keys changes. (The positive part is taken after that, weight by weight.)
- ``relevance``: Chefer et al. (2021), "Generic Attention-model Explainability" (arXiv 2103.15679), their rule for
  self-attention: ``R <- R + G R`` from the first layer to the last, ``R = I`` before the first, ``G`` the layer's
  gradient-weighted attention as it is. ``gradient_rollout`` divides ``G``'s rows by their sums and has a residual of
  fixed weight instead. They differentiate a class's logit, we its log-odds.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Part
from effective_attention.attributions.registry import register
from effective_attention.attributions.rollout import rolled_out, rolled_through
from effective_attention.attributions.shared_work import SharedWork


@register(
    "gradient_attention",
    title="attention \N{MULTIPLICATION SIGN} gradient",
    summary="positive part of attention times its gradient, heads averaged",
    reads_attention=True,
    needs=["gradient_graph"],
)
def gradient_attention(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the gradient-weighted attention."""
    return work.row(gradient_graph(work, attention))


@register(
    "gradient_rollout",
    title="rollout of att. \N{MULTIPLICATION SIGN} gradient",
    summary="attention times gradient of all layers below, as shares, multiplied",
    reads_attention=True,
    needs=["gradient_graph"],
)
def gradient_rollout(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the rollout of the gradient-weighted attention."""
    return rolled_out(work, gradient_graph(work, attention))


@register(
    "relevance",
    title="relevance",
    summary="attention times gradient of all layers below, added to what was there",
    reads_attention=True,
    needs=["gradient_graph"],
)
def relevance(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the layers' gradient-weighted attention plus the identity, multiplied."""
    graph = gradient_graph(work, attention)
    return rolled_through(work, graph + torch.eye(graph.shape[-1], dtype=graph.dtype, device=graph.device))


@register(
    "input_gradient",
    title="input gradient",
    summary="norm of the gradient at the embedding",
    needs=["gradients"],
    pieces="largest",
)
def input_gradient(work: SharedWork) -> Float[Tensor, "batch key"]:
    """Take the norm of the gradient at each token's embedding; at least 0."""
    return work.gradients.embedding.norm(dim=-1).masked_fill(~work.trace.mask, 0)


@register(
    "gradient_x_input",
    title="gradient \N{MULTIPLICATION SIGN} input",
    summary="gradient times embedding, signed",
    needs=["gradients"],
)
def gradient_x_input(work: SharedWork) -> Float[Tensor, "batch key"]:
    """Multiply gradient and embedding; signed."""
    found = work.gradients
    return (found.embedding * found.embeddings).sum(dim=-1).masked_fill(~work.trace.mask, 0)


def gradient_graph(work: SharedWork, attention: Part = "standard") -> Float[Tensor, "batch layer query key"]:
    """Shared work ``gradient_graph``: positive part of weight times gradient, averaged over heads, not normalised."""

    def compute() -> Tensor:
        graphs = [
            (weights * gradient).clamp_min(0).mean(dim=1)
            for weights, gradient in zip(work.weights(attention), work.gradients.attention, strict=True)
        ]
        mask = work.trace.mask
        pairs = mask[:, None, :, None] & mask[:, None, None, :]
        return torch.stack(graphs, dim=1).masked_fill(~pairs, 0).double()

    return work.shared("gradient_graph", attention, compute)
