"""A batch of examples that every method has explained: all that a measure may read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.analyses.common.protocol import Protocol
from effective_attention.analyses.faithfulness.ways import Way
from effective_attention.attention.trace import Trace
from effective_attention.attributions.attribute import Attribution
from effective_attention.attributions.erasure import Erasure, erasure
from effective_attention.attributions.exchange import Exchange
from effective_attention.attributions.registry import Pieces, registered
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.word_pieces import join


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
        ways: How they are erased.
        unknown: Id of the token that stands for a blank.
        numbers: The number of the word each token is a piece of; None: nobody asks for words.
        randomised: What the methods say of the model with random layers; None: nobody asks.
        exchanged: The pairs the other way round, and what the methods say of them; None: nobody asks.
    """

    request: AttributionRequest
    attributions: Sequence[Attribution]
    references: Mapping[str, Float[Tensor, "batch 1 key"]]
    words: Bool[Tensor, "batch key"]
    ranked: Bool[Tensor, "batch key"]
    protocol: Protocol
    shares: Sequence[float]
    ways: Sequence[Way]
    unknown: int
    numbers: Int[Tensor, "batch key"] | None = None
    randomised: Sequence[Attribution] | None = None
    exchanged: tuple[Exchange, Sequence[Attribution]] | None = None

    @property
    def trace(self) -> Trace:
        """The batch."""
        return self.request.trace

    @property
    def pieces(self) -> list[Pieces]:
        """Tell how each attribution's scores of tokens are joined to those of words."""
        known = {method.name: method.pieces for method in registered()}
        return [known[one.method] for one in self.attributions]

    @cached_property
    def erasures(self) -> dict[Way, Erasure]:
        """Erase by each method's scores, those of the last layer; once for all measures, (method, batch) each."""
        return {way: self._erased(way) for way in self.ways}

    def _erased(self, way: Way) -> Erasure:
        words = None if way.unit == "token" else self.numbers
        scores = [one.scores[:, -1].double() for one in self.attributions]
        if words is not None:
            scores = [join(score, words, pieces) for score, pieces in zip(scores, self.pieces, strict=True)]
        options = {"shares": self.shares, "how": way.erase, "unk_id": self.unknown, "words": words}
        return erasure(self.request, torch.stack(scores), ~self.words, **options)  # type: ignore[arg-type]
