"""The smallest attention whose output is nearly that of the model: effective attention with a tolerance.

For each row ``a`` with the output ``o = a V``, the x of

    min ||x||   subject to   ||x V - o|| <= epsilon ||o||

is ``x = o (V^T V + lambda I)^-1 V^T``, with the lambda at which the constraint just holds; ``epsilon = 0`` gives
``lambda = 0``, the exact effective attention. In affine space x must also sum to what ``a`` does. Then ``x = sum / n +
y``, and y is the answer to the same question for values whose mean over the keys is taken away, as such a y sums to 0
by itself.

With ``V = U S W^T`` and ``p = a U`` (one singular value decomposition for all rows that see the same keys) the answer
is ``x_k = p_k m s_k^2 / (1 + m s_k^2)`` along the k-th column of U, and what is left of the output ``p_k s_k / (1 + m
s_k^2)``, with ``m = 1 / lambda``. Its length N(m) has to be T: the *secular equation* of trust-region methods (More &
Sorensen 1983). ``1 / N`` is concave and grows, so Newton's method for ``1 / N(m) = 1 / T`` climbs to the root from
``m = 0`` without ever passing it.

The naive equivalent is a convex solver for each row. Everything is in float64, without a graph.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.attention.projection import by_key_mask
from effective_attention.attention.readings import with_ones
from effective_attention.kernels.lapack import on_one_thread

_MOST = 2**24  # numbers of values that are decomposed at once
_STEPS = 500  # of Newton's method; some dozens are needed
_SLACK = 1e-9  # of epsilon, by which we stay on the side where the promise holds


@torch.no_grad()
def smallest_rows(
    attention: Float[Tensor, "batch head query key"],
    value: Float[Tensor, "batch shared key d_head"],
    visible: Bool[Tensor, "batch heads queries key"] | None,
    epsilon: float,
    rtol: float,
    *,
    keep_sum: bool,
) -> tuple[Tensor, Tensor]:
    """Return the smallest rows within the tolerance, of attention's shape and type, and the rank (batch, head).

    Args:
        attention: 0 where hidden.
        value: One set for each group of heads; one a head where ``visible`` differs by head.
        visible: What each query sees, or what all do (``queries`` is 1); None: everything.
        epsilon: How much of each row's output may change, as a share of it.
        rtol: Singular values up to ``rtol`` times the largest count as zero.
        keep_sum: Whether rows keep their sum, as in affine space.
    """
    if visible is None:
        visible = torch.ones_like(attention[:, :1, :1], dtype=torch.bool)
    batch, shared = value.shape[:2]
    queries = visible.shape[2]  # 1, or each query is a problem of its own, with a row for every head of the group
    grouped = torch.unflatten(attention.double(), 1, (shared, -1))  # (batch, shared, group, query, key)
    ordered = grouped.transpose(2, 3) if queries > 1 else grouped
    rows = ordered.reshape(batch * shared * queries, -1, attention.shape[-1])  # (problem, row, key)
    seen = visible.expand(-1, shared, -1, -1).flatten(0, 2)  # (problem, key)
    values = value.double().flatten(0, 1)  # (batch * shared, key, d_head)
    found = torch.empty_like(rows)
    for part in torch.split(torch.arange(len(rows), device=value.device), max(1, _MOST // max(1, values[0].numel()))):
        found[part] = _smallest(rows[part], values[part // queries], seen[part], epsilon, rtol, keep_sum=keep_sum)
    found = found.view(ordered.shape)
    found = found.transpose(2, 3) if queries > 1 else found
    some = visible.any(dim=-2)
    _, rank = by_key_mask(attention[:, :, :1], with_ones(value, some) if keep_sum else value, some, rtol)
    return found.flatten(1, 2).to(attention.dtype), rank


def _smallest(
    rows: Float[Tensor, "problem row key"],
    value: Float[Tensor, "problem key d_head"],
    seen: Bool[Tensor, "problem key"],
    epsilon: float,
    rtol: float,
    *,
    keep_sum: bool,
) -> Float[Tensor, "problem row key"]:
    """Solve many problems, each with one set of keys."""
    keys = seen[..., None]
    value = torch.where(keys, value, 0)
    allowed = epsilon * (1 - _SLACK) * torch.linalg.vector_norm(rows @ value, dim=-1)  # (problem, row)
    even = torch.zeros_like(rows)
    if keep_sum:
        count = keys.sum(dim=1, keepdim=True)
        value = torch.where(keys, value - value.sum(dim=1, keepdim=True) / count, 0)
        even = rows.sum(dim=-1, keepdim=True) / count * seen[:, None]
    with on_one_thread():
        left, singular, _ = torch.linalg.svd(value, full_matrices=False)
    size = singular[:, None]  # (problem, 1, direction)
    largest = size[..., :1].clamp_min(torch.finfo(torch.float64).tiny)
    places = torch.where(size > rtol * largest, rows @ left, 0)  # of each row along each column of U
    kept = _kept(places * size, (size / largest).square(), allowed)
    some = value.any(dim=-1)[:, None]  # rounding must not give weight to rows that are 0, as hidden ones are
    return even + ((places * kept) @ left.mT) * some


def _kept(
    outputs: Float[Tensor, "problem row direction"],
    strengths: Float[Tensor, "problem 1 direction"],
    allowed: Float[Tensor, "problem row"],
) -> Float[Tensor, "problem row direction"]:
    """Return how much of each direction a row keeps, from 0 to 1: as little as leaves ``allowed`` of the output.

    Args:
        outputs: What each direction brings to the output.
        strengths: Squares of the singular values, relative to the largest.
        allowed: How long what is left out may be.
    """
    multiplier = torch.zeros_like(allowed)
    target = allowed.clamp_min(torch.finfo(torch.float64).tiny)
    for _ in range(_STEPS):
        grown = 1 + multiplier[..., None] * strengths
        left_out = torch.linalg.vector_norm(outputs / grown, dim=-1)
        open_ = left_out > target * (1 + _SLACK / 2)
        if not bool(open_.any()):
            break
        slope = ((outputs / grown).square() * strengths / grown).sum(dim=-1) / left_out**3  # of 1 / N
        step = (1 / target - 1 / left_out) / slope
        multiplier = torch.where(open_, multiplier + step, multiplier)
    else:
        raise ArithmeticError(f"the smallest attention within the tolerance was not found in {_STEPS} steps")
    return 1 - 1 / (1 + multiplier[..., None] * strengths)
