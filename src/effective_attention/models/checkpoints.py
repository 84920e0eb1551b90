"""Find, read and check a checkpoint before anything else is done with it."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from effective_attention.data.tasks import Task
from effective_attention.errors import UserError
from effective_attention.models.classifier import CHECKPOINT_KEY, SequenceClassifier
from effective_attention.models.encoders import empty_classifier


def find_checkpoint(place: str | Path, option: str) -> Path:
    """A ``.ckpt`` file, or the last one of a run directory. ``option`` is what the user wrote it in, for the error."""
    path = Path(place)
    if path.is_file():
        return path
    for candidate in (path / "checkpoints" / "last.ckpt", path / "last.ckpt"):
        if candidate.is_file():
            return candidate
    if path.is_dir():
        raise UserError(f"{option}={place}: the folder has no checkpoints/last.ckpt; name a run directory or a .ckpt file")
    raise UserError(f"{option}={place}: no such file or folder; name a run directory or a .ckpt file")


def read_checkpoint(path: Path, task: Task) -> dict[str, Any]:
    """Load safely (no code is run) and make sure that it is ours and for this task."""
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise UserError(f"checkpoint {path} cannot be read: damaged, or not a PyTorch file ({type(error).__name__})") from error
    if not isinstance(checkpoint, dict) or CHECKPOINT_KEY not in checkpoint or "state_dict" not in checkpoint:
        raise UserError(f"checkpoint {path} was not written by this project; train one with `python train.py task={task.name}`")
    trained_on = checkpoint[CHECKPOINT_KEY]["task"]["name"]
    if trained_on != task.name:
        raise UserError(f"checkpoint {path} was trained on {trained_on}, not on {task.name}; add task={trained_on}")
    return checkpoint


def restore_classifier(checkpoint: dict[str, Any], task: Task) -> SequenceClassifier:
    """The model of a checkpoint, without reading its pretrained start again."""
    origin = dict(checkpoint[CHECKPOINT_KEY])
    model = empty_classifier(origin.pop("architecture"))
    origin.pop("task")
    classifier = SequenceClassifier(model, task, origin=origin)
    classifier.load_state_dict(checkpoint["state_dict"])
    return classifier
