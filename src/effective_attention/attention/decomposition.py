"""What part of an attention matrix can reach the output at all?

One head maps values ``V`` (key x d_head) to ``Z = A V``. Every component of a row of ``A`` that lies in the left null space
``LN(V) = {x : x V = 0}`` vanishes in that product. Brunner et al. (2020) therefore split

    A = A_effective + A_null,    A_null = projection of each row of A onto LN(V),    A V = A_effective V    (their Eq. 7)

and Sun & Marasovic (2021) analyse ``A_effective``. This module is that split, as tensor maths; it knows nothing of
transformers.

Notation: batch, head, query, key, d_head (width of a head's values); ``Q`` is an orthonormal basis of the column space of ``V``,
so that ``A_effective = (A Q) Q^T``. The naive equivalent is ``A @ V @ pinv(V)``.

**Two readings.** ``exact`` (default) removes hidden keys *before* the split: it is a property of the example alone, and
``A_effective V = A V`` holds to float precision. ``padded`` is the published protocol: the null space is computed with the
padding rows of ``V`` inside and the padding columns are zeroed afterwards, which changes the output; ``output_change`` says by
how much.

**Rank.** A singular value counts when it exceeds ``rtol`` times the largest one of the same example and head. The default is
``8 eps`` of the input type, and of float32 for half precision: rounding leaves a truly deficient float32 ``V`` with ratios near
1e-7, while real models reach 5e-6 without being deficient, so the line is drawn between.

**How it is computed.** Nothing is taken on trust: full rank is *proved* head by head, and what cannot be proved is decided by a
float64 SVD. Up to d_head keys: a shifted Cholesky factorisation of ``V V^T`` (float32 first, float64 where that is too coarse)
proves full row rank; then LN(V) = {0} and ``A_effective`` is ``A``. Else: ``V^T V = L L^T`` in float64, ``Q = V L^-T``, and
``||V||_F ||L^-1||_F`` bounds the condition number from above; the better it is, the less precise the product need be.

**Gradients** are those of the projection at fixed rank, whichever way it was computed.

**Query-dependent masks** (causal attention): each query's row is split over the keys that this query sees, so effective attention
never reaches into the future. ``rank`` is then that of all keys seen by any query.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

Reading = Literal["exact", "padded"]

# The Cholesky route loses about eps64 * condition^2 of orthogonality: 2e-6 at this bound, under which float32 is not hurt.
_PROVEN_CONDITION = 1e5
# A float32 product V L^-T errs by eps32 * condition. Measured at this bound on real values: 5e-7, and 2e-6 of the output.
_EASY_CONDITION = 200
_LAPACK_SIZE = 16  # up to here LAPACK beats products


@dataclass(frozen=True)
class Decomposition:
    """``attention = effective + null`` for every head.

    Attributes:
        attention: What was split, (batch, head, query, key); hidden keys are exactly 0.
        value: The values it was split by, (batch, head, key, d_head).
        effective: The part that reaches the output. May be negative, need not sum to 1.
        rank: Rank of each head's visible values, (batch, head); the null space has ``visible keys - rank`` dimensions.
    """

    attention: Float[Tensor, "batch head query key"]
    value: Float[Tensor, "batch head key d_head"]
    effective: Float[Tensor, "batch head query key"]
    rank: Int[Tensor, "batch head"]

    @cached_property
    def null(self) -> Float[Tensor, "batch head query key"]:
        """The part that cannot reach the output: ``null @ value`` is 0 in the exact reading."""
        return self.attention - self.effective

    def output_change(self, queries: Bool[Tensor, "batch query"] | None = None) -> Float[Tensor, "batch head"]:
        """``||A_effective V - A V|| / ||A V||`` per head, over the chosen queries (all by default).

        Rounding only in the exact reading; not so in the padded one, whose point it is to show.
        """
        value = self.value.to(torch.promote_types(self.value.dtype, torch.float32))
        before = self.attention.to(value.dtype) @ value  # (batch, head, query, d_head)
        change = self.effective.to(value.dtype) @ value - before
        if queries is not None:
            before, change = (z * queries[:, None, :, None] for z in (before, change))
        norm = torch.linalg.vector_norm(before, dim=(-2, -1))
        return torch.linalg.vector_norm(change, dim=(-2, -1)) / norm.clamp_min(torch.finfo(norm.dtype).tiny)


def decompose(
    attention: Float[Tensor, "batch head query key"],
    value: Float[Tensor, "batch head key d_head"],
    mask: Tensor | None = None,
    *,
    reading: Reading = "exact",
    rtol: float | None = None,
) -> Decomposition:
    """Split attention into its effective and its null part.

    Args:
        attention: Attention weights of any floating type. Query and key lengths may differ (cross-attention).
        value: The values the weights are applied to, one set per head.
        mask: What may be seen: bool, or numbers 0 and 1. (batch, key) for padding; (query, key) or (batch, 1 or head, 1 or query,
            key) in general, for example causal. None: every key is seen.
        reading: ``exact`` or ``padded``, see the module's docstring. ``padded`` wants keys already padded to the maximum length.
        rtol: Singular values up to ``rtol`` times the largest count as zero.

    Returns:
        The parts, of the shape and type of ``attention``.

    Example:
        >>> import torch
        >>> attention, value = torch.full((1, 1, 3, 3), 1 / 3), torch.ones(1, 1, 3, 1)
        >>> parts = decompose(attention, value)
        >>> parts.rank.item(), parts.effective.shape == attention.shape
        (1, True)
    """
    visible = _check(attention, value, mask, reading)
    tolerance = _default_rtol(value.dtype) if rtol is None else rtol
    if visible is not None and visible.all():
        visible = None
    if reading == "padded":
        effective, rank = _by_key_mask(attention, value, None, tolerance)
        effective = effective if visible is None else effective * visible
        return Decomposition(attention, value, effective, rank)
    if visible is None:
        return Decomposition(attention, value, *_by_key_mask(attention, value, None, tolerance))
    attention = attention * visible  # several times faster than masked_fill
    split = _by_key_mask if visible.shape[-2] == 1 else _by_query_mask
    return Decomposition(attention, value, *split(attention, value, visible, tolerance))


def _default_rtol(dtype: torch.dtype) -> float:
    return 8 * torch.finfo(torch.promote_types(dtype, torch.float32)).eps


# --- which keys are seen ---


def _check(attention: Tensor, value: Tensor, mask: Tensor | None, reading: str) -> Tensor | None:
    if attention.ndim != 4 or value.ndim != 4:
        raise ValueError(
            f"attention and value must have 4 axes (batch, head, query, key) and (batch, head, key, d_head), "
            f"got {tuple(attention.shape)} and {tuple(value.shape)}"
        )
    if attention.shape[:2] != value.shape[:2] or attention.shape[3] != value.shape[2]:
        raise ValueError(
            f"attention {tuple(attention.shape)} and value {tuple(value.shape)} disagree in batch, head or key; under "
            f"grouped-query attention repeat the values for every query head first"
        )
    if not (attention.is_floating_point() and value.is_floating_point()):
        raise TypeError(f"attention and value must be floating point, got {attention.dtype} and {value.dtype}")
    if reading not in get_args(Reading):
        raise ValueError(f"reading must be one of {get_args(Reading)}, got {reading!r}")
    return None if mask is None else _visible(mask, attention)


def _visible(mask: Tensor, attention: Tensor) -> Bool[Tensor, "batch heads queries key"]:
    """The mask as bool (batch, 1 or head, 1 or query, key), with a query axis only where queries differ."""
    batch, head, query, key = attention.shape
    if mask.is_floating_point() and not ((mask == 0) | (mask == 1)).all():
        raise ValueError("mask must be bool or hold 0 and 1 only; turn an additive mask into one with `mask == 0`")
    visible = mask.to(device=attention.device, dtype=torch.bool)
    if visible.shape == (batch, key):
        visible = visible[:, None, None, :]
    elif visible.shape == (query, key):
        visible = visible[None, None]
    if (
        visible.ndim != 4
        or any(got not in (1, want) for got, want in zip(visible.shape[:3], (batch, head, query), strict=True))
        or visible.shape[3] != key
    ):
        raise ValueError(
            f"mask must have shape (batch, key) = {(batch, key)}, (query, key), or broadcast to "
            f"{tuple(attention.shape)}, got {tuple(mask.shape)}"
        )
    first = visible[:, :, :1]
    return first if bool((visible == first).all()) else visible


# --- the split ---


def _by_query_mask(attention: Tensor, value: Tensor, visible: Tensor, rtol: float) -> tuple[Tensor, Tensor]:
    """Each query's row over its own keys. If all keys together have full row rank, so has every subset of them."""
    seen = visible.any(dim=-2, keepdim=True)  # (batch, 1 or head, 1, key)
    _, rank = _by_key_mask(attention[:, :, :1], value, seen, rtol)
    if bool((rank == seen.sum(dim=-1)[..., 0]).all()):
        return attention, rank
    rows = [_by_key_mask(attention[:, :, q : q + 1], value, visible[:, :, q : q + 1], rtol)[0] for q in range(attention.shape[2])]
    return torch.cat(rows, dim=2), rank


