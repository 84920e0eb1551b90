"""Names of files and models for pages that people send away: without the folders of the machine they were made on."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath

_CHECKPOINTS = "checkpoints"


def shown_place(place: str) -> str:
    """Write a path without the folders above it; a hub id, a run's relative path or any other name stays as it is.

    >>> shown_place("/home/ada/models/my-bert"), shown_place("google/bert_uncased_L-2"), shown_place("runs/mrpc/first")
    ('my-bert', 'google/bert_uncased_L-2', 'runs/mrpc/first')
    >>> shown_place("/home/ada/runs/mrpc/first/checkpoints/last.ckpt"), shown_place("C:/models/my-bert")
    ('first/checkpoints/last.ckpt', 'my-bert')
    """
    for path in (PurePosixPath(place), PureWindowsPath(place)):
        if path.is_absolute() or path.parts[:1] in (("~",), ("..",)):
            kept = 3 if path.parent.name == _CHECKPOINTS else 1
            folders = [part for part in path.parts if part not in (path.anchor, "~", "..")]
            return "/".join(folders[-kept:])
    return place


def shown_model(name: str) -> str:
    """Write the name of a model: of a folder its last part, of a hub id all of it."""
    return Path(name).resolve().name if name and Path(name).is_dir() else shown_place(name)
