"""How much of what reaches a token is owed to who may look at whom?

Abnar & Zuidema (2020), section 6: in a decoder later tokens are hidden, so that there is more attention toward the
first tokens, which the most tokens see, and rollout and flow are biased toward them; one "should first normalize based
on the receptive field of attention". They give no formula. Ours: with M the measure (rollout or flow), A the attention
and U attention that each token spreads evenly over all it sees,

    M'(i, j) = M_A(i, j) / M_U(i, j), divided by its sum over j.

M_U is what the mask alone brings from input token j to node i, through all layers, windows too. So a model without
preferences gets equal shares, whatever its mask and depth, and a token is above its share where it is reached more than
by its place. A token that the mask does not let through has 0. Raw attention of one layer stays as it is: its even
counterpart is the same for all tokens that are seen.

Off for attention that hides nothing: the authors' own numbers are without it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Layer, Trace


def even_graph(trace: Trace) -> Float[Tensor, "batch layer query key"]:
    """Return the graph of a model without preferences: every token spreads its weight evenly over what it sees.

    Rows and columns of padding are 0. No model that we know hides different keys from its heads: the first is read.
    """
    return torch.stack([_even(layer, trace) for layer in trace.layers], dim=1)


def over_even(found: Float[Tensor, "*any key"], even: Float[Tensor, "*any key"]) -> Float[Tensor, "*any key"]:
    """Divide what reaches a node by what even attention would bring there, and make the result sum to 1.

    >>> over_even(torch.tensor([0.6, 0.3, 0.0]), torch.tensor([0.75, 0.25, 0.0]))
    tensor([0.4000, 0.6000, 0.0000])
    """
    lift = torch.where(even > 0, found / even.where(even > 0, torch.ones_like(even)), 0.0)
    total = lift.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, lift / total.where(total > 0, torch.ones_like(total)), 0.0)


def _even(layer: Layer, trace: Trace) -> Float[Tensor, "batch query key"]:
    seen = trace.mask[:, :, None] & trace.mask[:, None, :]
    if layer.visible is not None:
        seen = seen & layer.visible[:, 0]
    return seen.double() / seen.sum(dim=-1, keepdim=True).clamp_min(1)
