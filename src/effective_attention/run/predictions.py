"""What the model answers for every example of the split: ``tables/predictions.parquet`` and ``.csv``."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import torch
from torch import Tensor

from effective_attention.data.examples import Examples
from effective_attention.data.tasks import Task


def prediction_table(examples: Examples, task: Task, logits: Mapping[int, Tensor]) -> pd.DataFrame:
    """Return a row an example, in the order of the split.

    Columns: ``example`` (its place in the split), ``text``, ``text_pair`` (for pairs), ``gold`` and ``predicted``
    (names of labels, or scores), ``probability`` (of the predicted label; the score itself for regression) and
    ``correct`` (missing for regression).

    Args:
        examples: The split, with labels.
        task: Names the labels.
        logits: By the examples' places; of a label each, or one score.
    """
    places = sorted(logits)
    answers = torch.stack([logits[place].float() for place in places])  # (example, label), or (example,) for scores
    columns: dict[str, list[object]] = {"example": [*places]}
    columns["text"] = [examples.texts[place][0] for place in places]
    if task.is_pair:
        columns["text_pair"] = [examples.texts[place][1] for place in places]
    assert examples.labels is not None
    gold = [examples.labels[place] for place in places]
    answered = _scores(gold, answers) if task.is_regression else _classes(gold, answers, task)
    return pd.DataFrame({**columns, **answered})


def _scores(gold: list[float], answers: Tensor) -> dict[str, list[object]]:
    predicted = answers.tolist()
    return {"gold": [*gold], "predicted": predicted, "probability": predicted, "correct": [None] * len(gold)}


def _classes(gold: list[float], answers: Tensor, task: Task) -> dict[str, list[object]]:
    found = answers.softmax(dim=-1).max(dim=-1)
    predicted = found.indices.tolist()
    return {
        "gold": [task.labels[int(label)] for label in gold],
        "predicted": [task.labels[label] for label in predicted],
        "probability": found.values.tolist(),
        "correct": [label == answer for label, answer in zip(gold, predicted, strict=True)],
    }
