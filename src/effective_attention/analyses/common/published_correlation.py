"""Abnar & Zuidema (2020), Table 3, by the code that its authors published: attention against summed input gradients.

It differs from the paper's text, and from our own ``spearman_gradients``, in all of this:

- a token is worth the absolute value of the *sum* of its gradient, not a norm, at the output of the whole embedding
  (positions and layer norm included);
- what is differentiated is the logit of class 0, whichever class is right;
- of attention the *largest weight over all queries* counts, not the row of [CLS]; a flow is divided by its node's sum
  before that;
- all tokens are ranked, [CLS] and [SEP] too;
- equal scores share a rank without a gap after it (dense ranks), put into the formula 1 - 6 Σ d² / (n (n² - 1)), which
  is Spearman's for ranks without ties only.

Deviation: effective attention is read too, its negative weights made positive by ``convention``. Equal means equal,
as in the code; ``ranking`` forgives rounding.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from effective_attention.attention.hook import evaluation_mode
from effective_attention.attention.rerun import autograd_on, model_inputs, removed_after
from effective_attention.attention.trace import Part, Trace
from effective_attention.attributions.embedding import token_embedding
from effective_attention.graphs.conventions import RESIDUAL, Convention, trace_graph
from effective_attention.graphs.flow import flows
from effective_attention.graphs.rollout import attention_rollout


def summed_gradient(trace: Trace) -> Float[Tensor, "batch key"]:
    """Take the absolute sum of the gradient of logit 0 at each token's embedding; 0 on padding."""
    model = trace.transformer

    def start_here(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        return output.detach().requires_grad_()  # a graph begins here, though no weight may want a gradient

    with token_embedding(trace) as embed, autograd_on(), evaluation_mode(trace.model):
        with removed_after([embed.register_forward_hook(start_here)]):
            output = model(**model_inputs(trace), output_hidden_states=True)
        (gradient,) = torch.autograd.grad(output.logits[:, 0].sum(), [output.hidden_states[0]])
    return gradient.sum(dim=-1).abs().masked_fill(~trace.mask, 0)


def largest_received(
    trace: Trace, attention: Part, *, residual: float = RESIDUAL, convention: Convention = "absolute"
) -> dict[str, Float[Tensor, "batch layer key"]]:
    """Return the largest weight that any query gives each token: raw, rolled out, and as flow of sum 1."""
    graph = trace_graph(trace, attention, convention)
    flow = flows(graph, trace.mask, residual=residual)
    flow = flow / flow.sum(dim=-1, keepdim=True).where(flow.sum(dim=-1, keepdim=True) > 0, 1.0)
    maps: Mapping[str, Tensor] = {"raw": graph, "rollout": attention_rollout(graph, residual=residual), "flow": flow}
    real = (trace.mask[:, None, :, None] & trace.mask[:, None, None, :]).to(graph.device)  # (batch, 1, query, key)
    return {name: one.to(graph.device).masked_fill(~real, 0).amax(dim=-2) for name, one in maps.items()}


def dense_spearman(
    one: Float[Tensor, "*#any key"], other: Float[Tensor, "*#any key"], chosen: Bool[Tensor, "*#any key"]
) -> Float[Tensor, "*any"]:
    """Put dense ranks over the chosen tokens into Spearman's formula; NaN with fewer than two tokens.

    >>> three = torch.tensor([True, True, True])
    >>> dense_spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 2.0, 9.0]), three).item()
    0.5
    """
    one, other, chosen = torch.broadcast_tensors(one, other, chosen)  # type: ignore[no-untyped-call]
    difference = torch.where(chosen, dense_ranks(one, chosen) - dense_ranks(other, chosen), 0).double()
    count = chosen.sum(dim=-1).double()
    value = 1 - 6 * difference.square().sum(dim=-1) / (count * (count.square() - 1)).clamp_min(1)
    return torch.where(count > 1, value, torch.nan)


def dense_ranks(scores: Float[Tensor, "*any key"], chosen: Bool[Tensor, "*any key"]) -> Float[Tensor, "*any key"]:
    """Rank from 1 among the chosen tokens by how many different scores are smaller; 0 elsewhere.

    >>> dense_ranks(torch.tensor([3.0, 1.0, 3.0, 9.0]), torch.tensor([True, True, True, False])).tolist()
    [2.0, 1.0, 2.0, 0.0]
    """
    order = scores.masked_fill(~chosen, torch.inf).argsort(dim=-1, stable=True)
    ordered = scores.gather(-1, order)
    steps = torch.zeros_like(ordered)
    steps[..., 1:] = (ordered[..., 1:] > ordered[..., :-1]).to(steps.dtype)
    ranks = torch.zeros_like(ordered).scatter(-1, order, 1 + steps.cumsum(dim=-1))
    return torch.where(chosen, ranks, 0.0)
