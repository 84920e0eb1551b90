"""Attention flow as a game: what does each input token bring to the flow that tokens can send together?

The players are the input tokens. A set of them is worth the maximum flow between one node at the top and the set: its
tokens are joined, by edges without limit, to one more node below. The worth of a token alone is its attention flow.

The flow through a network from a set of sources makes a polymatroid, so worth has decreasing returns. Three things
follow. A token's Shapley value is at most its flow, and is its flow for every token only where flows never compete. Of
all maximum flows, the one that fills a token first gives it its whole flow, and the one that fills it last gives it
what the others leave. And the Shapley values are the mean of the maximum flows that fill one token after the other,
over all orders: they are themselves the shares of a maximum flow.
"""

from __future__ import annotations

from math import factorial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.graphs.conventions import RESIDUAL, as_float64_graph, with_residual
from effective_attention.graphs.flow import attention_flow
from effective_attention.graphs.rollout import LAYERS

MOST_TOKENS = 12  # 4,096 maximum flows


def coalition_flows(
    attention: Float[Tensor, "layer query key"] | Float[np.ndarray, "layer query key"],
    row: int,
    *,
    residual: float = RESIDUAL,
) -> Float[Tensor, " coalition"]:
    """Return the maximum flow between a node at the top and every set of input tokens.

    Args:
        attention: As for ``attention_flow``, of at most 12 tokens.
        row: The node at the top.
        residual: Weight of the residual connection.

    Returns:
        float64; token ``i`` is in set ``s`` where bit ``i`` of ``s`` is 1, so the first is the empty set.

    >>> coalition_flows(torch.tensor([[[0.5, 0.5], [1.0, 0.0]], [[0.2, 0.8], [0.6, 0.4]]]), row=0)
    tensor([0.0000, 1.0000, 0.6500, 1.0000], dtype=torch.float64)
    """
    graph = with_residual(as_float64_graph(attention, residual, LAYERS), residual)
    size = graph.shape[-1]
    if size > MOST_TOKENS:
        raise ValueError(
            f"attention must be of at most {MOST_TOKENS} tokens, as every set of them is tried, got {size}"
        )
    below = torch.zeros(1, size, size, dtype=torch.float64)
    worth = torch.zeros(2**size, dtype=torch.float64)
    for coalition in range(1, 2**size):
        members = [token for token in range(size) if coalition >> token & 1]
        below[0, :, 0] = 0
        below[0, members, 0] = graph[-1, row].sum()  # no more can reach them
        joined = torch.cat([below, graph])
        worth[coalition] = attention_flow(joined, residual=0.0, rows=[row], layers=[-1])[0, 0, 0]
    return worth


def shapley_values(worth: Float[Tensor, " coalition"]) -> Float[Tensor, " token"]:
    """Return each player's mean gain over all orders in which players can join.

    >>> shapley_values(torch.tensor([0.0, 1.0, 0.65, 1.0]))
    tensor([0.6750, 0.3250])
    """
    size = _players(worth)
    coalitions = torch.arange(len(worth))
    members = (coalitions[:, None] >> torch.arange(size)) & 1
    count = members.sum(dim=1)
    chances = [factorial(k) * factorial(size - k - 1) / factorial(size) for k in range(size)]
    weights = torch.tensor([*chances, 0], dtype=worth.dtype)[count]  # nobody joins the whole set
    found = worth.new_zeros(size)
    for token in range(size):
        without = coalitions[members[:, token] == 0]
        gains = worth[without + 2**token] - worth[without]
        found[token] = weights[without] @ gains
    return found


def maximum_flow_range(worth: Float[Tensor, " coalition"]) -> tuple[Float[Tensor, " token"], Float[Tensor, " token"]]:
    """Return the least and the most that each token sends in any maximum flow of all tokens.

    >>> maximum_flow_range(torch.tensor([0.0, 1.0, 0.65, 1.0]))
    (tensor([0.3500, 0.0000]), tensor([1.0000, 0.6500]))
    """
    alone = 2 ** torch.arange(_players(worth))
    return worth[-1] - worth[len(worth) - 1 - alone], worth[alone]


def _players(worth: Tensor) -> int:
    size = len(worth).bit_length() - 1
    if size < 1 or len(worth) != 2**size:
        raise ValueError(f"worth must have an entry for each set of players, 2, 4, 8 ..., got {len(worth)}")
    return size
