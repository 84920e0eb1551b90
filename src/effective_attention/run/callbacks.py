"""Attention while the model learns: after every validation, a few examples are looked at and the numbers logged.

So a dashboard shows which layers leave their pretrained start, and when [CLS] turns from delimiters to words.
"""

from __future__ import annotations

import numpy as np
import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

from effective_attention.analyses.common.run import run_analyses
from effective_attention.reports.chapters import all_chapters
from effective_attention.reports.scalars import named_scalars
from effective_attention.run.analysing import PlannedAnalyses

_WATCHED = ("token_types", "finetuning_shift")


class AttentionDrift(Callback):
    """A callback that logs ``named_scalars`` on a fixed subset of the evaluation split.

    Args:
        planned: Model, pretrained start and tagged texts. Of its analyses those that give scalars are used.
        examples: How many examples, spread evenly over the split.
    """

    def __init__(self, planned: PlannedAnalyses, examples: int) -> None:
        self.planned = planned
        self.examples = examples

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.sanity_checking:
            return
        subject = self.planned.subject(pl_module.device)
        analyses = self.planned.set_up(subject, {}, only=_WATCHED)
        count = len(subject.split)
        indices = np.unique(np.linspace(0, count - 1, min(self.examples, count)).round().astype(int)).tolist()
        scalars = named_scalars(run_analyses(subject, analyses, indices=indices), all_chapters())
        pl_module.log_dict(scalars, rank_zero_only=False)
