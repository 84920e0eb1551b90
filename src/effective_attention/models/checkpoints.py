"""Write a checkpoint completely or not at all; read and check one before anything else is done with it."""

from __future__ import annotations

import logging
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from torch import Tensor

from effective_attention.data.custom.task import CustomTask
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError, quoted, shorten
from effective_attention.io import whole_file
from effective_attention.models.architectures import check_fit, empty_model, stored_config
from effective_attention.models.classifier import CHECKPOINT_KEY, SequenceClassifier
from effective_attention.models.encoders import PretrainedEncoder, RandomEncoder, encoder_from_dict
from effective_attention.models.stored_weights import check_tensors
from effective_attention.program import as_typed

log = logging.getLogger(__name__)
_PREFIX = "model."  # of the weights: the classifier's attribute


class WholeCheckpointIO(TorchCheckpointIO):
    """A checkpoint writer that never leaves half a file behind, and removes nothing but checkpoints beside its own.

    Lightning writes to ``/tmp`` and moves; to another disk that means a copy, and half a file when that disk is full.
    Which older file it removes it reads from the checkpoint that it resumes: any file, folder or address.
    """

    def __init__(self) -> None:
        self._folders: set[Path] = set()

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        with whole_file(Path(path)) as file:
            torch.save(checkpoint, file)
        self._folders.add(Path(path).parent.resolve())

    def remove_checkpoint(self, path: str | Path) -> None:
        file = Path(path)
        if file.suffix == ".ckpt" and file.is_file() and file.parent.resolve() in self._folders:
            file.unlink()
        elif file.exists():
            log.warning("%s stays: it is not a checkpoint of this run", quoted(str(path)))


def read_checkpoint(path: Path, task: Task | CustomTask) -> dict[str, Any]:
    """Load a checkpoint without running code; refuse one that is not ours or not for this task.

    A stranger may have written it. Of what it says of itself, only what is checked here is ever used: the weights, the
    architecture they fit, which tokenizer goes with them, the seed, the task's name and, for ``task=custom``, its
    labels (``stored_labels``). Nothing in it is instantiated, its task with its metrics included. A task without labels
    takes the model of any task.
    """
    checkpoint = _load(path)
    trained_on = _trained_on(checkpoint)
    if trained_on is None:
        raise UserError(
            f"checkpoint {path} was not written by this project; "
            f"train one with `{as_typed(f'train.py task={task.name}')}`"
        )
    if trained_on != task.name and task.has_labels:
        known = trained_on.isidentifier() and len(trained_on) < 60
        hint = f"add task={trained_on}" if known else "choose another one"
        raise UserError(f"checkpoint {path} was trained on {shorten(trained_on)}, not on {task.name}; {hint}")
    try:
        check_tensors(checkpoint["state_dict"])
        _check_origin(checkpoint[CHECKPOINT_KEY], _weights(checkpoint), task)
    except ValueError as error:
        raise UserError(f"checkpoint {path} cannot be used: {error}") from error
    return checkpoint


def _load(path: Path) -> Any:
    try:
        _check_size(path)
        with warnings.catch_warnings(action="ignore"):  # about the pickle protocol of a file that is refused anyway
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # random bytes make the unpickler raise nearly anything
        raise UserError(
            f"checkpoint {path} cannot be read: damaged, or not a PyTorch file ({type(error).__name__})"
        ) from error


def _check_size(path: Path) -> None:
    """Refuse an archive that holds more than its size on disk: compressed, its zeros would fill any memory."""
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
            raise ValueError("compressed")


def _trained_on(checkpoint: Any) -> str | None:
    """Return the name of the task the checkpoint was trained on; None if it lacks anything that we write."""
    try:
        origin = checkpoint[CHECKPOINT_KEY]
        name = origin["task"]["name"]
        entries = checkpoint["state_dict"], origin, origin["encoder"], origin["architecture"]
    except (TypeError, KeyError, IndexError):
        return None
    return name if isinstance(name, str) and all(isinstance(entry, dict) for entry in entries) else None


def _weights(checkpoint: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the weights by the names that the model itself has for them."""
    foreign = next((name for name in checkpoint["state_dict"] if not name.startswith(_PREFIX)), None)
    if foreign is not None:
        raise ValueError(f"weight {shorten(foreign)} is none of a model's")
    return {name.removeprefix(_PREFIX): tensor for name, tensor in checkpoint["state_dict"].items()}


def _check_origin(origin: Mapping[str, Any], weights: Mapping[str, Tensor], task: Task | CustomTask) -> None:
    """Refuse, with a `ValueError`, an origin that we did not write, or that does not describe the weights."""
    try:
        config = stored_config(origin["architecture"], weights)
        check_fit(config, weights)
    except ValueError as error:
        raise ValueError(f"its architecture: {error}") from error
    if isinstance(task, Task) and task.has_labels and config.num_labels != task.num_outputs:
        raise ValueError(f"its model has {config.num_labels} outputs, task {task.name} has {task.num_outputs}")
    encoder = encoder_from_dict(origin["encoder"])
    if isinstance(encoder, RandomEncoder):
        _check_random(encoder, config)
    seed = origin.get("seed", 0)
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise ValueError(f"its seed must be a whole number from 0 to {2**32 - 1}, got {quoted(seed)}")


def _check_random(encoder: RandomEncoder, config: Any) -> None:
    """Refuse an encoder of other sizes than the architecture: its random start is built again for some analyses."""
    said = {"num_hidden_layers": encoder.layers, "num_attention_heads": encoder.heads, "hidden_size": encoder.width}
    said["intermediate_size"] = encoder.widening * encoder.width
    for name, value in said.items():
        if value != getattr(config, name, None):
            raise ValueError(f"its encoder's {name} is {quoted(value)}, its architecture's is another")


def stored_labels(checkpoint: Mapping[str, Any], place: str) -> list[str]:
    """Return the labels that the model of a checkpoint was trained on, in the order of its outputs; none: scores.

    Args:
        checkpoint: One that `read_checkpoint` returned.
        place: The option that names it.

    Raises:
        UserError: They are not what we write, or not as many as the model has outputs.
    """
    origin = checkpoint[CHECKPOINT_KEY]
    labels = origin["task"].get("labels")
    outputs = stored_config(origin["architecture"], _weights(checkpoint)).num_labels
    are_names = isinstance(labels, list) and all(isinstance(name, str) and name.isprintable() for name in labels)
    if not are_names or len(set(labels)) != len(labels) or (len(labels) or 1) != outputs:
        raise UserError(f"{place} does not say which labels its model was trained on; train it anew")
    return list(labels)


def restore_classifier(checkpoint: dict[str, Any], task: Task) -> SequenceClassifier:
    """Build the model of a checkpoint that `read_checkpoint` returned, without reading its pretrained start again."""
    origin = dict(checkpoint[CHECKPOINT_KEY])
    origin.pop("task")
    try:
        model = empty_model(stored_config(origin.pop("architecture"), _weights(checkpoint)))
    except ValueError as error:
        raise UserError(f"checkpoint cannot be used: its architecture: {error}") from error
    encoder = encoder_from_dict(origin["encoder"])
    if isinstance(encoder, PretrainedEncoder) and not encoder.embedded:
        log.info("the checkpoint names model %r: its tokenizer is loaded from there, and no code", encoder.name)
    classifier = SequenceClassifier(model, task, origin=origin)
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
