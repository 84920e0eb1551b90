"""Test one model under several attentions and say what differs: scores, time, predictions."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from pytorch_lightning import Trainer
from torch import Tensor

from effective_attention.attention.record import AttentionSwap
from effective_attention.attention.swap import use_attention
from effective_attention.attention.variants import VARIANTS
from effective_attention.data.datamodule import TextDataModule
from effective_attention.models.classifier import SequenceClassifier
from effective_attention.processes import gather


@dataclass
class _Tested:
    """The results of one attention: scores, which are the same in every repeat, and a time for every repeat."""

    record: AttentionSwap
    logits: dict[int, Tensor]
    scores: dict[str, float]
    seconds: list[float] = field(default_factory=list)


def compare_attentions(
    trainer: Trainer,
    classifier: SequenceClassifier,
    datamodule: TextDataModule,
    kinds: Sequence[str],
    *,
    repeats: int = 1,
) -> dict[str, float]:
    """Test under each attention in turn; with ``repeats`` the rounds are interleaved and the median time counts.

    Returns:
        ``test/<attention>/<metric>``, ``seconds``, ``examples_per_second``; and against ``standard``, where that was
        tested: ``seconds_ratio`` (median of the rounds' ratios), ``max_logit_difference``, ``changed_predictions`` (of
        classes; a task without labels has neither these nor metrics). ``effective`` adds ``null_space_share``: how many
        of all (example, layer, head) have a non-trivial null space. ``padded`` adds ``output_change``.
    """
    tested: dict[str, _Tested] = {}
    for _ in range(repeats):
        for kind in dict.fromkeys(kinds):
            result = _test(trainer, classifier, datamodule, kind)
            tested.setdefault(kind, result).seconds.append(classifier.test_seconds)
    metrics: dict[str, float] = {}
    for name, result in tested.items():
        metrics |= _absolute(name, result)
        if name != "standard" and "standard" in tested:
            metrics |= _relative(name, result, tested["standard"], has_classes=bool(classifier.task.labels))
    return metrics


def _test(trainer: Trainer, classifier: SequenceClassifier, datamodule: TextDataModule, kind: str) -> _Tested:
    classifier.attention_name = kind
    padding = datamodule.padding
    if VARIANTS[kind].full_length:
        datamodule.padding = "max_length"
    try:
        with use_attention(classifier.model, kind) as record:
            trainer.test(classifier, datamodule=datamodule, verbose=False)
    finally:
        datamodule.padding = padding
    scores = {
        name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith(f"test/{kind}/")
    }
    return _Tested(*_from_all_processes(record, classifier.test_logits), scores=scores)


def _from_all_processes(record: AttentionSwap, logits: dict[int, Tensor]) -> tuple[AttentionSwap, dict[int, Tensor]]:
    """Join what each process has seen of the split; Lightning has joined the metrics already."""
    parts = gather((record, logits))
    merged = sum((part for part, _ in parts), start=AttentionSwap(record.kind))
    return merged, {index: row for _, rows in parts for index, row in rows.items()}


def _absolute(kind: str, result: _Tested) -> dict[str, float]:
    seconds = statistics.median(result.seconds)
    metrics = result.scores | {
        f"test/{kind}/seconds": seconds,
        f"test/{kind}/examples_per_second": len(result.logits) / seconds,
    }
    if kind != "standard":
        metrics[f"test/{kind}/null_space_share"] = result.record.null_space_share
    if VARIANTS[kind].changes_output:
        metrics[f"test/{kind}/output_change"] = result.record.mean_output_change
        metrics[f"test/{kind}/max_output_change"] = result.record.output_change
    return metrics


def _relative(kind: str, result: _Tested, standard: _Tested, *, has_classes: bool) -> dict[str, float]:
    ratios = [mine / theirs for mine, theirs in zip(result.seconds, standard.seconds, strict=True)]
    order = sorted(standard.logits)
    before, after = (torch.stack([tested.logits[index] for index in order]) for tested in (standard, result))
    metrics = {
        f"test/{kind}/seconds_ratio": statistics.median(ratios),
        f"test/{kind}/max_logit_difference": float((after - before).abs().max()),
    }
    if has_classes:
        metrics[f"test/{kind}/changed_predictions"] = int((after.argmax(-1) != before.argmax(-1)).sum())
    return metrics
