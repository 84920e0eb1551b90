"""Intervals over examples of the numbers of a run: scores, and what chapters of the report follow.

Their names are ``interval/<name>/low`` and ``interval/<name>/high``, 95 % percentile intervals of draws of the examples
with replacement; tables have columns of their own. See ``analyses.common.resampling``. A number of another attention
than the standard one has ``interval/<name>/change_low`` and ``change_high`` besides, those of its difference from the
same number under standard attention: both are of the same draws, so that the difference is known better than either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from effective_attention.analyses.common.resampling import Resampling, percentiles
from effective_attention.attributions.ranking import draw_again
from effective_attention.models.classifier import SequenceClassifier
from effective_attention.progress import progress
from effective_attention.reports.chapter import Chapter
from effective_attention.reports.intervals import PREFIX

Metrics = dict[str, float]


def score_intervals(
    classifier: SequenceClassifier,
    logits: Mapping[str, Mapping[int, Tensor]],
    labels: Sequence[float],
    resampling: Resampling,
) -> Metrics:
    """Draw the examples again, the same ones for each attention, and score the answers to them.

    Args:
        classifier: Knows the task's metrics.
        logits: By attention, then by the examples' places in the split.
        labels: Of the split.
        resampling: The draws.
    """
    order = sorted(next(iter(logits.values())))
    gold = torch.tensor([labels[place] for place in order])
    answers = {
        kind: classifier.predictions(torch.stack([of_kind[place] for place in order]))
        for kind, of_kind in logits.items()
    }
    draws = draw_again(len(order), resampling.draws, resampling.seed)
    found: dict[str, list[float]] = {}
    metrics = classifier.task.build_metrics()
    for draw in progress(draws, "intervals of scores", "draws"):
        for kind, answered in answers.items():
            metrics.reset()
            metrics.update(answered[draw], gold[draw])
            for name, score in metrics.compute().items():
                found.setdefault(f"test/{kind}/{name}", []).append(float(score))
    return _ends(pd.DataFrame(found))


def scalar_intervals(resampling: Resampling, chapters: Iterable[Chapter]) -> Metrics:
    """Say what the numbers that chapters follow are in the draws of their analyses' tables."""
    metrics: Metrics = {}
    for chapter in chapters:
        if chapter.scalars is not None:
            found = [chapter.scalars.compute(table) for table in resampling.tables(chapter.analysis)]
            metrics |= _ends(pd.DataFrame(found))
    return metrics


def _ends(found: pd.DataFrame) -> Metrics:
    """Name the ends of the interval of each column, and of what is to be compared with standard attention."""
    return _named(found, "low", "high") | _named(_changes(found), "change_low", "change_high")


def _changes(found: pd.DataFrame) -> pd.DataFrame:
    """Return, for each column of another attention, how much it is above the same one of standard attention.

    >>> _changes(pd.DataFrame({"cosine/standard/a": [0.5], "cosine/effective/a": [0.75], "null/effective/b": [1.0]}))
       cosine/effective/a
    0                0.25
    """
    changes = {}
    for name in found.columns:
        chapter, attention, what = name.split("/", 2)
        standard = f"{chapter}/standard/{what}"
        if attention != "standard" and standard in found:
            changes[name] = found[name] - found[standard]
    return pd.DataFrame(changes, index=found.index)


def _named(found: pd.DataFrame, *sides: str) -> Metrics:
    """Name the ends of the interval of each column; of one without values in most draws none."""
    ends = zip(found.columns, *percentiles(found.to_numpy(float)), strict=True)
    return {
        f"{PREFIX}/{name}/{side}": float(end)
        for name, *both in ends
        for side, end in zip(sides, both, strict=True)
        if np.isfinite(end)
    }