def _by_key_mask(attention: Tensor, value: Tensor, visible: Tensor | None, rtol: float) -> tuple[Tensor, Tensor]:
    """One set of visible keys, (batch, 1 or head, 1, key), for all queries of a head."""
    batch, head, _, key = attention.shape
    if visible is None:
        visible = torch.ones(batch, 1, 1, key, dtype=torch.bool, device=value.device)
    else:
        value = torch.where(visible.mT, value, 0)  # (batch, head, key, d_head)
    seen = visible.expand(batch, head, 1, key).reshape(batch * head, key)
    flat, value = attention.flatten(0, 1), value.flatten(0, 1)  # (problem = batch * head, query or key, ...)
    length = seen.sum(dim=-1)
    rank, needs = length.clone(), ~_has_full_row_rank(value, seen, rtol)
    if not bool(needs.any()):
        return attention, rank.view(batch, head)
    index = _index(needs)
    basis, whitener, rank[index] = _column_space(value[index], rtol)
    effective = _project(flat[index], value[index], basis, whitener)
    if isinstance(index, Tensor):
        effective = flat.index_put((index,), effective)
    full = needs & (rank == length)  # not proved, but found by SVD: then not even rounding may change A
    if bool(full.any()):
        effective = torch.where(full[:, None, None], flat, effective)
    return effective.view_as(attention), rank.view(batch, head)


