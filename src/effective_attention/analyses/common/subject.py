"""A model and the examples it is looked at on: makes traces, batch by batch, that know what each token is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from effective_attention.analyses.common.base import Context, SplitFacts
from effective_attention.attention.model_facts import accepted_inputs
from effective_attention.attention.readings import Protocol, Reading, as_reading
from effective_attention.attention.trace import Trace, trace
from effective_attention.data.annotation.tagging import Annotated, token_roles
from effective_attention.data.batches import Batch, Batches, EncodedSplit, LengthBucketSampler, Padding
from effective_attention.errors import UserError
from effective_attention.io import fingerprint

_TOKEN_FACTS = ("kind", "upos", "xpos", "word", "first", "head", "relation")


@dataclass(frozen=True)
class Subject:
    """A model and the examples it is looked at on.

    Attributes:
        model: The model to trace.
        reference: The pretrained model it started from; None where ``model`` is that one.
        data: Makes batches.
        split: The examples.
        annotated: Word numbers and parts of speech, aligned with the split's tokens.
        device: The device to run on.
        reading: How effective attention is read; the published protocol, ``padded``, pads every batch to the maximum.
    """

    model: nn.Module
    reference: nn.Module | None
    data: Batches
    split: EncodedSplit
    annotated: Annotated
    device: torch.device
    reading: Reading | Protocol = "exact"

    def batches(self, indices: Sequence[int] | None = None) -> list[list[int]]:
        """List this process's share of the examples as batches, long ones first."""
        chosen = np.arange(len(self.split)) if indices is None else np.asarray(indices)
        lengths = self.split.encoded.lengths[chosen]
        equal = self.data.equal_lengths
        sampler = LengthBucketSampler(lengths, self.data.batch_size, shuffle=False, equal=equal)
        return [chosen[places].tolist() for places in sampler]

    def trace(self, indices: Sequence[int], model: nn.Module | None = None, *, full_length: bool = False) -> Trace:
        """Trace one batch; what analyses ask for beyond it (``Trace.more``) is traced when it is asked for."""
        inputs = self.inputs(indices, full_length=full_length)
        more: dict[str, Callable[..., Trace]] = {"full_length": partial(self._at_full_length, indices)}
        if self.reference is not None and model is None:
            more["reference"] = partial(self.trace, indices, self.reference, full_length=full_length)
        tokens = self.tokens(indices, inputs)
        found = trace(model or self.model, inputs, reading=self.reading, tokens=tokens, more=more)
        _check_places(found)
        return found

    def inputs(self, indices: Sequence[int], *, full_length: bool = False) -> Batch:
        """Make one batch, on the device to run on."""
        padding: Padding | None = "max_length" if full_length or as_reading(self.reading).pads else None
        batch = self.data.collate(self.split, indices, padding=padding)
        return _to(accepted_inputs(self.model, batch), self.device)

    def folder(self, analysis: str, options: Mapping[str, Any]) -> Path:
        """Return the folder where an analysis keeps finished parts of long work on this very model and split."""
        facts = repr((self._fingerprint, as_reading(self.reading), self.data.max_length, sorted(options.items())))
        assert self.data.token_cache is not None
        return self.data.token_cache / f"{analysis}-{hashlib.sha256(facts.encode()).hexdigest()[:24]}"

    def context(self, **facts: Any) -> Context:
        """Collect what analyses may know before the first batch; this runs the model on a short example.

        Args:
            facts: Fields of ``Context`` that only the caller knows.

        Raises:
            UserError: The model's layers differ in their number of heads, or attend to something else than tokens.
        """
        lengths = self.split.encoded.lengths
        probe = self.trace([int(np.where(lengths > 1, lengths, lengths.max()).argmin())])  # of one token tells little
        return Context(
            layers=len(probe.layers),
            heads=_heads(probe),
            width=probe.hidden[0].shape[-1] if probe.hidden else 0,
            split=self._split_facts(),
            causal=probe.causal,
            probe=probe,
            tokenizer=self.data.tokenizer,
            folder=None if self.data.token_cache is None else self.folder,
            **facts,
        )

    def _split_facts(self) -> SplitFacts:
        encoded = self.split.encoded
        return SplitFacts(
            examples=len(self.split),
            max_length=self.data.max_length,
            lengths=encoded.lengths,
            token_ids=lambda index: encoded.row(index)[0].tolist(),
            texts=self.split.examples.texts.__getitem__,
            relations=self.annotated.relations,
            token_facts=self._token_facts,
        )

    def _token_facts(self, index: int) -> dict[str, Any]:
        span = self.annotated.span(index)
        return {name: getattr(self.annotated, name)[span] for name in _TOKEN_FACTS}

    @cached_property
    def _fingerprint(self) -> str:
        encoded = self.split.encoded
        asked = [] if self.split.verb_ids is None else [self.split.verb_ids]
        return fingerprint(self.model, [encoded.input_ids, encoded.token_type_ids, encoded.offsets, *asked])

    def _at_full_length(self, indices: Sequence[int], chosen: Tensor) -> Trace:
        kept = [index for index, keep in zip(indices, chosen.tolist(), strict=True) if keep]
        return self.trace(kept, full_length=True)

    def tokens(self, indices: Sequence[int], inputs: Batch) -> dict[str, Tensor]:
        """Tell what each token of a batch is (see the module ``tokens``), with -1 on padding."""
        width = inputs["input_ids"].shape[1]
        facts = np.full((len(_TOKEN_FACTS), len(indices), width), -1, dtype=np.int64)
        for place, index in enumerate(indices):
            span = self.annotated.span(index)
            for number, name in enumerate(_TOKEN_FACTS):
                facts[number, place, : span.stop - span.start] = getattr(self.annotated, name)[span]
        tokens = dict(zip(_TOKEN_FACTS, torch.from_numpy(facts).to(self.device), strict=True))
        if self.split.examples.marks is not None:
            tokens["role"] = self._roles(indices, width)
        return tokens

    def _roles(self, indices: Sequence[int], width: int) -> Tensor:
        """Tell which tokens belong to words that the data marks as subject or attractor."""
        examples = self.split.examples
        assert examples.marks is not None
        texts = [examples.texts[index] for index in indices]
        marks = [examples.marks[index] for index in indices]
        roles = np.full((len(indices), width), -1, dtype=np.int64)
        for place, found in enumerate(token_roles(texts, marks, self.data.tokenizer, self.data.max_length)):
            roles[place, : len(found)] = found
        return torch.from_numpy(roles).to(self.device)


def _heads(probe: Trace) -> int:
    """Return how many heads each layer has."""
    heads = {layer.shape[1] for layer in probe.layers}
    if len(heads) > 1:
        raise UserError(
            f"the model's layers differ in their number of heads ({sorted(heads)}), which no analysis can show"
        )
    return heads.pop()


def _check_places(trace: Trace) -> None:
    """Refuse layers that attend to something else than tokens, or from a part of them.

    Raises:
        UserError: Says what was met.
    """
    tokens = (trace.mask.shape[1], trace.keys.mask.shape[1])
    others = [layer.shape[2:] for layer in trace.layers if layer.shape[2:] != tokens]
    if others:
        raise UserError(
            f"the model attends from {others[0][0]} places to {others[0][1]}, in a text of {tokens[0]} tokens, so that "
            "its attention is not one of tokens to tokens, which no analysis can show"
        )


def _to(batch: Batch, device: torch.device) -> Batch:
    return {name: value.to(device) for name, value in batch.items()}
