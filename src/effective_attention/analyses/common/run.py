"""Show a split to some analyses: one trace per batch, each analysis looks at it, then each answers with its table."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.progress import track
from torch import Tensor
from transformers import PreTrainedModel

from effective_attention.analyses.common.base import Analysis, Context
from effective_attention.attention.decomposition import Reading
from effective_attention.attention.trace import Trace, trace
from effective_attention.data.annotation.tagging import Annotated, token_roles
from effective_attention.data.batches import Batch, EncodedSplit, LengthBucketSampler, Padding
from effective_attention.data.datamodule import TextDataModule
from effective_attention.errors import UserError
from effective_attention.io import fingerprint
from effective_attention.processes import rank_and_world

Factory = Callable[[Context], Analysis]
Tables = dict[str, pd.DataFrame]
_TOKEN_FACTS = ("kind", "upos", "word", "first", "head", "relation")


@dataclass(frozen=True)
class Subject:
    """A model and the examples it is looked at on.

    Attributes:
        model: The model to trace.
        reference: The pretrained model it started from; None where ``model`` is that one.
        datamodule: Makes batches.
        split: The examples.
        annotated: Word numbers and parts of speech, aligned with the split's tokens.
        device: Where to run.
        reading: Of effective attention; ``padded`` is the published protocol, and pads every batch to the maximum
            length.
    """

    model: PreTrainedModel
    reference: PreTrainedModel | None
    datamodule: TextDataModule
    split: EncodedSplit
    annotated: Annotated
    device: torch.device
    reading: Reading = "exact"

    def batches(self, indices: Sequence[int] | None = None) -> list[list[int]]:
        """This process's share of the examples, long ones first."""
        chosen = np.arange(len(self.split)) if indices is None else np.asarray(indices)
        sampler = LengthBucketSampler(self.split.encoded.lengths[chosen], self.datamodule.batch_size, shuffle=False)
        return [chosen[places].tolist() for places in sampler]

    def trace(
        self, indices: Sequence[int], model: PreTrainedModel | None = None, *, full_length: bool = False
    ) -> Trace:
        """One batch; whatever else is asked of it (``Trace.more``) is traced then."""
        padding: Padding | None = "max_length" if full_length or self.reading == "padded" else None
        inputs = _to(self.datamodule.collate(self.split, indices, padding=padding), self.device)
        more: dict[str, Callable[..., Trace]] = {"full_length": partial(self._at_full_length, indices)}
        if self.reference is not None and model is None:
            more["reference"] = partial(self.trace, indices, self.reference, full_length=full_length)
        tokens = self._tokens(indices, inputs["input_ids"].shape[1])
        return trace(model or self.model, inputs, reading=self.reading, tokens=tokens, more=more)

    def folder(self, analysis: str, options: Mapping[str, Any]) -> Path:
        """Where an analysis keeps finished parts of long work."""
        facts = repr((self._fingerprint, self.reading, self.datamodule.max_length, sorted(options.items())))
        return self.datamodule.token_cache / f"{analysis}-{hashlib.sha256(facts.encode()).hexdigest()[:24]}"

    @cached_property
    def _fingerprint(self) -> str:
        encoded = self.split.encoded
        return fingerprint(self.model, [encoded.input_ids, encoded.token_type_ids, encoded.offsets])

    def _at_full_length(self, indices: Sequence[int], chosen: Tensor) -> Trace:
        return self.trace(
            [index for index, keep in zip(indices, chosen.tolist(), strict=True) if keep], full_length=True
        )

    def _tokens(self, indices: Sequence[int], width: int) -> dict[str, Tensor]:
        facts = np.full((len(_TOKEN_FACTS), len(indices), width), -1, dtype=np.int64)
        for row, index in enumerate(indices):
            span = self.annotated.span(index)
            for number, name in enumerate(_TOKEN_FACTS):
                facts[number, row, : span.stop - span.start] = getattr(self.annotated, name)[span]
        tokens = dict(zip(_TOKEN_FACTS, torch.from_numpy(facts).to(self.device), strict=True))
        examples = self.split.examples
        if examples.marks is not None:
            texts, marks = zip(*((examples.texts[index], examples.marks[index]) for index in indices), strict=True)
            roles = np.full((len(indices), width), -1, dtype=np.int64)
            for row, found in enumerate(
                token_roles(texts, marks, self.datamodule.tokenizer, self.datamodule.max_length)
            ):
                roles[row, : len(found)] = found
            tokens["role"] = torch.from_numpy(roles).to(self.device)
        return tokens


def _to(batch: Batch, device: torch.device) -> Batch:
    return {name: value.to(device) for name, value in batch.items()}


def describe(subject: Subject, **facts: object) -> Context:
    """The model's shape, seen on one example, and what the caller knows beside."""
    probe = subject.trace([int(subject.split.encoded.lengths.argmin())])
    value = probe.layers[0].value
    shapes = {layer.attention.shape[1] for layer in probe.layers}
    if len(shapes) > 1:
        raise UserError(
            f"the model's layers differ in their number of heads ({sorted(shapes)}), which no analysis can show"
        )
    return Context(
        layers=len(probe.layers),
        heads=value.shape[1],
        d_head=value.shape[3],
        width=probe.hidden[0].shape[-1],
        max_length=subject.datamodule.max_length,
        examples=len(subject.split),
        tokenizer=subject.datamodule.tokenizer,
        lengths=subject.split.encoded.lengths,
        token_ids=lambda index: subject.split.encoded.row(index)[0].tolist(),
        relations=subject.annotated.relations,
        folder=subject.folder,
        **facts,  # type: ignore[arg-type]
    )


def analyse(
    subject: Subject,
    analyses: Mapping[str, Analysis],
    *,
    indices: Sequence[int] | None = None,
    title: str | None = None,
) -> Tables:
    """One pass over the examples (all, or the chosen ones), then a table per analysis.

    Args:
        subject: Model and examples.
        analyses: By name; each is shown every trace.
        indices: Which examples; None: all.
        title: Of the progress bar; None: no bar.
    """
    streaming = [analysis.to(subject.device) for analysis in analyses.values() if analysis.streams]
    batches: Iterable[list[int]] = subject.batches(indices) if streaming else []
    if title is not None and rank_and_world()[0] == 0:
        batches = track(list(batches), description=title, transient=True)
    for batch in batches:
        asking = [analysis for analysis in streaming if analysis.wants(batch)]
        seen = subject.trace(batch) if asking else None
        for analysis in asking:
            analysis.update(seen)
    with warnings.catch_warnings():  # a process without a batch, or an analysis that needs none, is no mistake
        warnings.filterwarnings("ignore", message="The ``compute`` method of metric")
        return {name: analysis.compute() for name, analysis in analyses.items()}
