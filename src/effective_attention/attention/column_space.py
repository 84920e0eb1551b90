"""The rank of V and an orthonormal basis of its column space, for many small matrices at once.

Values come as (problem, key, d_head), one problem per (batch, head), with the keys that are seen; the others do not
count.

A Gram matrix of the smaller side of ``V`` and its Cholesky factor do the work, in float64, not an SVD, but nothing is
taken on
trust: ``||V||_F ||R||_F``, with ``R`` the inverse of the factor, bounds the condition number from above, and where
    ``R`` is not
needed a factorisation of the shifted Gram matrix does. So full rank is *proved* head by head, and what cannot be proved
so is decided by a float64 SVD.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

# The Cholesky route loses about eps64 * condition^2 of orthogonality: 2e-6 at this bound, under which float32 is not
# hurt.
_PROVEN_CONDITION = 1e5


def index_of(chosen: Tensor) -> Tensor | slice:
    """The same choice, without a copy where it is everything."""
    return slice(None) if bool(chosen.all()) else chosen


@torch.no_grad()
def has_full_row_rank(value: Tensor, seen: Tensor, rtol: float) -> Tensor:
    """True where that is proved.

    Args:
        value: (problem, key, d_head); what stands in rows that are not seen does not matter.
        seen: (problem, key), bool.
        rtol: Singular values up to ``rtol`` times the largest count as zero.
    """
    keys, d_head = value.shape[1:]
    # V V^T - shift I has a Cholesky factor: then sigma_min^2 > shift - rounding > rtol^2 sigma_max^2, all relative to
    # the trace.
    shift = 4 * rtol**2 + (keys + d_head + 8) * torch.finfo(torch.float64).eps / 2
    if value.device.type == "cpu":
        from effective_attention.kernels.cholesky import independent_rows  # numba takes a second to import

        return independent_rows(_readable(value), seen, shift)
    return _independent_rows_by_torch(value, seen, shift)


def _independent_rows_by_torch(value: Tensor, seen: Tensor, shift: float) -> Tensor:
    """As ``kernels.cholesky.independent_rows``, for any device."""
    precise = torch.where(seen[:, :, None], value, 0).double()
    gram = precise @ precise.mT  # (problem, key, key)
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    trace = diagonal.sum(dim=-1, keepdim=True)
    diagonal.add_(
        torch.where(seen, -shift * trace, trace.clamp_min(1))
    )  # unseen keys: a block of their own, far from singular
    return (torch.linalg.cholesky_ex(gram)[1] == 0) & (seen.sum(dim=-1) <= value.shape[-1])


@torch.no_grad()
def column_space(value: Tensor, seen: Tensor, rtol: float, *, whitener: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """An orthonormal basis Q = V R (problem, key, d_head), R (problem, d_head, d_head), and the rank (problem,).

    By Cholesky where that is proven good enough, else by SVD; columns beyond the rank are 0.

    Args:
        value: As in ``has_full_row_rank``.
        seen: Likewise.
        rtol: Likewise.
        whitener: Whether R is wanted; if not, it may come back empty.
    """
    if value.dtype == torch.float64:
        return _svd_column_space(torch.where(seen[:, :, None], value, 0), rtol)
    basis, inverse, bound = _orthonormal_columns(value, seen, whitener=whitener)
    proven = (bound < _PROVEN_CONDITION) & (bound * rtol < 1)
    rank = torch.full_like(proven, value.shape[-1], dtype=torch.long)
    if not bool(proven.all()):
        rest = ~proven
        spare, spare_inverse, rank[rest] = _svd_column_space(
            torch.where(seen[rest, :, None], value[rest], 0).double(), rtol
        )
        basis[rest] = spare.float()
        if whitener:
            inverse[rest] = spare_inverse
    return basis, inverse, rank


def _orthonormal_columns(value: Tensor, seen: Tensor, *, whitener: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Q, R and a bound of the condition number; NaN where V^T V is not positive definite."""
    if value.device.type == "cpu":
        from effective_attention.kernels.cholesky import orthonormal_columns

        return orthonormal_columns(_readable(value), seen, whitener=whitener)
    return _orthonormal_columns_by_torch(value, seen)


def _orthonormal_columns_by_torch(value: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As ``kernels.cholesky.orthonormal_columns``, for any device; R is always there."""
    precise = torch.where(seen[:, :, None], value, 0).double()
    factor, info = torch.linalg.cholesky_ex(precise.mT @ precise, upper=True)
    factor = torch.where((info == 0)[:, None, None], factor, torch.nan)
    identity = torch.eye(value.shape[-1], dtype=factor.dtype, device=factor.device)
    inverse = torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=True)
    norm, inverse_norm = (torch.linalg.vector_norm(matrix, dim=(-2, -1)) for matrix in (precise, inverse))
    return (precise @ inverse).float(), inverse, norm * inverse_norm


def _readable(value: Tensor) -> Tensor:
    """As compiled loops can read it: float32 or float64."""
    return value.detach().to(torch.promote_types(value.dtype, torch.float32))


def _svd_column_space(value: Tensor, rtol: float) -> tuple[Tensor, Tensor, Tensor]:
    if not bool(value.isfinite().all()):
        raise ValueError("value holds NaN or infinite numbers: the model's activations have overflowed")
    left, singular, right = torch.linalg.svd(value, full_matrices=False)  # (problem, key, min(key, d_head))
    keep = singular > rtol * singular[:, :1]
    missing = (0, value.shape[-1] - left.shape[-1])
    whitener = right.mT * torch.where(keep, 1 / singular, 0)[:, None, :]
    return pad(left * keep[:, None, :], missing), pad(whitener, missing), keep.sum(dim=-1)
