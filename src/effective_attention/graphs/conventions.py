"""What is the attention graph of an example?

Abnar & Zuidema (2020), section 3: a node per token and layer, an edge from each token to each token of the layer below,
weighted by attention. Heads are averaged. The residual connection is an edge from each token to itself: ``A = r I + (1
- r) W``, with r = 0.5 as published; rollout and flow add it themselves.

**Effective attention has negative weights**, which are neither shares nor capacities (the paper names the combination
as future work only). Two conventions: ``absolute`` takes their size, for a weight of -0.2 moves the output as far as
one of 0.2; ``positive`` drops them. The convention is applied to each head before heads are averaged, so that heads of
opposite sign do not cancel; after the average, rows are divided by their sum. So a head of which little reaches the
output has little say. A row without any weight stays zero: only the residual is left of it. Null attention is signed
too and treated alike; standard attention is left as it is.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Part, Trace

Convention = Literal["absolute", "positive"]
RESIDUAL = 0.5  # as published


def signed_to_weights(
    weights: Float[Tensor, "*any query key"], convention: Convention = "absolute"
) -> Float[Tensor, "*any query key"]:
    """Turn weights of any sign into shares: not negative, rows sum to 1 or, where nothing is left, to 0.

    >>> signed_to_weights(torch.tensor([[-0.1, 0.3], [-1.0, 0.0]]), "positive")
    tensor([[0., 1.],
            [0., 0.]])
    """
    return _shares(unsigned(weights, convention))


def trace_graph(
    trace: Trace, attention: Part, convention: Convention = "absolute"
) -> Float[Tensor, "batch layer query key"]:
    """Return the graph of each example of a batch, heads averaged, without residual, float64.

    Rows and columns of padding are 0.
    """
    averages = [_heads(trace, layer, attention, convention).mean(dim=1) for layer in range(len(trace.layers))]
    graph = torch.stack(averages, dim=1)
    return graph if attention == "standard" else _shares(graph)


def trace_heads(
    trace: Trace, attention: Part, convention: Convention = "absolute"
) -> Float[Tensor, "batch layer head query key"]:
    """Return what ``trace_graph`` does, each head on its own; each head's rows sum to 1."""
    heads = torch.stack([_heads(trace, layer, attention, convention) for layer in range(len(trace.layers))], dim=1)
    return heads if attention == "standard" else _shares(heads)


def with_residual(
    weights: Float[Tensor, "*any query key"], residual: float = RESIDUAL
) -> Float[Tensor, "*any query key"]:
    """Return ``residual * I + (1 - residual) * weights``."""
    return (1 - residual) * weights + residual * torch.eye(
        weights.shape[-1], dtype=weights.dtype, device=weights.device
    )


def as_float64_graph(attention: Any, residual: float, axes: tuple[str, ...]) -> Float[Tensor, "*any query key"]:
    """Return attention that rollout and flow can work on, as a float64 tensor, after checking it.

    Args:
        attention: Tensor or array.
        residual: Weight of the residual connection.
        axes: What the last axes of ``attention`` must be, the layers first.

    Raises:
        ValueError: Says what is wrong with which of them.
    """
    if not 0 <= residual <= 1:
        raise ValueError(f"residual must be from 0 to 1, got {residual!r}")
    graph = torch.as_tensor(np.asarray(attention) if not isinstance(attention, Tensor) else attention.detach()).to(
        torch.float64
    )
    shape = tuple(graph.shape)
    if len(shape) < len(axes) or shape[-1] != shape[-2]:
        raise ValueError(f"attention must be ({', '.join(axes)}) with as many queries as keys, got shape {shape}")
    if 0 in shape[-len(axes) :]:
        raise ValueError(f"attention must have at least one layer and one token, got shape {shape}")
    if not bool(torch.isfinite(graph).all()):
        raise ValueError(f"attention must be finite, got NaN or infinity in shape {shape}")
    return graph


def numbers_from(numbers: Any, size: int, name: str, *, least: int = 0) -> list[int]:
    """Return numbers from ``least`` to ``size - 1`` as a list: negative ones count from the end; None: all of them."""
    if numbers is None:
        return list(range(least, size))
    found = [int(number) + size if number < 0 else int(number) for number in numbers]
    if not all(least <= number < size for number in found):
        raise ValueError(f"{name} must be from {least} to {size - 1}, got {list(numbers)}")
    return found


def _heads(trace: Trace, layer: int, attention: Part, convention: Convention) -> Float[Tensor, "batch head query key"]:
    weights = trace.layers[layer].part(attention).double()
    if attention != "standard":
        weights = unsigned(weights, convention)
    real = trace.mask[:, None, :, None] & trace.mask[:, None, None, :]  # (batch, 1, query, key)
    return weights.masked_fill(~real, 0)


def unsigned(weights: Float[Tensor, "*any query key"], convention: Convention) -> Float[Tensor, "*any query key"]:
    """Return weights that are not negative; rows are not divided by their sum."""
    if convention not in get_args(Convention):
        raise ValueError(f"convention must be absolute or positive, got {convention!r}")
    return weights.abs() if convention == "absolute" else weights.clamp_min(0)


def _shares(weights: Tensor) -> Tensor:
    total = weights.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, weights / total.where(total > 0, torch.ones_like(total)), 0.0)
