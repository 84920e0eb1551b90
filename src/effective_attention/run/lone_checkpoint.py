"""What a checkpoint file says of its task, where the folder of its run is not around it.

``last.ckpt`` holds the options of its run; ``best.ckpt``, which is made to be handed on, only the task that its weights
answer. A stranger may have written either.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from effective_attention.program import config_folder
from effective_attention.run.options.texts import quote

CUSTOM = "custom"
_NAME = re.compile(r"[\w.-]{1,60}")
_LONGEST_COLUMN = 200  # characters
_MISSING = {
    "data": "data=local data.dir=<folder> or data.file=<file>",
    "task.label_column": "task.label_column=<column> unless that is label",
}


def read_file(place: Path) -> Any:
    """Read a checkpoint without running code; None: there is none, or it cannot be read, which is said later."""
    if not place.is_file():
        return None
    import torch  # seconds

    try:
        return torch.load(place, map_location="cpu", weights_only=True)
    except Exception:  # random bytes make the unpickler raise nearly anything
        return None


def recorded_in(checkpoint: Any) -> Any:
    """Return the options that a checkpoint says its run was given; None: it says nothing."""
    try:
        return checkpoint["callbacks"]["LastCheckpoint"]["options"]
    except (TypeError, KeyError, IndexError):
        return None


def task_options(checkpoint: Any, *, own_configs: bool = False) -> list[str]:
    """Return the options that choose the task of a checkpoint's weights; none where it does not say.

    Args:
        checkpoint: As it was read.
        own_configs: Whether the command line brings configs, among which the task may be.
    """
    try:
        task = checkpoint["effective_attention"]["task"]
        name = task["name"]
    except (TypeError, KeyError, IndexError):
        return []
    if not isinstance(task, dict) or not isinstance(name, str) or not _NAME.fullmatch(name):
        return []
    if name != CUSTOM and (own_configs or (config_folder() / "task" / f"{name}.yaml").is_file()):
        return [f"task={name}"]
    named = [] if name == CUSTOM else [f"task.name={name}"]
    scores = ["task.regression=true"] if task.get("label_range") is not None else []
    return [f"task={CUSTOM}", *named, *_columns(task.get("text_columns")), *scores]


def _columns(columns: Any) -> list[str]:
    """Write the text columns as an option, quoted where a name is not a plain word."""
    if not isinstance(columns, list) or not columns:
        return []
    if not all(isinstance(name, str) and name.isprintable() and 0 < len(name) <= _LONGEST_COLUMN for name in columns):
        return []
    words = [name if re.fullmatch(r"[A-Za-z_]\w*", name, flags=re.ASCII) else quote(name) for name in columns]
    return [f"task.text_columns=[{','.join(words)}]"]


def what_is_missing(chosen: Collection[str]) -> str:
    """Say what to add to evaluate a custom task's checkpoint that is alone; empty: nothing, or nothing is needed.

    Args:
        chosen: Names of the options that are given, by the user or by the checkpoint.
    """
    wanted = [advice for name, advice in _MISSING.items() if name not in chosen]
    if "text" in chosen or not wanted:
        return ""
    return f"; the file alone does not say what else it learnt from: add {', and '.join(wanted)}"
