"""How far training and testing have got, in place of Lightning's bars, which do not fit a narrow terminal."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

from effective_attention.progress import Progress, tell


class TrainingProgress(Callback):
    """A callback that shows step, epoch, loss and main metric: in a bar, or in lines where output is redirected.

    There every epoch ends with a line of its metrics, too.

    Args:
        main_metric: The task's; None: it has none.
    """

    def __init__(self, main_metric: str | None) -> None:
        self.main_metric = main_metric
        self._shown: Progress | None = None
        self._open = ExitStack()
        self._validation = ""

    # --- training ---

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        steps = trainer.estimated_stepping_batches
        total = int(steps) if math.isfinite(steps) else None
        done = trainer.global_step
        self._show(Progress("training", total, "steps", done=done, notes=lambda: self._notes(trainer), stays=True))

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *batch: Any) -> None:
        if self._shown is not None:
            self._shown.advance(trainer.global_step - self._shown.done)

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        self._validation = f"validation {batch_idx + 1}/{sum(trainer.num_val_batches)}"
        if self._shown is not None:
            self._shown.advance(0)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._validation = ""

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        logged = trainer.callback_metrics.items()
        scores = [f"{name} {value:.3f}" for name, value in logged if name.startswith(("train/", "val/"))]
        tell(", ".join([_epoch(trainer), f"step {trainer.global_step}", *scores]))

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._open.close()

    def _notes(self, trainer: pl.Trainer) -> list[str]:
        if self._validation:
            return [_epoch(trainer), self._validation]
        logged = trainer.callback_metrics
        wanted = {"train/loss": "loss", f"val/{self.main_metric}": self.main_metric}
        return [_epoch(trainer), *(f"{word} {logged[name]:.3f}" for name, word in wanted.items() if name in logged)]

    # --- testing ---

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._show(Progress("testing", int(sum(trainer.num_test_batches)), "batches"))

    def on_test_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *batch: Any) -> None:
        if self._shown is not None:
            self._shown.advance()

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._open.close()

    # --- what is shown ---

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self._open.__exit__(type(exception), exception, exception.__traceback__)

    def _show(self, work: Progress) -> None:
        self._shown = self._open.enter_context(work)


def _epoch(trainer: pl.Trainer) -> str:
    """Say which epoch it is; after the last, Lightning counts one more."""
    last = trainer.max_epochs
    return f"epoch {min(trainer.current_epoch + 1, last or 1)}/{last}"
