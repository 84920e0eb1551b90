"""A small checkpoint as training writes it, to be changed by a stranger's hand."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import torch

from effective_attention.models.classifier import SequenceClassifier
from effective_attention.models.encoders import TinyEncoder

ENCODER = TinyEncoder(layers=1, heads=2, width=8)


@cache
def _classifier(task_name: str) -> SequenceClassifier:
    from hydra import compose, initialize_config_dir
    from hydra.utils import instantiate

    from helpers.paths import CONF

    with initialize_config_dir(str(CONF), version_base="1.3"):
        task = instantiate(compose(overrides=[f"+task={task_name}"]).task)
    origin = {"encoder": ENCODER.to_dict(), "seed": 1, "data": "sample"}
    return SequenceClassifier(ENCODER.classifier(task.num_outputs), task, origin=origin)


def tiny_checkpoint(task_name: str = "mrpc") -> dict[str, Any]:
    """Return a fresh dictionary; its tensors are shared, so replace them, do not write into them."""
    classifier = _classifier(task_name)
    checkpoint: dict[str, Any] = {}
    classifier.on_save_checkpoint(checkpoint)
    return {**deepcopy(checkpoint), "state_dict": dict(classifier.state_dict())}


def write_checkpoint(path: Path, content: Any) -> Path:
    torch.save(content, path)
    return path
