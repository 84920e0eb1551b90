"""Attention weights that are not kept: rows are made when somebody asks, from queries and keys, or from the factors.

The weights of a text of 8,192 tokens take 3.2 GB a layer with 12 heads, and as much again to split; its queries, keys
and values 75 MB. What analyses sum over queries they can sum block by block (``Layer.blocks``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.call import AttentionCall
from effective_attention.attention.decomposition import rank_of, split
from effective_attention.attention.factors import Factors
from effective_attention.attention.kernel_route import factors_of
from effective_attention.attention.plain import AffinePlain, Plain, plain_call
from effective_attention.attention.readings import Reading, Space
from effective_attention.attention.record import Mask

LARGEST = 2**26
"""How many weights of a layer are kept whole: 12 heads of 2,365 tokens, or of 8 texts of 836 tokens."""
_BLOCK = 2**24  # weights that are made at a time


@dataclass(frozen=True, eq=False)
class LongWeights:
    """The weights of a layer, row by row.

    Attributes:
        call: What the layer was asked: softmax of scaled products, a mask, and nothing else.
        output: What it handed on, (batch, head, query, d_head).
        mask: What the call's mask says.
    """

    call: Plain
    output: Tensor
    mask: Mask

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return that of the matrix (batch, head, query, key)."""
        return (*self.call.query.shape[:3], self.call.key.shape[2])

    def blocks(self) -> list[slice]:
        """Divide the queries into blocks whose rows fit into 64 MB."""
        batch, head, query, key = self.shape
        step = max(1, _BLOCK // (batch * head * key))
        return [slice(first, min(first + step, query)) for first in range(0, query, step)]

    def standard(self, queries: slice) -> Float[Tensor, "batch head some key"]:
        """Compute the rows of some queries."""
        mask = self.call.mask
        own = mask if mask is None or mask.shape[2] == 1 else mask[:, :, queries]
        return replace(self.call, query=self.call.query[:, :, queries], mask=own).weights()

    def effective(self, queries: slice) -> Float[Tensor, "batch head some key"]:
        """Compute the effective part of some rows, by the factors, or by a split where those prove too little."""
        if self.factors is not None:
            return self.factors.rows(queries)
        visible = self.mask.visible
        own = visible if visible is None or visible.shape[2] == 1 else visible[:, :, queries]
        reading = Reading(space=self.space)
        return split(self.standard(queries), self.value, own, reading=reading).effective

    @property
    def value(self) -> Tensor:
        """Return the model's own values, (batch, shared, key, d_head)."""
        return self.call.value[..., :-1] if isinstance(self.call, AffinePlain) else self.call.value

    @property
    def space(self) -> Space:
        """Return the space in which effective attention is read."""
        return "affine" if isinstance(self.call, AffinePlain) else "value"

    @cached_property
    def affine(self) -> LongWeights:
        """Return the same weights, with effective attention in affine space."""
        if isinstance(self.call, AffinePlain):
            return self
        call = AffinePlain.of(self.call)
        return LongWeights(call, call.with_sums(self.output), self.mask)

    @cached_property
    def factors(self) -> Factors | None:
        """Find the factors of all rows; None where too little can be proved from the output."""
        intervals = self.call.intervals
        if intervals is not None and not bool(intervals.regular.all()):
            return None
        return factors_of(self.call, self.output)

    @cached_property
    def rank(self) -> Tensor:
        """Return the rank of each head's values that are seen, (batch, head)."""
        if self.factors is not None and self.mask.seen_by_some is None:
            return self.factors.rank
        seen = self.call.seen if self.mask.seen is None else self.mask.seen
        return rank_of(self.value, seen, self.shape[1], self.space)


def long_weights(call: AttentionCall, mask: Mask) -> LongWeights | None:
    """Run a call without its weights, where they would be large, and a fast kernel computes the same; else None."""
    if math.prod(call.shape) <= LARGEST:
        return None
    plain = plain_call(call, mask)
    return None if plain is None else LongWeights(plain, plain.output(), mask)
