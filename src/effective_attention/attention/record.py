"""A record of what happened while a model ran with another attention."""

from __future__ import annotations

from dataclasses import dataclass, field

from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.attention.hook import AttentionCall
from effective_attention.attention.inputs import as_visible


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
    """

    kind: str = ""
    calls: int = 0
    heads: int = 0
    nontrivial: int = 0
    output_change: float = 0.0
    _sum: float = field(default=0.0, repr=False)
    _mask: tuple[Tensor, Tensor | None] | None = field(default=None, repr=False, compare=False)

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

    def visible(self, call: AttentionCall, weights: Tensor) -> Bool[Tensor, "batch heads queries key"] | None:
        """Read the mask as ``split`` wants it, once for all layers that are given the same mask."""
        if call.mask is None:
            return None
        if self._mask is None or self._mask[0] is not call.mask:
            visible = call.visible(weights)
            self._mask = (call.mask, None if visible is None else as_visible(visible, weights))
        return self._mask[1]
