"""A moment between two steps of training, from which it can go on as if it had never stopped.

Lightning notes how far its loops have got whenever it saves, also in the middle of a step or of a validation, and what
it then does on resuming depends on where that was: a validation is finished without its first batches, or skipped. A
mark is always taken after a step of the optimiser, and written in the words of Lightning's loops in such a way that
they go on with the next step, or with the whole of a validation that was due.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytorch_lightning as pl

from effective_attention.run.random_state import RandomState


@dataclass(frozen=True)
class Mark:
    """How far training has got.

    Attributes:
        step: Steps of the optimiser.
        epoch: Epochs that are finished, their validation included.
        batches: Batches of the next epoch that are finished.
        all_batches: Batches of all epochs that are finished.
        validation: Whether one was to follow this step, and whether it has.
        random: What the next step will draw from.
    """

    step: int
    epoch: int
    batches: int
    all_batches: int
    validation: Literal["none", "due", "done"]
    random: RandomState

    def write(self, checkpoint: dict[str, Any], *, batches_an_epoch: float) -> None:
        """Make a checkpoint of Lightning's begin here when it is resumed."""
        loops = checkpoint["loops"]["fit_loop"]
        begun = self.epoch + (self.batches > 0)
        loops["epoch_progress"] = _progress(begun, self.epoch)
        loops["epoch_loop.batch_progress"] = {
            "total": _counts(self.all_batches, self.all_batches),
            "current": _counts(self.batches, self.batches),
            "is_last_batch": self.batches == batches_an_epoch,
        }
        due = int(self.validation == "due")  # said to have begun its first batch: Lightning begins it again
        loops["epoch_loop.val_loop.batch_progress"] = {**_progress(due, 0), "is_last_batch": False}
        seen = self.step - (self.validation != "none")  # the loop counts a step after the validation that follows it
        loops["epoch_loop.state_dict"] = {**loops["epoch_loop.state_dict"], "_batches_that_stepped": seen}


def _progress(begun: int, finished: int) -> dict[str, dict[str, int]]:
    return {"total": _counts(begun, finished), "current": _counts(begun, finished)}


def _counts(begun: int, finished: int) -> dict[str, int]:
    return {"ready": begun, "started": begun, "processed": finished, "completed": finished}


def mark_step(trainer: pl.Trainer, random: RandomState) -> Mark:
    """Mark the end of a batch whose optimiser step is done."""
    loop = trainer.fit_loop.epoch_loop
    batches = loop.batch_progress.current.ready
    due = loop._should_check_val_fx(trainer.fit_loop._data_fetcher)
    if batches == trainer.num_training_batches and not due:
        return mark_epoch(trainer, random)
    validation: Literal["due", "none"] = "due" if due else "none"
    return Mark(trainer.global_step, trainer.current_epoch, batches, loop.total_batch_idx + 1, validation, random)


def mark_epoch(trainer: pl.Trainer, random: RandomState) -> Mark:
    """Mark the end of an epoch."""
    all_batches = trainer.fit_loop.total_batch_idx + 1
    return Mark(trainer.global_step, trainer.current_epoch + 1, 0, all_batches, "none", random)


def is_step(trainer: pl.Trainer) -> bool:
    """Tell whether the batch that ends was the last of those whose gradients the optimiser adds up."""
    return not trainer.fit_loop._should_accumulate()
