"""How much of each input token has reached a node, if attention mixes tokens linearly?

Abnar & Zuidema (2020), section 3, Eq. 1: with ``A_l = 0.5 W_l + 0.5 I``, the rollout from layer i down to layer j is
``A_i A_{i-1} ... A_j``. Single heads (their appendix A.1): head k of layer i on top of the rollout of all heads of the
layers below.

Deviations: the weight of the residual is an option. Appendix A.1 writes the rollout "for layer i" below head (i, k); we
take that of the layers below i, and average their heads where the appendix speaks of a sum, as the main text does.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.graphs.conventions import RESIDUAL, as_float64_graph, numbers_from, with_residual

LAYERS = ("layer", "query", "key")
HEADS = ("layer", "head", "query", "key")


def attention_rollout(
    attention: Float[Tensor, "*batch layer query key"] | Float[np.ndarray, "*batch layer query key"],
    *,
    residual: float = RESIDUAL,
    start: int = 0,
) -> Float[Tensor, "*batch upper query key"]:
    """Return the rollout of every layer down to the input of layer ``start``, a product of matrices.

    Args:
        attention: Averaged over heads, without residual.
        residual: Weight of the residual connection, from 0 to 1.
        start: The lowest layer to go through; 0: down to the input tokens.

    Returns:
        float64; the first entry is layer ``start`` itself, the last the top layer (layers below ``start`` have none).
        Rows sum to 1 if those of ``attention`` do.

    >>> attention_rollout(torch.tensor([[[0.0, 1.0], [0.0, 1.0]]] * 2))[1]
    tensor([[0.2500, 0.7500],
            [0.0000, 1.0000]], dtype=torch.float64)
    """
    graph = with_residual(as_float64_graph(attention, residual, LAYERS), residual)
    (start,) = numbers_from([start], graph.shape[-3], "start")
    found = [graph[..., start, :, :]]
    for layer in range(start + 1, graph.shape[-3]):
        found.append(graph[..., layer, :, :] @ found[-1])
    return torch.stack(found, dim=-3)


def head_rollout(
    heads: Float[Tensor, "*batch layer head query key"] | Float[np.ndarray, "*batch layer head query key"],
    *,
    residual: float = RESIDUAL,
    below: Float[Tensor, "*batch layer query key"] | None = None,
) -> Float[Tensor, "*batch layer head query key"]:
    """Return each head of each layer on top of the rollout of all heads of the layers below it.

    Args:
        heads: Without residual, which is added to each.
        residual: Weight of the residual connection, from 0 to 1.
        below: The graph of all heads together; None: their average.
    """
    top = as_float64_graph(heads, residual, HEADS)
    together = top.mean(dim=-3) if below is None else as_float64_graph(below, residual, LAYERS)
    lower = (
        attention_rollout(together[..., :-1, :, :], residual=residual) if top.shape[-4] > 1 else together[..., :0, :, :]
    )
    nothing = torch.eye(top.shape[-1], dtype=top.dtype, device=top.device).expand_as(together[..., :1, :, :])
    return with_residual(top, residual) @ torch.cat([nothing, lower], dim=-3).unsqueeze(-3)
