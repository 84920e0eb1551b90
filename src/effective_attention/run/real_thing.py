"""Say what a run's results are worth: a demonstration on the embedded sample, or those of a small or random model."""

from __future__ import annotations

from effective_attention.data.tasks import Task
from effective_attention.models.encoders import Encoder, PretrainedEncoder
from effective_attention.models.packaged import PACKAGED
from effective_attention.program import as_typed, is_on
from effective_attention.run.origins import Head, Origin

_NEEDS_HUB = "(needs the hub)"
_NO_HUB = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_OWN_DATA = {
    "embedded": "embedded model: a small one, quick on a CPU; model.name=<hub id or folder> takes a larger one",
    "random": "random model: for dry runs, as it knew nothing before; model=minilm takes a real one",
}
"""What there is to say of a model on data that are the user's own, or the whole of GLUE."""


def is_embedded(encoder: Encoder) -> bool:
    """Tell whether the weights came with the package."""
    return isinstance(encoder, PretrainedEncoder) and encoder.embedded


def note_on(task: Task, origin: Origin, head: Head, checkpoint: str | None, *, is_sample: bool) -> str | None:
    """Say in a line what is not real about a run: its model, its data or both; None: nothing.

    Args:
        task: What was learnt or tested.
        origin: Of the model.
        head: Of the model.
        checkpoint: As the user named it.
        is_sample: Whether the data are the embedded sample.
    """
    model = ("embedded" if is_embedded(origin.encoder) else "random") if origin.encoder.embedded else None
    if not is_sample:
        return None if model is None else _OWN_DATA[model]
    parts = {None: "embedded data", "embedded": "embedded model and data", "random": "random model, embedded data"}
    said = f"{parts[model]}: a small demonstration, not the paper's setting"
    command = real_command(task, origin, head, checkpoint)
    if _NEEDS_HUB in command and any(map(is_on, _NO_HUB)):
        return said  # it would not run
    return f"{said}; for the real thing: {as_typed(command)}"


def real_command(task: Task, origin: Origin, head: Head, checkpoint: str | None) -> str:
    """Return the command; the model is the one that the user chose, if that is a real one.

    It says so where the command needs the Hugging Face hub: for GLUE, and for the paper's model.
    """
    data = f"task={task.name} {task.local_options}" if task.loaders else f"+experiment=paper task={task.name}"
    hub = "" if task.loaders else f" {_NEEDS_HUB}"
    encoder = origin.encoder
    if head == "verb":
        return f"evaluate.py {_named(encoder)} head=verb {data}"
    if head == "finetuned" and task.has_labels:
        own = data if task.loaders else f"task={task.name} data=hub"
        return f"evaluate.py checkpoint={checkpoint or encoder.name} {own}{hub}"
    if not isinstance(encoder, PretrainedEncoder) or encoder.embedded:
        return f"train.py {data}{hub}" if task.has_labels else f"evaluate.py model=bert_base {data} {_NEEDS_HUB}"
    model = _named(encoder)
    if task.has_labels:
        return f"train.py {model} {data}{hub}"
    chosen = model if checkpoint is None else f"checkpoint={checkpoint}"
    return f"evaluate.py {chosen} {data}"


def _named(encoder: Encoder) -> str:
    """Return the option that names a model."""
    return f"model={encoder.name}" if encoder.name in PACKAGED else f"model.name={encoder.name}"
