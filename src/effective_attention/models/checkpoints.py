"""Write a checkpoint completely or not at all; read and check one before anything else is done with it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO

from effective_attention.data.tasks import Task
from effective_attention.errors import UserError
from effective_attention.io import whole_file
from effective_attention.models.classifier import CHECKPOINT_KEY, SequenceClassifier
from effective_attention.models.encoders import empty_classifier


class WholeCheckpointIO(TorchCheckpointIO):
    """A checkpoint writer that never leaves half a file behind.

    Lightning writes to ``/tmp`` and moves; to another disk that means a copy, and half a file when that disk is full.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        with whole_file(Path(path)) as file:
            torch.save(checkpoint, file)


def read_checkpoint(path: Path, task: Task) -> dict[str, Any]:
    """Load a checkpoint without running code; refuse one that is not ours or not for this task.

    A task without labels takes the model of any task.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # about the pickle protocol of a file that is refused anyway
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # random bytes make the unpickler raise nearly anything
        raise UserError(
            f"checkpoint {path} cannot be read: damaged, or not a PyTorch file ({type(error).__name__})"
        ) from error
    trained_on = _trained_on(checkpoint)
    if trained_on is None:
        raise UserError(
            f"checkpoint {path} was not written by this project; train one with `python train.py task={task.name}`"
        )
    if trained_on != task.name and task.has_labels:
        raise UserError(f"checkpoint {path} was trained on {trained_on}, not on {task.name}; add task={trained_on}")
    return checkpoint


def _trained_on(checkpoint: Any) -> str | None:
    """Return the name of the task the checkpoint was trained on; None if it lacks anything that we write."""
    try:
        origin = checkpoint[CHECKPOINT_KEY]
        weights = checkpoint["state_dict"]
        named = origin["encoder"]["name"], origin["architecture"]["model_type"], origin["task"]["name"]
    except (TypeError, KeyError, IndexError):
        return None
    return named[-1] if isinstance(weights, dict) else None


def restore_classifier(checkpoint: dict[str, Any], task: Task) -> SequenceClassifier:
    """Build the model of a checkpoint, without reading its pretrained start again."""
    origin = dict(checkpoint[CHECKPOINT_KEY])
    model = empty_classifier(origin.pop("architecture"))
    origin.pop("task")
    classifier = SequenceClassifier(model, task, origin=origin)
    check_fits(checkpoint, classifier)
    classifier.load_state_dict(checkpoint["state_dict"])
    return classifier


def check_fits(checkpoint: dict[str, Any], classifier: SequenceClassifier) -> None:
    """Refuse weights that do not fit the model, in one line; loading them would fail with hundreds."""
    states = classifier.state_dict(), checkpoint["state_dict"]
    here, there = ({name: tensor.shape for name, tensor in state.items()} for state in states)
    if here != there:
        name = checkpoint[CHECKPOINT_KEY]["encoder"]["name"]
        raise UserError(
            f"the checkpoint's model is {name}, whose weights do not fit the one chosen here; choose the same model"
        )
