"""The finetuned model: a transformers encoder with a classification or regression head, as a LightningModule.

It knows its task's loss and metrics and its optimiser, and stops where its numbers are no longer finite. Testing it
under several attentions is ``run.testing``'s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.optim import Optimizer
from torchmetrics import MeanMetric, MetricCollection
from transformers import PreTrainedModel, get_linear_schedule_with_warmup

from effective_attention.attention.trace import for_model
from effective_attention.data.batches import Batch
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError
from effective_attention.finite import NotFiniteError, Watch, check_weights, first_not_finite

CHECKPOINT_KEY = "effective_attention"


class SequenceClassifier(LightningModule):
    """A LightningModule that finetunes one model on one task.

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
        optimizer: Callable[..., Optimizer] | None = None,
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
        # Not by Lightning, whose mean over processes divides by a whole number: wrong where they saw unequally many.
        self.val_loss = MeanMetric(
            nan_strategy="ignore"
        )  # one that is NaN stops the run; "disable" forgets the weights
        self._losses = Watch[str]()
        self.train()  # transformers hands models out in eval mode, and Lightning would train them so, without dropout

    def forward(self, batch: Batch) -> Tensor:
        """Return logits (batch, classes), or scores (batch,) for regression."""
        logits: Tensor = self.model(**for_model(batch)).logits
        return logits[:, 0] if self.task.is_regression else logits

    def setup(self, stage: str) -> None:
        """Refuse a precision in which Lightning rounds the labels themselves.

        Raises:
            UserError: The labels are scores, and the trainer turns every number into half precision.
        """
        if self.task.is_regression and self.trainer.precision in ("bf16-true", "16-true"):
            raise UserError(
                f"trainer.precision={self.trainer.precision} would round the scores of task={self.task.name} to 2 or 3 "
                "digits; add trainer.precision=bf16-mixed"
            )

    # --- fit ---

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        loss = self._loss(self(batch), batch["labels"])
        self._watch("training", loss)
        self.log("train/loss", loss, prog_bar=True, batch_size=len(batch["labels"]))
        return loss

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        logits = self(batch)
        loss = self._loss(logits, batch["labels"])
        self._watch("validation", loss)
        self.val_metrics.update(self.predictions(logits), batch["labels"])
        self.val_loss.update(loss, weight=len(logits))

    def on_validation_epoch_end(self) -> None:
        self._check_losses()
        self.log("val/loss", self.val_loss.compute(), sync_dist=True)
        scores = self.val_metrics.compute()
        self.log_dict({f"val/{name}": score for name, score in scores.items()}, prog_bar=True, sync_dist=True)
        self.val_loss.reset()
        self.val_metrics.reset()

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.task.is_regression:
            return nn.functional.mse_loss(logits.float(), labels)
        return nn.functional.cross_entropy(logits.float(), labels)

    def predictions(self, logits: Tensor) -> Tensor:
        """Return what metrics compare with labels: classes (batch,), or scores."""
        return logits.float() if self.task.is_regression else logits.argmax(dim=-1)

    def on_train_epoch_end(self) -> None:
        self._check_losses()

    def _watch(self, stage: str, loss: Tensor) -> None:
        """Look at a loss: at once on the CPU; a GPU is asked about many at a time, and is not made to wait."""
        self._losses.add(f"the {stage} loss is NaN or infinite at step {self.global_step}", loss)
        if self._losses.due:
            self._check_losses()

    def _check_losses(self) -> None:
        """Stop where a loss was not finite.

        Raises:
            NotFiniteError: Names the first such step, and a parameter that is not finite either by now.
        """
        what = self._losses.first()
        if what is not None:
            parameter = first_not_finite(dict(self.model.named_parameters()))
            also = "" if parameter is None else f" (and parameter {parameter} by now)"
            raise NotFiniteError(f"{what}{also}: training has diverged; add a smaller optimizer.lr, or warmup=0.1")

    def configure_optimizers(self) -> dict[str, Any]:
        if self.make_optimizer is None:
            raise RuntimeError("this classifier was made for testing and has no optimiser")
        optimizer = self.make_optimizer(self.parameters())
        # A fused optimiser offers to unscale the gradients of mixed precision itself, in its step: too late to clip
        # them, which Lightning refuses, even for bfloat16, where nothing is scaled. So they are unscaled before.
        optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = get_linear_schedule_with_warmup(optimizer, round(self.warmup * steps), steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step", "name": "learning_rate"},
        }

    # --- checkpoints ---

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the model's origin, as primitives and tensors only, so that a checkpoint loads with ``weights_only``.

        Raises:
            NotFiniteError: A loss or a weight is not finite: nobody could go on from there.
        """
        self._check_losses()
        check_weights(checkpoint.get("state_dict", {}), "no checkpoint is written")
        config = self.model.config.to_dict()
        checkpoint[CHECKPOINT_KEY] = {"task": self.task.to_dict(), "architecture": _primitive(config), **self.origin}


def _primitive(value: Any) -> Any:
    """Convert a config to what JSON could hold: types that torch's safe loader knows."""
    if isinstance(value, dict):
        return {str(key): _primitive(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_primitive(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
