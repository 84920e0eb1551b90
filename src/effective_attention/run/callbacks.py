"""Attention while the model learns: before the first step and after every validation, a few examples are looked at.

So a dashboard shows which layers leave their pretrained start, and when [CLS] turns from delimiters to words.
"""

from __future__ import annotations

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback

from effective_attention.analyses.common.run import run_analyses
from effective_attention.reports.chapters import all_chapters
from effective_attention.reports.scalars import named_scalars
from effective_attention.run.analysing import PlannedAnalyses
from effective_attention.run.random_state import capture, restore

WATCHED = ("token_types", "finetuning_shift")
"""The analyses that are followed."""


class AttentionDrift(Callback):
    """A callback that logs ``named_scalars`` on a fixed subset of the evaluation split, from step 0 on.

    Args:
        planned: Model, pretrained start and tagged texts. Of its analyses those that give scalars are used.
        examples: How many examples, spread evenly over the split.
    """

    def __init__(self, planned: PlannedAnalyses, examples: int) -> None:
        self.planned = planned
        self.examples = examples

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the pretrained start, unless the run is resumed: then it has done so."""
        if trainer.global_step > 0:
            return
        state = capture(pl_module.device)
        scalars = self._scalars(pl_module.device)
        restore(state, pl_module.device)  # training draws what it would without us
        for logger in trainer.loggers:
            logger.log_metrics(scalars, step=0)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking:
            pl_module.log_dict(self._scalars(pl_module.device), rank_zero_only=False)

    def _scalars(self, device: torch.device) -> dict[str, float]:
        subject = self.planned.subject(device)
        analyses = self.planned.set_up(subject, {}, only=WATCHED)
        count = len(subject.split)
        indices = np.unique(np.linspace(0, count - 1, min(self.examples, count)).round().astype(int)).tolist()
        return named_scalars(run_analyses(subject, analyses, indices=indices), all_chapters())


class ValidationStep(Callback):
    """A callback that logs a validation at the number of steps the model has learnt for, as everything else is.

    Lightning counts the last of them only after the validation, so that one after the first step would be logged at
    step 0, where the pretrained start is.
    """

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        counted = {"step": float(trainer.global_step), "epoch": float(trainer.current_epoch)}
        pl_module.log_dict(counted, sync_dist=True)
