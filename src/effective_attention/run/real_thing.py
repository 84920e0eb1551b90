"""Say which command makes results that count, where a run was a demonstration on the embedded sample."""

from __future__ import annotations

from effective_attention.data.tasks import Task
from effective_attention.models.encoders import PretrainedEncoder
from effective_attention.models.packaged import PACKAGED
from effective_attention.run.origins import Head, Origin

_NEEDS_HUB = "(needs the hub)"


def real_command(task: Task, origin: Origin, head: Head, checkpoint: str | None) -> str:
    """Return the command; the model is the one that the user chose, if that is a real one.

    It says so where the command needs the Hugging Face hub: for GLUE, and for the paper's model.
    """
    data = f"task={task.name} {task.local_options}" if task.loaders else f"+experiment=paper task={task.name}"
    hub = "" if task.loaders else f" {_NEEDS_HUB}"
    encoder = origin.encoder
    if head == "finetuned" and task.has_labels:
        own = data if task.loaders else f"task={task.name} data=hub"
        return f"evaluate.py checkpoint={checkpoint or encoder.name} {own}{hub}"
    if not isinstance(encoder, PretrainedEncoder) or encoder.embedded:
        return f"train.py {data}{hub}" if task.has_labels else f"evaluate.py model=bert_base {data} {_NEEDS_HUB}"
    model = f"model={encoder.name}" if encoder.name in PACKAGED else f"model.name={encoder.name}"
    if task.has_labels:
        return f"train.py {model} {data}{hub}"
    chosen = model if checkpoint is None else f"checkpoint={checkpoint}"
    return f"evaluate.py {chosen} {data}"
