"""Test one model under several attentions in one pass, and say what differs: scores, time, predictions."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor, nn

from effective_attention.attention.record import AttentionSwap
from effective_attention.attention.swap import use_attention
from effective_attention.attention.variants import VARIANTS
from effective_attention.data.batches import Batch
from effective_attention.data.datamodule import TextDataModule
from effective_attention.finite import NotFiniteError, all_finite, first_not_finite_part
from effective_attention.models.classifier import SequenceClassifier
from effective_attention.processes import gather
from effective_attention.run.turns import FEWEST_BATCHES, enough, in_turn, ratio_quartiles

log = logging.getLogger(__name__)
Metrics = dict[str, float]


@dataclass(frozen=True)
class Tested:
    """What testing found.

    Attributes:
        metrics: By name; see ``compare_attentions``.
        logits: Under each attention, by the examples' places in the split.
    """

    metrics: Metrics
    logits: dict[str, dict[int, Tensor]]


@dataclass
class Outcome:
    """What one attention did.

    Attributes:
        record: What the swap has counted.
        logits: By the examples' places in the split.
        seconds: For each batch, in order: the median of its repeats.
        total: Sum of the seconds; of several processes, which work side by side, that of the slowest.
    """

    record: AttentionSwap
    logits: dict[int, Tensor] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    total: float = 0.0


def compare_attentions(
    trainer: Trainer,
    classifier: SequenceClassifier,
    datamodule: TextDataModule,
    kinds: Sequence[str],
    *,
    repeats: int = 1,
) -> Tested:
    """Test under each attention in one pass: every batch under all of them, in turns.

    Args:
        trainer: Runs the pass, in its precision.
        classifier: The model.
        datamodule: The split.
        kinds: The attentions.
        repeats: How many times each batch is timed under each attention.

    Returns:
        The logits, and as metrics ``test/<attention>/<metric>``, ``timed_batches``, ``seconds`` (of the model alone,
        without making batches), ``examples_per_second``; and against ``standard``, where that was tested:
        ``seconds_ratio`` (median of the batches' ratios), ``seconds_ratio_low`` and ``_high`` (their quartiles),
        ``max_logit_difference``, ``changed_predictions`` (of classes; a task without labels has neither these nor
        metrics). Nothing of time from fewer than ``turns.FEWEST_BATCHES`` batches. ``effective`` adds
        ``null_space_share``: how many of all (example, layer, head) have a non-trivial null space. ``padded`` adds
        ``output_change``.

    Raises:
        NotFiniteError: Logits or attention are NaN or infinite; names attention and layer.
    """
    comparison = AttentionComparison(classifier, datamodule, kinds, repeats=repeats)
    trainer.test(comparison, datamodule=datamodule, verbose=False)
    scores = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("test/")}
    tested = {kind: _from_all_processes(found) for kind, found in comparison.tested.items()}
    batches = len(next(iter(tested.values())).seconds)
    if batches < FEWEST_BATCHES:
        log.warning("%d batches are too few to tell times: none is given below %d", batches, FEWEST_BATCHES)
    metrics: Metrics = {}
    for kind, result in tested.items():
        metrics |= {name: score for name, score in scores.items() if name.startswith(f"test/{kind}/")}
        metrics |= _absolute(kind, result)
        if kind != "standard" and "standard" in tested:
            metrics |= _relative(kind, result, tested["standard"], has_classes=bool(classifier.task.labels))
    return Tested(metrics, {kind: result.logits for kind, result in tested.items()})


class AttentionComparison(LightningModule):
    """A LightningModule that runs every test batch under each attention.

    Args:
        classifier: The model, with its task.
        datamodule: Makes the batches; those of ``padded`` are made again, of the same examples, at the maximum length.
        kinds: The attentions, each once.
        repeats: How many times each batch is timed under each.
    """

    def __init__(
        self, classifier: SequenceClassifier, datamodule: TextDataModule, kinds: Sequence[str], *, repeats: int = 1
    ) -> None:
        super().__init__()
        self.classifier = classifier
        self.datamodule = datamodule
        self.kinds = tuple(dict.fromkeys(kinds))
        self.repeats = repeats
        self.metrics = nn.ModuleDict({kind: classifier.task.build_metrics() for kind in self.kinds})
        self.tested = {kind: Outcome(AttentionSwap(kind)) for kind in self.kinds}

    def setup(self, stage: str) -> None:
        self.classifier.setup(stage)

    def test_step(self, batch: Batch, batch_index: int) -> None:
        batches = {kind: self._batch(batch, kind) for kind in self.kinds}
        if batch_index == 0:  # the first call of a kernel is slow, and would be charged to whichever attention is first
            for kind in self.kinds:
                self._run(kind, batches[kind])
        seconds: dict[str, list[float]] = {kind: [] for kind in self.kinds}
        for turn in range(self.repeats):
            for kind in in_turn(self.kinds, batch_index + turn):
                logits, spent, record = self._run(kind, batches[kind])
                seconds[kind].append(spent)
                if turn == 0:
                    self._keep(kind, batches[kind], logits, record)
        for kind, times in seconds.items():
            self.tested[kind].seconds.append(statistics.median(times))

    def _batch(self, batch: Batch, kind: str) -> Batch:
        """Return the batch as this attention wants it."""
        if not VARIANTS[kind].full_length or batch["input_ids"].shape[1] == self.datamodule.max_length:
            return batch
        split = self.datamodule.split(self.datamodule.eval_split)
        longer = self.datamodule.collate(split, batch["index"].tolist(), padding="max_length")
        return {name: value.to(self.device) for name, value in longer.items()}

    def _run(self, kind: str, batch: Batch) -> tuple[Tensor, float, AttentionSwap]:
        with use_attention(self.classifier.model, kind) as record:
            started = self._clock()
            logits = self.classifier(batch)
            return logits, self._clock() - started, record

    def _clock(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def _keep(self, kind: str, batch: Batch, logits: Tensor, record: AttentionSwap) -> None:
        kept = logits.detach().float().cpu()
        if not all_finite(kept):
            self._refuse(kind, batch)
        if self.classifier.task.has_labels:
            self.metrics[kind].update(self.classifier.predictions(logits), batch["labels"])  # type: ignore[operator]
        tested = self.tested[kind]
        tested.record += record
        tested.logits.update(zip(batch["index"].tolist(), kept, strict=True))

    def _refuse(self, kind: str, batch: Batch) -> None:
        """Say where logits that are not finite come from."""
        with use_attention(self.classifier.model, kind):
            part = first_not_finite_part(self.classifier.model, lambda: self.classifier(batch))
        where = "" if part is None else f", first in layer {part}"
        raise NotFiniteError(
            f"attention {kind}: the model's logits are NaN or infinite for example {min(batch['index'].tolist())} "
            f"or one of its batch{where}; its weights have diverged, or it overflows in this precision"
        )

    def on_test_epoch_end(self) -> None:
        for kind, metrics in self.metrics.items():
            scores = metrics.compute() if self.classifier.task.has_labels else {}  # type: ignore[operator]
            named = {f"test/{kind}/{name}": score for name, score in scores.items()}
            self.log_dict(named, sync_dist=True, logger=False)  # logged with all other results, once


def _from_all_processes(tested: Outcome) -> Outcome:
    """Join what each process has seen of the split; Lightning has joined the metrics already."""
    parts = gather(tested)
    return Outcome(
        sum((part.record for part in parts), start=AttentionSwap(tested.record.kind)),
        {index: row for part in parts for index, row in part.logits.items()},
        [seconds for part in parts for seconds in part.seconds],
        max(sum(part.seconds) for part in parts),
    )


def _absolute(kind: str, result: Outcome) -> Metrics:
    metrics: Metrics = {f"test/{kind}/timed_batches": len(result.seconds)}
    if enough(result.seconds):
        metrics[f"test/{kind}/seconds"] = result.total
        metrics[f"test/{kind}/examples_per_second"] = len(result.logits) / result.total
    if kind != "standard":
        metrics[f"test/{kind}/null_space_share"] = result.record.null_space_share
    if VARIANTS[kind].changes_output:
        metrics[f"test/{kind}/output_change"] = result.record.mean_output_change
        metrics[f"test/{kind}/max_output_change"] = result.record.output_change
    return metrics


def _relative(kind: str, result: Outcome, standard: Outcome, *, has_classes: bool) -> Metrics:
    order = sorted(standard.logits)
    before, after = (torch.stack([tested.logits[index] for index in order]) for tested in (standard, result))
    metrics: Metrics = {}
    if enough(result.seconds):
        low, middle, high = ratio_quartiles(result.seconds, standard.seconds)
        metrics[f"test/{kind}/seconds_ratio"] = middle
        metrics[f"test/{kind}/seconds_ratio_low"] = low
        metrics[f"test/{kind}/seconds_ratio_high"] = high
    metrics[f"test/{kind}/max_logit_difference"] = float((after - before).abs().max())
    if has_classes:
        metrics[f"test/{kind}/changed_predictions"] = int((after.argmax(-1) != before.argmax(-1)).sum())
    return metrics