def _index(chosen: Tensor) -> Tensor | slice:
    """The same choice, without a copy where it is everything."""
    return slice(None) if bool(chosen.all()) else chosen


def _project(attention: Tensor, value: Tensor, basis: Tensor, whitener: Tensor) -> Tensor:
    """(A Q) Q^T in at least float32: Q is orthonormal, so nothing is amplified, however ill-conditioned V is."""
    dtype, wide = attention.dtype, torch.promote_types(attention.dtype, basis.dtype)
    attention, basis = attention.to(wide), basis.to(wide)
    reached = attention @ basis  # (problem, query, d_head)
    if torch.is_grad_enabled() and value.requires_grad:
        # Q was computed without a graph. Q + dV R, with (Q^T Q)^-1 to first order, has the derivative of the projection.
        basis = basis + ((value - value.detach()).double() @ whitener).to(wide)
        identity = torch.eye(basis.shape[-1], dtype=wide, device=basis.device)
        reached = attention @ basis @ (2 * identity - basis.mT @ basis)
    return (reached @ basis.mT).to(dtype)


# --- the column space of V, one problem per (batch, head); unseen rows are 0 ---


@torch.no_grad()
def _has_full_row_rank(value: Tensor, seen: Tensor, rtol: float) -> Tensor:
    """True where that is proved: cheaply in float32 first, then in float64 what is left of the short examples."""
    length, d_head = seen.sum(dim=-1), value.shape[-1]
    proved = torch.zeros_like(length, dtype=torch.bool)
    cheap = value.dtype != torch.float64 and _float32_is_exact()
    # A nearly square V is as a rule too badly conditioned for float32, so that trying would be a waste.
    for dtype, longest in ((torch.float32, d_head * 15 // 16), (torch.float64, d_head)):
        unsure = (length <= longest) & ~proved
        if (dtype == torch.float32 and not cheap) or not bool(unsure.any()):
            continue
        index = _index(unsure)
        proved[index] = _shifted_gram_is_positive(value[index].to(dtype), seen[index], rtol)
    return proved


def _shifted_gram_is_positive(value: Tensor, seen: Tensor, rtol: float) -> Tensor:
    """True where V V^T - shift I has a Cholesky factor: then sigma_min^2 > shift - rounding > rtol^2 sigma_max^2."""
    length = int((seen.any(dim=0) * torch.arange(1, seen.shape[1] + 1, device=seen.device)).max()) if seen.numel() else 0
    value, seen = value[:, :length], seen[:, :length]  # padding on the right costs nothing
    kind = torch.finfo(value.dtype)
    rounding = (value.shape[1] + value.shape[2] + 4) * kind.eps / 2  # most that product and factor can lose, over the trace
    gram = value @ value.mT  # (problem, key, key)
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    trace = diagonal.sum(dim=-1, keepdim=True)
    shift = -(4 * rtol**2 + rounding) * trace - kind.tiny
    diagonal.add_(torch.where(seen, shift, trace.clamp_min(1)))  # unseen keys: a block of their own, far from singular
    return torch.linalg.cholesky_ex(gram)[1] == 0


def _float32_is_exact() -> bool:
    """False where the user traded the precision of float32 products for speed (TF32, bfloat16)."""
    return torch.get_float32_matmul_precision() == "highest"


@torch.no_grad()
def _column_space(value: Tensor, rtol: float) -> tuple[Tensor, Tensor, Tensor]:
    """An orthonormal basis Q = V R (problem, key, d_head), R (problem, d_head, d_head), and the rank (problem,).

    By Cholesky where that is proven good enough, else by SVD. Columns beyond the rank are 0.
    """
    precise = value.double()
    if value.dtype == torch.float64:
        return _svd_column_space(precise, rtol)
    gram = precise.mT @ precise  # (problem, d_head, d_head)
    inverse = _inverse_factor(gram)
    norm = gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1).sqrt()  # ||V||_F
    bound = norm * torch.linalg.vector_norm(inverse, dim=(-2, -1))  # NaN where the factorisation broke down
    proven = (bound < _PROVEN_CONDITION) & (bound * rtol < 1)
    easy = (bound < _EASY_CONDITION) & (norm > 1e-30) & (norm < 1e30) & _float32_is_exact()  # nothing over- or underflows
    whitener, basis = inverse.mT, torch.empty_like(value, dtype=torch.float32)
    for chosen, factor in ((easy, value.float()), (~easy, precise)):
        if bool(chosen.any()):
            index = _index(chosen)
            basis[index] = (factor[index] @ whitener[index].to(factor.dtype)).float()
    rank = torch.full_like(proven, value.shape[-1], dtype=torch.long)
    if not bool(proven.all()):
        spare, whitener[~proven], rank[~proven] = _svd_column_space(precise[~proven], rtol)
        basis[~proven] = spare.float()
    return basis, whitener, rank


def _inverse_factor(gram: Tensor) -> Tensor:
    """L^-1 of gram = L L^T; NaN where gram is not positive definite.

    By halves, because products of a whole batch are much faster than LAPACK, which takes matrix by matrix.
    """
    size = gram.shape[-1]
    if size <= _LAPACK_SIZE:
        factor, info = torch.linalg.cholesky_ex(gram)
        factor[info != 0] = torch.nan
        return torch.linalg.solve_triangular(factor, torch.eye(size, dtype=gram.dtype, device=gram.device), upper=False)
    half = size // 2
    top = _inverse_factor(gram[:, :half, :half])
    side = gram[:, half:, :half] @ top.mT  # the lower left block of L
    bottom = _inverse_factor(torch.baddbmm(gram[:, half:, half:], side, side.mT, alpha=-1))
    inverse = torch.zeros_like(gram)
    inverse[:, :half, :half], inverse[:, half:, half:] = top, bottom
    inverse[:, half:, :half].baddbmm_(bottom, side @ top, alpha=-1)
    return inverse


def _svd_column_space(value: Tensor, rtol: float) -> tuple[Tensor, Tensor, Tensor]:
    if not bool(value.isfinite().all()):
        raise ValueError("value holds NaN or infinite numbers: the model's activations have overflowed")
    left, singular, right = torch.linalg.svd(value, full_matrices=False)  # (problem, key, min(key, d_head))
    keep = singular > rtol * singular[:, :1]
    missing = (0, value.shape[-1] - left.shape[-1])
    whitener = right.mT * torch.where(keep, 1 / singular, 0)[:, None, :]
    return pad(left * keep[:, None, :], missing), pad(whitener, missing), keep.sum(dim=-1)
