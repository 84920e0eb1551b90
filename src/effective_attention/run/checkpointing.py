"""The two checkpoints of a training run: ``best.ckpt``, and ``last.ckpt``, from which the same run goes on."""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from pytorch_lightning.callbacks import Checkpoint, ModelCheckpoint
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_only

from effective_attention.errors import UserError
from effective_attention.finite import NotFiniteError
from effective_attention.processes import gather, rank_and_world
from effective_attention.run.mark import Mark, is_step, mark_epoch, mark_step
from effective_attention.run.random_state import RandomState, capture, restore
from effective_attention.run.signals import Stopped, StopSignals

log = logging.getLogger(__name__)
STATE = "LastCheckpoint"
"""Where in a checkpoint's ``callbacks`` everything is that resuming needs beyond what Lightning keeps."""


class BestCheckpoint(ModelCheckpoint):
    """A callback that saves the weights with the best score, and knows that score after a resume in another folder."""

    def __init__(self, folder: Path, metric: str) -> None:
        options: dict[str, Any] = {"mode": "max", "save_weights_only": True, "enable_version_counter": False}
        super().__init__(str(folder), "best", monitor=metric, **options)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the score if the weights it belongs to are here; else the next ones are the best."""
        here = str(Path(str(self.dirpath)) / "best.ckpt")
        if Path(here).is_file() and state_dict["best_model_path"]:
            places = {"best_model_path": here, "kth_best_model_path": here, "dirpath": self.dirpath}
            models = {here: state_dict["best_model_score"]}
            super().load_state_dict({**state_dict, **places, "best_k_models": models})


class LastCheckpoint(Checkpoint):
    """A callback that keeps ``last.ckpt``, and lets the training steps draw from random states of their own.

    So what else draws (a validation, an analysis, the loader of the data) changes nothing, and a resumed run draws
    what the uninterrupted one would have.

    Args:
        path: Of the checkpoint.
        signals: What the user or the machine asks for.
        every_steps: Save after so many steps, beside after every epoch; None: do not.
        every_minutes: Save after so many minutes, beside after every epoch; None: do not.
        facts: Primitives to keep in the checkpoint; see ``resume``.

    Attributes:
        validation: The scores of the last validation, ``val/<metric>``, also of one before a resume.
    """

    def __init__(
        self,
        path: Path,
        signals: StopSignals,
        *,
        every_steps: int | None = None,
        every_minutes: float | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.signals = signals
        self.every_steps = every_steps
        self.every_minutes = every_minutes
        self.facts = dict(facts or {})
        self.validation: dict[str, float] = {}
        self._mark: Mark | None = None
        self._random: RandomState | None = None
        self._updating = False  # the optimiser is changing the weights: they belong to no mark
        self._saved_at = 0.0
        self._device = torch.device("cpu")
        self._requeue: int | None = None

    @property
    def state_key(self) -> str:
        return STATE

    # --- what training does ---

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._saved_at = time.monotonic()
        self._device = trainer.strategy.root_device
        environment = trainer._accelerator_connector.cluster_environment
        if isinstance(environment, SLURMEnvironment) and environment.auto_requeue:
            self._requeue = int(environment.requeue_signal or signal.SIGUSR1)
        self.signals.wait_for_step(*([] if self._requeue is None else [self._requeue]))

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *batch: Any) -> None:
        if self._random is not None:
            restore(self._random, self._device)

    def on_before_optimizer_step(self, *arguments: Any) -> None:
        self._updating = True

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *batch: Any) -> None:
        self._random = capture(self._device)
        if is_step(trainer):
            self._mark = mark_step(trainer, self._random)
            self._updating = False
            counted = self.every_steps is not None and trainer.global_step % self.every_steps == 0
            self._save_or_stop(trainer, due=counted)

    def on_validation_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *batch: Any) -> None:
        """Save or stop here too, as a validation can be long; several processes do not have equally many batches."""
        if self._mark is not None and not trainer.sanity_checking and rank_and_world()[1] == 1:
            self._save_or_stop(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.sanity_checking or self._mark is None:
            return
        scores = trainer.callback_metrics.items()
        self.validation = {name: float(value) for name, value in scores if name.startswith("val/")}
        if self._mark.batches < trainer.num_training_batches:  # one in the middle of an epoch
            self._mark = replace(self._mark, validation="done")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._random is not None:
            self._mark = mark_epoch(trainer, self._random)
            self._save_or_stop(trainer, due=True)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.signals.at_once()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Save what was learnt; of several processes each may be elsewhere, so that they cannot save together."""
        self.signals.forget()
        if isinstance(exception, NotFiniteError):
            return  # nobody could go on from there
        if rank_and_world()[1] > 1 or self._mark is None or self._updating or trainer.state.fn != TrainerFn.FITTING:
            return
        if not isinstance(exception, Stopped) or not exception.is_told:
            self._save(trainer)
            self._tell()
            if isinstance(exception, Stopped):
                exception.is_told = True

    # --- when to save ---

    def _save_or_stop(self, trainer: pl.Trainer, *, due: bool = False) -> None:
        """Save if that is due, or time has passed, and do what any process was asked to; all are at the same step."""
        minutes = (time.monotonic() - self._saved_at) / 60
        due = due or (self.every_minutes is not None and minutes >= self.every_minutes)
        asked = torch.tensor([self.signals.received or 0, int(due)], device=trainer.strategy.root_device)
        number, save = (int(value) for value in trainer.strategy.reduce(asked, reduce_op="max"))
        if number == self._requeue:
            self.signals.received = None
            trainer._signal_connector._slurm_sigusr_handler_fn(number, None)  # Lightning's, but between two steps
            number = 0
        if number or save:
            self._save(trainer)
        if number:
            self._tell()
            raise Stopped(number, is_told=True)

    def _save(self, trainer: pl.Trainer) -> None:
        for logger in trainer.loggers:
            logger.save()
        trainer.save_checkpoint(self.path)
        self._saved_at = time.monotonic()

    def _tell(self) -> None:
        assert self._mark is not None
        if rank_zero_only.rank == 0:
            log.warning("stopped at step %d; go on with resume=%s", self._mark.step, self.path.parent.parent)

    # --- what is saved ---

    def state_dict(self) -> dict[str, Any]:
        """Return the mark with the random states of all processes; every process calls this."""
        assert self._mark is not None
        mark = {**asdict(replace(self._mark, random={})), "random": gather(self._mark.random)}
        return {"mark": mark, "device": self._device.type, "validation": self.validation, **self.facts}

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        assert self._mark is not None
        self._mark.write(checkpoint, batches_an_epoch=trainer.num_training_batches)

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Go on from the mark: here with the random states, in the data module with the batches.

        Raises:
            UserError: There were more or fewer processes, or they ran on another kind of device.
        """
        state = checkpoint["callbacks"][STATE]
        rank, world = rank_and_world()
        before = len(state["mark"]["random"])
        if before != world:
            raise UserError(f"resume: the run had {before} processes, not {world}; choose trainer.devices as it was")
        if state["device"] != trainer.strategy.root_device.type:
            device = trainer.strategy.root_device.type
            raise UserError(f"resume: the run was on {state['device']}, not {device}; choose trainer.accelerator so")
        self._mark = Mark(**{**state["mark"], "random": state["mark"]["random"][rank]})
        self._random = self._mark.random
        self.validation = dict(state["validation"])
        trainer.datamodule.resume(epoch=self._mark.epoch, batches_done=self._mark.batches)


def keep_only(which: Literal["all", "best", "none"], folder: Path) -> None:
    """Remove checkpoints of a run that has ended: in a sweep they may be all that fills the disk."""
    unwanted = {"all": (), "best": ("last.ckpt",), "none": ("last.ckpt", "best.ckpt")}[which]
    for name in unwanted:
        (folder / name).unlink(missing_ok=True)
    if which == "none":
        with contextlib.suppress(OSError):  # something else is in it
            folder.rmdir()
