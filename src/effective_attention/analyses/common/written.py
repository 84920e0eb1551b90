"""A model that reads one text and writes another, looked at while it writes: its decoder, or its cross-attention.

The examples are the texts that are written: their tokens are the queries. Those that are read stay beside them; of
cross-attention they are the keys (``Trace.keys``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from transformers import PreTrainedModel

from effective_attention.analyses.common.subject import Subject
from effective_attention.attention.stacks import Stack
from effective_attention.attention.trace import Trace, trace_stacks
from effective_attention.data.batches import EncodedSplit, TextBatches
from effective_attention.data.examples import Examples
from effective_attention.data.targets import encode_targets


@dataclass(frozen=True, kw_only=True)
class WrittenSubject(Subject):
    """A model and the texts that it writes.

    Attributes:
        read: The model's encoder and the texts that are read, one for each that is written.
        stack: Which attention to look at, ``decoder`` or ``cross``.
    """

    read: Subject
    stack: Stack

    def trace(
        self, indices: Sequence[int], model: PreTrainedModel | None = None, *, full_length: bool = False
    ) -> Trace:
        """Trace one batch, each text that is written with the one that was read."""
        written = self.inputs(indices, full_length=full_length)
        read = self.read.inputs(indices, full_length=full_length)
        inputs = {"decoder_input_ids": written["input_ids"], "decoder_attention_mask": written["attention_mask"]}
        seen = trace_stacks(model or self.model, read | inputs, reading=self.reading)[self.stack]
        seen = replace(seen, tokens=self.tokens(indices, written))
        if seen.source is None:
            return seen
        return replace(seen, source=replace(seen.source, tokens=self.read.tokens(indices, read)))


def written_subject(
    model: PreTrainedModel, read: Subject, targets: Sequence[str], data: TextBatches, stack: Stack
) -> WrittenSubject:
    """Make a subject of what a model writes.

    Args:
        model: The whole model.
        read: Its encoder, and the texts that are read.
        targets: What is written for each of them.
        data: Makes batches.
        stack: Which attention to look at.
    """
    encoded, annotated = encode_targets(model, data.tokenizer, targets, data.max_length)
    split = EncodedSplit("targets", Examples([(text,) for text in targets], None, source="targets"), encoded)
    return WrittenSubject(model, None, data, split, annotated, model.device, read=read, stack=stack)
