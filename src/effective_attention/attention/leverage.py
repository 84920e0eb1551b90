"""How much of a key can effective attention see at all? Its leverage, from the values alone.

With P the projector on the column space of V, the leverage of key j is ``h_j = P_jj``, from 0 to 1; over all keys it
sums to the rank. As ``A_effective = A P``, the inequality of Cauchy and Schwarz gives for every entry

    |A_effective[i, j]| = |a_i P e_j| <= ||a_i|| ||P e_j|| = ||a_i|| sqrt(h_j)

so that a key with no leverage has no effective attention, however much attention it gets. That depends on all values
together: a short value need not have little leverage, where no other value points its way. In affine space P is that of
``[V, 1]``, and leverage is larger: at least ``1 / n`` for each of n keys.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.attention.column_space import column_space, has_full_row_rank, index_of
from effective_attention.attention.decomposition import default_rtol, for_each_head
from effective_attention.attention.precision import without_autocast
from effective_attention.attention.readings import Space, with_ones

_MOST = 2**24  # numbers of values that are looked at at once


@torch.no_grad()
def leverage(
    value: Float[Tensor, "batch shared key d_head"],
    visible: Bool[Tensor, "batch heads queries key"] | None = None,
    *,
    space: Space = "value",
) -> Float[Tensor, "batch some_heads queries key"]:
    """Return the leverage of every key among those that a query sees; 0 where hidden.

    Args:
        value: One set of values for each head, or for each group of heads.
        visible: What each query sees, or what all do (``queries`` is 1); None: everything.
        space: ``value``, or ``affine``, in which rows keep their sum.

    Returns:
        Float64, one for each set of values, or for each head where heads see different keys.

    >>> leverage(torch.tensor([[[[1.0], [1.0], [0.0]]]]))[0, 0, 0].round(decimals=6).tolist()
    [0.5, 0.5, 0.0]
    """
    if visible is None:
        visible = torch.ones_like(value[:, :1, :, 0], dtype=torch.bool)[:, :, None]
    value = for_each_head(value, max(visible.shape[1], value.shape[1]))
    if space == "affine":
        value = with_ones(value, visible.any(dim=-2))
    batch, heads, keys, width = value.shape
    queries = visible.shape[2]
    seen = visible.expand(batch, heads, queries, keys).flatten(0, 2)  # (problem, key)
    values = value.flatten(0, 1)
    found = torch.empty(seen.shape, dtype=torch.float64, device=value.device)
    with without_autocast(value.device):
        for part in torch.split(torch.arange(len(seen), device=value.device), max(1, _MOST // max(1, keys * width))):
            found[part] = _leverage(values[part // queries], seen[part], default_rtol(value.dtype))
    return found.view(batch, heads, queries, keys)


def _leverage(value: Tensor, seen: Tensor, rtol: float) -> Tensor:
    """Return the squared lengths of the rows of an orthonormal basis; 1 where all keys are independent."""
    found = seen.double()
    index = index_of(~has_full_row_rank(value, seen, rtol))  # of the others a basis is looked for, some by a slow SVD
    space = column_space(value[index], seen[index], rtol)
    lengths = torch.linalg.vector_norm(space.basis, dim=-1, dtype=torch.float64).square().clamp_max(1)
    free = space.rank == seen[index].sum(dim=-1)
    found[index] = torch.where(free[:, None], found[index], lengths)
    return found
