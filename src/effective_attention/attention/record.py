"""A record of what happened while a model ran with another attention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from effective_attention.attention.call import AttentionCall, shown_by
from effective_attention.attention.inputs import as_visible
from effective_attention.attention.intervals import Intervals, causal_intervals, intervals_of


@dataclass
class AttentionSwap:
    """What happened while a model ran with another attention.

    Attributes:
        kind: The attention in force; empty: it was chosen by ``attn_implementation``, and nobody reads the record.
        calls: How many times a layer called it.
        heads: How many (example, layer, head) were split.
        nontrivial: How many of those had a null space, so that effective attention can differ from standard attention.
        output_change: Largest relative change of any head's output, ``||A_effective V - A V|| / ||A V||``; only
            ``padded`` makes one.
        mean_output_change: Its mean over examples, layers and heads.
        streams: Of each layer that attends for one new token at a time, its ``stream.Stream``.
    """

    kind: str = ""
    calls: int = 0
    heads: int = 0
    nontrivial: int = 0
    output_change: float = 0.0
    streams: dict[nn.Module, Any] = field(default_factory=dict, repr=False, compare=False)
    _sum: float = field(default=0.0, repr=False)
    _mask: tuple[Tensor, Mask] | None = field(default=None, repr=False, compare=False)

    @property
    def null_space_share(self) -> float:
        """Return the share of all heads that had a null space."""
        return self.nontrivial / self.heads if self.heads else 0.0

    @property
    def mean_output_change(self) -> float:
        """Return the mean relative change of a head's output."""
        return self._sum / self.heads if self.heads else 0.0

    def __add__(self, other: AttentionSwap) -> AttentionSwap:
        """Add up what two processes saw."""
        return AttentionSwap(
            self.kind,
            calls=self.calls + other.calls,
            heads=self.heads + other.heads,
            nontrivial=self.nontrivial + other.nontrivial,
            output_change=max(self.output_change, other.output_change),
            _sum=self._sum + other._sum,
        )

    def add_nullity(self, nullity: Int[Tensor, "batch head"]) -> None:
        """Count heads, and how many of them have a null space."""
        self.heads += nullity.numel()
        self.nontrivial += int((nullity > 0).sum())

    def add_change(self, change: Float[Tensor, "batch head"]) -> None:
        """Record how much each head's output changed."""
        change = change.detach()
        self.output_change = max(self.output_change, float(change.max()))
        self._sum += float(change.sum())

    def mask(self, call: AttentionCall) -> Mask:
        """Read what a call's mask says, once for all layers that are given the same."""
        if call.mask is None:
            return Mask(None, None, only_hides=True)
        if self._mask is None or self._mask[0] is not call.mask:
            self._mask = (call.mask, Mask.of(call.mask, call.shape))
        return self._mask[1]


@dataclass(frozen=True, eq=False)
class Mask:
    """What a mask says.

    Attributes:
        visible: As ``split`` wants it; None where nothing is hidden.
        intervals: The keys of each query, where queries see different ones.
        only_hides: Whether it is 0 where it does not hide: some models add biases to theirs.
        blinds: Whether it hides every key from some query; such a query, as of padding, has even weights, so that
            ``visible`` shows it everything.
        seen: The keys that queries which are not blind see, (batch, 1 or head, key): real tokens; None where nothing is
            hidden.
    """

    visible: Bool[Tensor, "batch heads queries key"] | None
    intervals: Intervals | None
    only_hides: bool
    blinds: bool = False
    seen: Bool[Tensor, "batch heads key"] | None = None

    @classmethod
    def of(cls, given: Tensor, shape: tuple[int, int, int, int]) -> Mask:
        """Read the mask of a call whose attention has this shape."""
        mask = given[..., : shape[3]]
        shown = shown_by(mask)
        if _is_triangle(shown, shape):  # most often; the long way takes a tenth of such a layer's attention
            every = shown.new_ones(shape[0], 1, shape[3])
            triangle = shown.expand(shape[0], -1, -1, -1)
            only_hides = bool(((mask == 0) | ~shown).all())
            return cls(triangle, causal_intervals(every, shape[2]), only_hides, seen=every)
        blind = ~shown.any(dim=-1, keepdim=True)
        visible = as_visible(shown | blind, shape)
        by_query = visible is not None and visible.shape[2] > 1
        only_hides = bool(((mask == 0) | ~shown | blind).all())
        intervals = intervals_of(visible) if visible is not None and by_query else None
        seen = shown.any(dim=-2)
        seen = (seen | ~seen.any(dim=-1, keepdim=True)).expand(shape[0], -1, -1)
        return cls(visible, intervals, only_hides, bool(blind.any()), None if visible is None else seen)

    @property
    def seen_by_some(self) -> Bool[Tensor, "batch heads key"] | None:
        """Return ``seen`` where it is not what ``visible`` says, because some queries are blind and others are not."""
        return self.seen if self.blinds and self.intervals is not None else None

    @property
    def is_causal(self) -> bool:
        """Tell whether it hides what stands behind each query, and does nothing else."""
        return self.only_hides and self.intervals is not None and self.intervals.is_causal


def _is_triangle(shown: Tensor, shape: tuple[int, int, int, int]) -> bool:
    """Tell whether a mask of one set of heads lets every query see itself and what stands before, and nothing else."""
    batch, _, queries, keys = shape
    if shown.ndim != 4 or shown.shape[1:] != (1, queries, keys) or queries != keys or keys == 1:
        return False
    if shown.shape[0] not in (1, batch):
        return False
    return torch.equal(shown, shown.new_ones(queries, keys).tril().expand_as(shown))
