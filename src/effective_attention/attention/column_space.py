"""The rank of V and an orthonormal basis of its column space, for many small matrices at once.

Values come as (problem, key, d_head), one problem per (batch, head).

A Gram matrix of the smaller side of ``V`` and its Cholesky factor do the work, not an SVD, but nothing is taken on trust:
``||V||_F ||R||_F``, with ``R`` the inverse of the factor, bounds the condition number from above, and where ``R`` is not needed a
factorisation of the shifted Gram matrix does. So full rank is *proved* head by head, and what cannot be proved so is decided by a
float64 SVD.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

# The Cholesky route loses about eps64 * condition^2 of orthogonality: 2e-6 at this bound, under which float32 is not hurt.
_PROVEN_CONDITION = 1e5
# A float32 product V L^-T errs by eps32 * condition. Measured at this bound on real values: 5e-7, and 2e-6 of the output.
_EASY_CONDITION = 200


def index_of(chosen: Tensor) -> Tensor | slice:
    """The same choice, without a copy where it is everything."""
    return slice(None) if bool(chosen.all()) else chosen


@torch.no_grad()
def has_full_row_rank(value: Tensor, seen: Tensor, rtol: float) -> Tensor:
    """True where that is proved: cheaply in float32 first, then in float64 what is left of the short examples.

    Args:
        value: (problem, key, d_head); what stands in rows that are not seen does not matter.
        seen: (problem, key), bool.
        rtol: Singular values up to ``rtol`` times the largest count as zero.
    """
    length, d_head = seen.sum(dim=-1), value.shape[-1]
    proved = torch.zeros_like(length, dtype=torch.bool)
    cheap = value.dtype != torch.float64 and _float32_is_exact()
    # A nearly square V is as a rule too badly conditioned for float32, so that trying would be a waste.
    for dtype, longest in ((torch.float32, d_head * 15 // 16), (torch.float64, d_head)):
        unsure = (length <= longest) & ~proved
        if (dtype == torch.float32 and not cheap) or not bool(unsure.any()):
            continue
        index = index_of(unsure)
        proved[index] = _shifted_gram_is_positive(value[index].to(dtype), seen[index], rtol)
    return proved


def _shifted_gram_is_positive(value: Tensor, seen: Tensor, rtol: float) -> Tensor:
    """True where V V^T - shift I has a Cholesky factor: then sigma_min^2 > shift - rounding > rtol^2 sigma_max^2."""
    keys, d_head = value.shape[1:]
    gram = value @ value.mT  # (problem, key, key)
    on_cpu = gram.device.type == "cpu"
    factor_dtype = torch.float64 if on_cpu else value.dtype  # what is factored in
    lost = (d_head + 2) * torch.finfo(value.dtype).eps / 2 + (keys + 6) * torch.finfo(factor_dtype).eps / 2  # product, factor
    shift = 4 * rtol**2 + lost  # relative to the trace, as is what rounding can take away
    if on_cpu:
        from effective_attention.compiled.cholesky import is_positive_definite  # numba takes a second to import

        return is_positive_definite(gram, seen, shift)
    return _is_positive_definite_by_torch(gram, seen, shift)


def _is_positive_definite_by_torch(gram: Tensor, seen: Tensor, shift: float) -> Tensor:
    """As ``compiled.cholesky.is_positive_definite``, for any device."""
    gram = torch.where(seen[:, :, None] & seen[:, None, :], gram, 0)
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    trace = diagonal.sum(dim=-1, keepdim=True)
    diagonal.add_(torch.where(seen, -shift * trace, trace.clamp_min(1)))  # unseen keys: a block of their own, far from singular
    return torch.linalg.cholesky_ex(gram)[1] == 0


def _float32_is_exact() -> bool:
    """False where the user traded the precision of float32 products for speed (TF32, bfloat16)."""
    return torch.get_float32_matmul_precision() == "highest"


@torch.no_grad()
def column_space(value: Tensor, rtol: float) -> tuple[Tensor, Tensor, Tensor]:
    """An orthonormal basis Q = V R (problem, key, d_head), R (problem, d_head, d_head), and the rank (problem,).

    Rows of ``value`` that are not seen must be 0. By Cholesky where that is proven good enough, else by SVD; columns beyond
    the rank are 0.
    """
    precise = value.double()
    if value.dtype == torch.float64:
        return _svd_column_space(precise, rtol)
    gram = precise.mT @ precise  # (problem, d_head, d_head)
    norm = gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1).sqrt()  # ||V||_F
    whitener = _inverse_factor(gram)
    bound = norm * torch.linalg.vector_norm(whitener, dim=(-2, -1))  # NaN where the factorisation broke down
    proven = (bound < _PROVEN_CONDITION) & (bound * rtol < 1)
    easy = (bound < _EASY_CONDITION) & (norm > 1e-30) & (norm < 1e30)  # nothing over- or underflows
    # All or none: picking problems out costs more than the float32 product saves.
    factor = value.float() if _float32_is_exact() and bool(easy.all()) else precise
    basis = (factor @ whitener.to(factor.dtype)).float()
    rank = torch.full_like(proven, value.shape[-1], dtype=torch.long)
    if not bool(proven.all()):
        spare, whitener[~proven], rank[~proven] = _svd_column_space(precise[~proven], rtol)
        basis[~proven] = spare.float()
    return basis, whitener, rank


def _inverse_factor(gram: Tensor) -> Tensor:
    """R with R^T gram R = I, upper triangular; NaN where gram is not positive definite. Overwrites gram."""
    if gram.device.type == "cpu":
        from effective_attention.compiled.cholesky import inverse_factor

        return inverse_factor(gram)
    return _inverse_factor_by_torch(gram)


def _inverse_factor_by_torch(gram: Tensor) -> Tensor:
    """As ``compiled.cholesky.inverse_factor``, for any device."""
    factor, info = torch.linalg.cholesky_ex(gram, upper=True)
    factor = torch.where((info == 0)[:, None, None], factor, torch.nan)
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve_triangular(factor, identity.expand_as(gram), upper=True)


def _svd_column_space(value: Tensor, rtol: float) -> tuple[Tensor, Tensor, Tensor]:
    if not bool(value.isfinite().all()):
        raise ValueError("value holds NaN or infinite numbers: the model's activations have overflowed")
    left, singular, right = torch.linalg.svd(value, full_matrices=False)  # (problem, key, min(key, d_head))
    keep = singular > rtol * singular[:, :1]
    missing = (0, value.shape[-1] - left.shape[-1])
    whitener = right.mT * torch.where(keep, 1 / singular, 0)[:, None, :]
    return pad(left * keep[:, None, :], missing), pad(whitener, missing), keep.sum(dim=-1)
