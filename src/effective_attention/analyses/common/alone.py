"""One text by itself, in double precision: what linear programs over rows of attention are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float64

from effective_attention.attention.trace import Layer, Trace, one_text, trace

HeadRows = tuple[
    Float64[np.ndarray, "head some key"], Float64[np.ndarray, "head key d_head"], Bool[np.ndarray, "head some key"]
]


def traced_alone(seen: Trace, place: int = 0) -> Trace:
    """Trace one text of a batch again, without companions and padding.

    Rounding decides between rows that are equally good, and what others are in a batch decides rounding.
    """
    return trace(seen.model, one_text(seen, place))


def head_rows(layer: Layer, queries: Sequence[int]) -> HeadRows:
    """Return some rows of every head of a text that is alone, of sum 1, the heads' values, and what the queries see."""
    if layer.is_long:
        chosen = torch.cat([layer.rows("standard", slice(query, query + 1)) for query in queries], dim=2)
    else:
        chosen = layer.attention[:, :, list(queries)]
    attention = chosen[0].cpu().double()
    visible = torch.ones(attention.shape, dtype=torch.bool)
    if layer.visible is not None:
        heads, every, keys = layer.shape[1:]
        visible = layer.visible[0].cpu().expand(heads, every, keys)[:, list(queries)].clone()
    attention = torch.where(visible, attention, 0)
    attention = attention / attention.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
    return attention.numpy(), layer.value[0].cpu().double().numpy(), visible.numpy()
