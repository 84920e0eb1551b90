"""Find a checkpoint by the name a user gave. Imports nothing heavy: a wrong name is found before PyTorch is loaded."""

from __future__ import annotations

import re
from pathlib import Path

from effective_attention.errors import UserError
from effective_attention.io import expanded

_CONFIG = "config.json"
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_CHECKPOINTS = ("last.ckpt", "best.ckpt")


def is_classifier_place(place: str | Path) -> bool:
    """Tell whether a name means a model as transformers saves it: a folder with a ``config.json``, or a hub id.

    ``owner/name`` is a hub id unless there is a folder ``owner`` here: then it is a mistyped path.
    """
    path = expanded(place)
    if path.is_dir():
        return (path / _CONFIG).is_file() and not any(file.is_file() for file in _candidates(path))
    text = str(place)
    is_path = path.exists() or path.suffix == ".ckpt" or (len(path.parts) > 1 and path.parent.is_dir())
    return not is_path and _HUB_ID.fullmatch(text) is not None


def _candidates(folder: Path) -> list[Path]:
    return [place / name for name in _CHECKPOINTS for place in (folder / "checkpoints", folder)]


def find_checkpoint(place: str | Path, option: str) -> Path:
    """Return a ``.ckpt`` file, or the last one of a run directory, or its best one where only that was kept.

    Raises:
        UserError: There is none; names the ``option`` it was given with.
    """
    path = expanded(place)
    if path.is_file():
        return path
    for candidate in _candidates(path):
        if candidate.is_file():
            return candidate
    if path.is_dir():
        raise UserError(
            f"{option}={place}: the folder has no checkpoints/last.ckpt, which save.keep=none removes, "
            "and no config.json; "
            f"name another run directory or a .ckpt file{_or_classifier(option)}"
        )
    raise UserError(
        f"{option}={place}: no such file or folder; name a run directory or a .ckpt file{_or_classifier(option)}"
    )


def _or_classifier(option: str) -> str:
    return ", or a folder of transformers (with config.json) or a hub id" if option == "checkpoint" else ""


def find_results(place: str | Path, option: str) -> Path:
    """Return the folder of a run of ``evaluate.py``; errors name the ``option`` it was given with."""
    folder = expanded(place)
    if not (folder / "config.yaml").is_file():
        raise UserError(f"{option}={place}: no run directory with a config.yaml; name the one evaluate.py wrote")
    return folder
