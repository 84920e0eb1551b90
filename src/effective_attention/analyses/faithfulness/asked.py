"""A batch of examples that every method has explained: all that a measure may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.analyses.common.protocol import Protocol
from effective_attention.attention.trace import Trace
from effective_attention.attributions.attribute import Attribution
from effective_attention.attributions.erasure import Erasure, How, erasure
from effective_attention.attributions.request import AttributionRequest


@dataclass(frozen=True, eq=False)
class Asked:
    """One batch, and what every method says of it.

    Attributes:
        request: The batch and the class of each example that is explained.
        attributions: What the methods say; a measure gives as many results, in this order.
        references: What tokens are worth by ``blank_out`` and by ``gradients``, (batch, 1, key).
        words: The tokens of the text itself, without [CLS] and [SEP].
        ranked: The tokens that rankings are compared on.
        protocol: How they are compared.
        shares: Of the tokens that are erased.
        erase: What happens to erased tokens.
        unknown: Id of the token that stands for a blank.
    """

    request: AttributionRequest
    attributions: Sequence[Attribution]
    references: Mapping[str, Float[Tensor, "batch 1 key"]]
    words: Bool[Tensor, "batch key"]
    ranked: Bool[Tensor, "batch key"]
    protocol: Protocol
    shares: Sequence[float]
    erase: How
    unknown: int

    @property
    def trace(self) -> Trace:
        """The batch."""
        return self.request.trace

    @cached_property
    def erasure(self) -> Erasure:
        """Erase tokens by each method's scores, those of the last layer; once for all measures, (method, batch)."""
        scores = torch.stack([one.scores[:, -1].double() for one in self.attributions])  # (method, batch, key)
        return erasure(self.request, scores, ~self.words, shares=self.shares, how=self.erase, unk_id=self.unknown)
