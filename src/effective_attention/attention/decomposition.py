"""What part of an attention matrix can reach the output at all?

One head maps values ``V`` (key x d_head) to ``Z = A V``. Every component of a row of ``A`` that lies in the left null
space ``LN(V) = {x : x V = 0}`` vanishes in that product. Brunner et al. (2020) therefore split

    A = A_effective + A_null,   A_null = projection of each row of A onto LN(V),   A V = A_effective V   (their Eq. 8)

and Sun & Marasovic (2021) analyse ``A_effective``. This module is that split, as tensor maths; it knows nothing of
transformers.

Notation: batch, head, query, key, d_head (width of a head's values); ``Q`` is an orthonormal basis of the column space
of ``V``, so that ``A_effective = (A Q) Q^T``. The naive equivalent is ``A @ V @ pinv(V)``.

**Two readings.** ``exact`` (default) removes hidden keys *before* the split: it is a property of the example alone, and
``A_effective V = A V`` holds to float precision. ``padded`` is the published protocol: the null space is computed with
the padding rows of ``V`` inside and the padding columns are zeroed afterwards, which changes the output;
``output_change`` says by how much.

**Rank.** A singular value counts when it exceeds ``rtol`` times the largest one of the same example and head. The
default is ``8 eps`` of the input type, and of float32 for half precision: rounding leaves a truly deficient float32
``V`` with ratios near 1e-7, while real models reach 5e-6 without being deficient, so the line is drawn between.

**Spaces.** ``value`` is the papers' projection on the column space of V; ``affine`` projects on that of ``[V, 1]``, and
so keeps what each row sums to as well. ``epsilon`` allows the output to change by that share of it, and gives the
smallest rows that do. See ``readings``.

**Query-dependent masks** (causal attention): each query's row is split over the keys that this query sees, so effective
attention never reaches into the future. ``rank`` is then that of all keys seen by any query.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.attention.inputs import as_visible, check_shapes, only_seen
from effective_attention.attention.precision import without_autocast
from effective_attention.attention.projection import by_key_mask, by_query_mask
from effective_attention.attention.readings import EXACT, Protocol, Reading, Space, with_ones
from effective_attention.attention.smallest_rows import smallest_rows


@dataclass(frozen=True)
class Decomposition:
    """``attention = effective + null`` for every head.

    Attributes:
        attention: What was split, (batch, head, query, key); hidden keys are exactly 0.
        value: The values it was split by, (batch, head, key, d_head), repeated under grouped queries.
        effective: The part that reaches the output. May be negative, need not sum to 1.
        rank: Rank of each head's visible values, (batch, head), of ``[V, 1]`` in affine space; the null space has
            ``visible keys - rank`` dimensions.
    """

    attention: Float[Tensor, "batch head query key"]
    value: Float[Tensor, "batch head key d_head"]
    effective: Float[Tensor, "batch head query key"]
    rank: Int[Tensor, "batch head"]

    @cached_property
    def null(self) -> Float[Tensor, "batch head query key"]:
        """Return the part that cannot reach the output; ``null @ value`` is 0 in the exact reading."""
        return self.attention - self.effective

    def example(self, row: int, queries: Int[Tensor, " some_query"], keys: Int[Tensor, " some_key"]) -> Decomposition:
        """Cut out one example of a batch, with some of its queries and keys."""
        own = slice(row, row + 1)
        return Decomposition(
            self.attention[own][:, :, queries][..., keys],
            self.value[own][:, :, keys],
            self.effective[own][:, :, queries][..., keys],
            self.rank[own],
        )

    def output_change(self, queries: Bool[Tensor, "batch query"] | None = None) -> Float[Tensor, "batch head"]:
        """Return ``||A_effective V - A V|| / ||A V||`` per head, over the chosen queries (all by default).

        Rounding only in the exact reading; not so in the padded one, whose point it is to show.
        """
        value = self.value.to(torch.promote_types(self.value.dtype, torch.float32))
        with without_autocast(value.device):
            before = self.attention.to(value.dtype) @ value  # (batch, head, query, d_head)
            change = self.effective.to(value.dtype) @ value - before
        if queries is not None:
            before, change = (z * queries[:, None, :, None] for z in (before, change))
        norm = torch.linalg.vector_norm(before, dim=(-2, -1))
        return torch.linalg.vector_norm(change, dim=(-2, -1)) / norm.clamp_min(torch.finfo(norm.dtype).tiny)


def decompose(
    attention: Float[Tensor, "batch head query key"],
    value: Float[Tensor, "batch shared key d_head"],
    mask: Tensor | None = None,
    *,
    reading: Protocol = "exact",
    space: Space = "value",
    epsilon: float = 0.0,
    rtol: float | None = None,
) -> Decomposition:
    """Split attention into its effective and its null part.

    Args:
        attention: Attention weights of any floating type. Query and key lengths may differ (cross-attention).
        value: The values the weights are applied to; under grouped queries one set for each group of heads.
        mask: What may be seen: bool, or numbers 0 and 1. (batch, key) for padding; (query, key) or (batch, 1 or head, 1
            or query, key) in general, for example causal. None: every key is seen.
        reading: ``exact`` or ``padded``, see the module's docstring. ``padded`` wants keys already padded to the
            maximum length.
        space: ``value``, or ``affine``: rows then keep their sum too.
        epsilon: How much of each row's output may change, as a share of it, for smaller weights; 0: nothing.
        rtol: Singular values up to ``rtol`` times the largest count as zero; between 0 and 1.

    Returns:
        The parts, of the shape and type of ``attention``. ``torch.autocast`` does not change them.

    Raises:
        ValueError: Shapes or options do not fit; ``NotFiniteError`` where a number is NaN or infinite. In the exact
            reading it does not matter what stands under the mask.

    Example:
        >>> import torch
        >>> attention, value = torch.full((1, 1, 3, 3), 1 / 3), torch.ones(1, 1, 3, 1)
        >>> parts = decompose(attention, value)
        >>> parts.rank.item(), parts.effective.shape == attention.shape
        (1, True)
    """
    check_shapes(attention, value)
    chosen = Reading(reading, space, epsilon)
    _check_rtol(rtol)
    visible = None if mask is None else as_visible(mask.to(attention.device), attention.shape)
    seen = None if chosen.pads else visible  # the padded reading looks under the mask too
    attention = only_seen(attention, seen, "attention")
    reached = None if seen is None else _seen_by_group(seen, value.shape[1])[..., None]
    value = only_seen(value, reached, "value")
    if seen is not None:
        attention = attention * seen  # several times faster than masked_fill
    return split(attention, value, visible, reading=chosen, rtol=rtol)


def split(
    attention: Float[Tensor, "batch head query key"],
    value: Float[Tensor, "batch shared key d_head"],
    visible: Bool[Tensor, "batch heads queries key"] | None,
    *,
    reading: Reading = EXACT,
    rtol: float | None = None,
) -> Decomposition:
    """Split as ``decompose`` does, without its checks.

    Attention must be 0 already where it is hidden, and the mask one from ``as_visible``.
    """
    parts = effective_part(attention, value, visible, reading=reading, rtol=rtol)
    return Decomposition(attention, for_each_head(value, attention.shape[1]), *parts)


def effective_part(
    attention: Float[Tensor, "batch head query key"],
    value: Float[Tensor, "batch shared key d_head"],
    visible: Bool[Tensor, "batch heads queries key"] | None,
    *,
    reading: Reading = EXACT,
    rtol: float | None = None,
    overwrite: bool = False,
) -> tuple[Float[Tensor, "batch head query key"], Int[Tensor, "batch head"]]:
    """Return ``effective`` and ``rank`` of ``split``.

    ``overwrite`` allows to write over ``attention``: less memory, less time.
    """
    tolerance = default_rtol(value.dtype) if rtol is None else rtol
    with without_autocast(value.device):
        return _effective_part(attention, value, visible, reading, tolerance, overwrite=overwrite)


def _effective_part(
    attention: Tensor, value: Tensor, visible: Tensor | None, reading: Reading, tolerance: float, *, overwrite: bool
) -> tuple[Tensor, Tensor]:
    batch, head, _, key = attention.shape
    if attention.numel() == 0:
        return attention, torch.zeros(batch, head, dtype=torch.long, device=value.device)
    if visible is not None and visible.shape[1] > 1:  # heads that share values see different keys
        value = for_each_head(value, attention.shape[1])
    if reading.epsilon > 0:
        return smallest_rows(attention, value, visible, reading.epsilon, tolerance, keep_sum=reading.space == "affine")
    if reading.space == "affine":
        value = with_ones(value, None if visible is None else visible.any(dim=-2))
    if reading.pads or visible is None:
        every = torch.ones(batch, 1, key, dtype=torch.bool, device=value.device)
        effective, rank = by_key_mask(attention, value, every, tolerance, overwrite=overwrite)
        return effective if visible is None else effective * visible, rank
    if visible.shape[-2] == 1:
        return by_key_mask(attention, value, visible[:, :, 0], tolerance, overwrite=overwrite)
    return by_query_mask(attention, value, visible, tolerance)


def rank_of(
    value: Tensor, seen: Bool[Tensor, "batch heads key"], heads: int, space: Space = "value"
) -> Int[Tensor, "batch head"]:
    """Return the rank of the values of some keys, (batch, shared, key, d_head), for each query head."""
    value = for_each_head(value, heads) if seen.shape[1] > 1 else value
    value = with_ones(value, seen) if space == "affine" else value
    none = torch.zeros(*value.shape[:2], 1, value.shape[2], dtype=value.dtype, device=value.device)
    with without_autocast(value.device):
        _, rank = by_key_mask(none, value, seen, default_rtol(value.dtype))
    return rank.repeat_interleave(heads // value.shape[1], dim=1)


def for_each_head(shared: Tensor, heads: int) -> Tensor:
    """Repeat keys or values for every query head, where grouped queries share them: (batch, head, key, width).

    The result is contiguous, as products want it.
    """
    groups = heads // shared.shape[1]
    return shared.contiguous() if groups == 1 else shared.repeat_interleave(groups, dim=1)


def _seen_by_group(seen: Tensor, shared: int) -> Tensor:
    """Return which keys some query sees of some head that shares them, (batch, 1 or shared, key)."""
    keys = seen.any(dim=-2)
    return keys if keys.shape[1] == 1 else torch.unflatten(keys, 1, (shared, -1)).any(dim=2)


def _check_rtol(rtol: float | None) -> None:
    if rtol is not None and not 0 < rtol < 1:
        raise ValueError(f"rtol must be between 0 and 1, both excluded, got {rtol!r}")


def default_rtol(dtype: torch.dtype) -> float:
    return 8 * torch.finfo(torch.promote_types(dtype, torch.float32)).eps
