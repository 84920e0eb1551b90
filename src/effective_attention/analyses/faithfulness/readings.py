"""What some measures ask for beyond one explanation: words, and the same examples explained once more.

Once more with random layers in the model (``randomised``), and with the two texts of a pair exchanged (``stability``):
each costs one more pass of all methods.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedModel

from effective_attention.analyses.common.base import Context
from effective_attention.attention.trace import Trace
from effective_attention.attributions.attribute import Attribution, attribute
from effective_attention.attributions.exchange import Exchange, exchanged
from effective_attention.attributions.layer_modules import layer_modules
from effective_attention.attributions.randomised import randomised, trace_again
from effective_attention.attributions.registry import Method
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.shared_work import Settings
from effective_attention.attributions.word_pieces import pieces_in
from effective_attention.errors import first_line

log = logging.getLogger(__name__)
NOT_THE_START = 1_000_003
"""Added to the seed: a model that began its training at random must not be compared with its own beginning."""


@dataclass
class Readings:
    """What is read of each batch beside the attributions.

    Attributes:
        context: What is known before the first batch.
        settings: How the methods are computed.
        methods: The league's.
        delimiters: Whether [CLS] and [SEP] are ranked too.
        words: Whether anything is erased by words.
        measures: Which of ``randomised`` and ``stability`` are asked for.
        refused: Which of them cannot be had, and why.
    """

    context: Context
    settings: Settings
    methods: Sequence[Method]
    delimiters: bool
    words: bool
    measures: Sequence[str]
    refused: dict[str, str] = field(init=False)
    _models: list[PreTrainedModel] = field(default_factory=list)  # made for the first batch, kept for all

    def __post_init__(self) -> None:
        reasons = {name: _OBSTACLES[name](self.context) for name in self.measures}
        self.refused = {name: reason for name, reason in reasons.items() if reason is not None}

    def of(self, request: AttributionRequest, ranked: Bool[Tensor, "batch key"]) -> dict[str, Any]:
        """Return the fields of ``Asked`` that were asked for and can be had."""
        wanted = [name for name in self.measures if name not in self.refused]
        return {
            "numbers": self._numbers(request.trace) if self.words else None,
            "randomised": self._randomised(request, ranked) if "randomised" in wanted else None,
            "exchanged": self._exchanged(request) if "stability" in wanted else None,
        }

    def warn(self) -> None:
        """Log what was asked for and cannot be had."""
        for name, reason in self.refused.items():
            log.warning("faithfulness leaves out the measure %s: %s", name, reason)

    def _texts(self, trace: Trace) -> list[tuple[str, ...]]:
        assert self.context.split.texts is not None
        return [self.context.split.texts(index) for index in trace.inputs["index"].tolist()]

    def _numbers(self, trace: Trace) -> Int[Tensor, "batch key"]:
        """Tell which tokens are pieces of which word."""
        return pieces_in(trace, self._texts(trace), self.context.tokenizer, self.context.max_length)[0]

    def _randomised(self, request: AttributionRequest, ranked: Bool[Tensor, "batch key"]) -> list[Attribution]:
        """Explain the same targets in the model with random layers."""
        if not self._models:
            self._models.append(randomised(request.trace, seed=NOT_THE_START + self.context.seed))
        again = replace(request, trace=trace_again(request.trace, self._models[0]))
        return list(attribute(again, ranked, self.settings, self.methods))

    def _exchanged(self, request: AttributionRequest) -> tuple[Exchange, list[Attribution]]:
        """Explain the same targets of the exchanged pairs."""
        trace = request.trace
        found = exchanged(trace, self._texts(trace), self.context.tokenizer, self.context.max_length)
        ranked = found.trace.mask if self.delimiters else found.words
        return found, list(attribute(replace(request, trace=found.trace), ranked, self.settings, self.methods))


def _no_random_layers(context: Context) -> str | None:
    """Say why a model's layers cannot be drawn anew; None: they can."""
    try:
        if context.probe is not None:
            layer_modules(context.probe)
    except ValueError as error:
        return first_line(error)
    return None


def _no_exchange(context: Context) -> str | None:
    """Say why nothing can be exchanged without a change of the meaning; None: it can."""
    if context.task is None or not context.task.exchangeable:
        return (
            "nothing in this data can be changed without a change of the meaning; only pairs whose texts may be "
            "exchanged (MRPC, QQP, STS-B) have it"
        )
    if not getattr(context.tokenizer, "is_fast", False):
        return "the tokenizer does not say where its tokens stand in the texts"
    return None


_OBSTACLES = {"randomised": _no_random_layers, "stability": _no_exchange}
