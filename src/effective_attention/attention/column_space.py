"""The rank of V and an orthonormal basis of its column space, for many small matrices at once.

Values come as (problem, key, d_head), one problem per (batch, head), with the keys that are seen; the others do not
count.

A Gram matrix of the smaller side of ``V`` and its Cholesky factor do the work, in float64, not an SVD, but nothing is
taken on trust: ``||V||_F ||R||_F``, with ``R`` the inverse of the factor, bounds the condition number from above, and
where ``R`` is not needed a factorisation of the shifted Gram matrix does. So full rank is *proved* head by head, and
what cannot be proved so is decided by a float64 SVD. The factorisations are those of ``kernels.choice``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from effective_attention.finite import NotFiniteError, all_finite
from effective_attention.kernels import choice
from effective_attention.kernels.lapack import on_one_thread

# The Cholesky route loses about eps64 * condition^2 of orthogonality: 2e-6 at this bound, which does not hurt float32.
_PROVEN_CONDITION = 1e5


class ColumnSpace(NamedTuple):
    """The column space of V, for each problem.

    Attributes:
        basis: Q = V R, orthonormal, (problem, key, d_head); columns beyond the rank are 0, and so are keys not seen.
        whitener: R, (problem, d_head, d_head); may be empty where it was not asked for.
        products: Q^T V, (problem, d_head, d_head); likewise.
        rank: Of V, (problem,).
    """

    basis: Tensor
    whitener: Tensor
    products: Tensor
    rank: Tensor


def index_of(chosen: Tensor) -> Tensor | slice:
    """Return an index for what is chosen: a slice, which copies nothing, where that is everything."""
    return slice(None) if bool(chosen.all()) else chosen


@torch.no_grad()
def has_full_row_rank(value: Tensor, seen: Tensor, rtol: float) -> Tensor:
    """Return True where the rows that are seen are proved to be independent, (problem,).

    Args:
        value: (problem, key, d_head); what stands in rows that are not seen does not matter.
        seen: (problem, key), bool.
        rtol: Singular values up to ``rtol`` times the largest count as zero.
    """
    keys, d_head = value.shape[1:]
    # If V V^T - shift I has a Cholesky factor, then sigma_min^2 > shift - rounding > rtol^2 sigma_max^2, all relative
    # to the trace.
    shift = 4 * rtol**2 + (keys + d_head + 8) * torch.finfo(torch.float64).eps / 2
    return choice.independent_rows(value, seen, shift)


@torch.no_grad()
def column_space(
    value: Tensor, seen: Tensor, rtol: float, *, whitener: bool = False, products: bool = False
) -> ColumnSpace:
    """Return an orthonormal basis of the column space, and the rank.

    By Cholesky where that is proven good enough, else by SVD.

    Args:
        value: As in ``has_full_row_rank``.
        seen: Likewise.
        rtol: Likewise.
        whitener: Whether R is wanted.
        products: Whether Q^T V is.
    """
    if value.dtype == torch.float64:
        return _svd_column_space(torch.where(seen[:, :, None], value, 0), rtol)
    basis, inverse, back, bound = choice.orthonormal_columns(value, seen, whitener=whitener, products=products)
    proven = (bound < _PROVEN_CONDITION) & (bound * rtol < 1)
    rank = torch.full_like(proven, value.shape[-1], dtype=torch.long)
    if not bool(proven.all()):
        rest = ~proven
        spare = _svd_column_space(torch.where(seen[rest, :, None], value[rest], 0).double(), rtol)
        basis[rest], rank[rest] = spare.basis.float(), spare.rank
        if whitener:
            inverse[rest] = spare.whitener
        if products:
            back[rest] = spare.products.float()
    return ColumnSpace(basis, inverse, back, rank)


def _svd_column_space(value: Tensor, rtol: float) -> ColumnSpace:
    """Return what ``column_space`` does, by singular values; rows that are not seen come as 0."""
    if not all_finite(value):
        raise NotFiniteError("value holds NaN or infinite numbers: the model's activations have overflowed")
    with on_one_thread():
        left, singular, right = torch.linalg.svd(value, full_matrices=False)  # (problem, key, min(key, d_head))
    keep = singular > rtol * singular[:, :1]
    missing = (0, value.shape[-1] - left.shape[-1])
    whitener = right.mT * torch.where(keep, 1 / singular, 0)[:, None, :]
    some = value.any(dim=-1, keepdim=True)  # rounding must not give weight to rows that are 0, as hidden ones are
    basis = pad(left * keep[:, None, :] * some, missing)
    return ColumnSpace(basis, pad(whitener, missing), basis.mT @ value, keep.sum(dim=-1))
