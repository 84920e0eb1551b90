"""The finetuned model: a transformers encoder with a classification or regression head, as a LightningModule.

It knows its task's loss and metrics, its optimiser, and how to say under which attention it is being tested; the
attention itself is swapped from outside with ``use_attention``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.optim import Optimizer
from torchmetrics import MetricCollection
from transformers import PreTrainedModel, get_linear_schedule_with_warmup

from effective_attention.attention.swap import use_attention
from effective_attention.attention.trace import for_model
from effective_attention.data.batches import Batch
from effective_attention.data.tasks import Task

CHECKPOINT_KEY = "effective_attention"


class SequenceClassifier(LightningModule):
    """A LightningModule that finetunes and tests one model on one task.

    Args:
        model: A transformers model with ``task.num_outputs`` outputs; any number where the task has no labels.
        task: Decides loss (cross-entropy, or mean squared error for regression) and metrics.
        optimizer: Makes the optimiser from parameters; None where nothing is trained.
        warmup: Share of the steps in which the learning rate rises from 0, before it falls linearly to 0.
        origin: Primitives to store with every checkpoint: how to rebuild this model without its configs.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        task: Task,
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
        *,
        warmup: float = 0.0,
        origin: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.task = task
        self.make_optimizer = optimizer
        self.warmup = warmup
        self.origin = origin or {}
        self.val_metrics: MetricCollection = task.build_metrics()
        self.test_metrics: MetricCollection = task.build_metrics()
        self.attention_name = "standard"  # under which test scores are logged
        self.test_logits: dict[int, Tensor] = {}
        self.test_seconds = 0.0
        self._started = 0.0
        self.train()  # transformers hands models out in eval mode, and Lightning would train them so, without dropout

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (batch, classes), or scores (batch,) for regression."""
        logits: Tensor = self.model(**for_model(batch)).logits
        return logits[:, 0] if self.task.is_regression else logits

    # --- fit ---

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        loss = self._loss(self(batch), batch["labels"])
        self.log("train/loss", loss, prog_bar=True, batch_size=len(batch["labels"]))
        return loss

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        logits = self(batch)
        self.val_metrics.update(self._predictions(logits), batch["labels"])
        self.log("val/loss", self._loss(logits, batch["labels"]), batch_size=len(logits), sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        scores = self.val_metrics.compute()
        self.log_dict({f"val/{name}": score for name, score in scores.items()}, prog_bar=True, sync_dist=True)
        self.val_metrics.reset()

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.task.is_regression:
            return nn.functional.mse_loss(logits.float(), labels)
        return nn.functional.cross_entropy(logits.float(), labels)

    def _predictions(self, logits: Tensor) -> Tensor:
        return logits.float() if self.task.is_regression else logits.argmax(dim=-1)

    def configure_optimizers(self) -> dict[str, Any]:
        if self.make_optimizer is None:
            raise RuntimeError("this classifier was made for testing and has no optimiser")
        optimizer = self.make_optimizer(self.parameters())
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = get_linear_schedule_with_warmup(optimizer, round(self.warmup * steps), steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step", "name": "learning_rate"},
        }

    # --- test ---

    def on_test_epoch_start(self) -> None:
        self.test_metrics.reset()
        self.test_logits = {}
        self._warm_up()
        self._started = self._clock()

    def test_step(self, batch: Batch, batch_index: int) -> None:
        logits = self(batch)
        if self.task.has_labels:
            self.test_metrics.update(self._predictions(logits), batch["labels"])
        kept = logits.detach().float().cpu()
        self.test_logits.update(zip(batch["index"].tolist(), kept, strict=True))

    def on_test_epoch_end(self) -> None:
        self.test_seconds = self._clock() - self._started
        scores = self.test_metrics.compute() if self.task.has_labels else {}
        self.log_dict({f"test/{self.attention_name}/{name}": score for name, score in scores.items()}, sync_dist=True)

    def _warm_up(self) -> None:
        """Run one batch without timing it.

        The first call of a kernel is slow, and would be charged to whichever attention comes first.
        """
        batch = next(iter(self.trainer.datamodule.test_dataloader()), None)
        if batch is None:  # more processes than batches
            return
        with use_attention(self.model, self.attention_name):  # a record of its own: this batch must not be counted
            self({name: value.to(self.device) for name, value in batch.items()})

    def _clock(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    # --- checkpoints ---

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the model's origin, as primitives and tensors only, so that a checkpoint loads with ``weights_only``."""
        config = self.model.config.to_dict()
        checkpoint[CHECKPOINT_KEY] = {"task": self.task.to_dict(), "architecture": _primitive(config), **self.origin}


def _primitive(value: Any) -> Any:
    """Convert a config to what JSON could hold: types that torch's safe loader knows."""
    if isinstance(value, dict):
        return {str(key): _primitive(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_primitive(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
