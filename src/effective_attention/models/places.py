"""Find a checkpoint by the name a user gave. Imports nothing heavy: a wrong name is found before PyTorch is loaded."""

from __future__ import annotations

from pathlib import Path

from effective_attention.errors import UserError


def find_checkpoint(place: str | Path, option: str) -> Path:
    """Return a ``.ckpt`` file, or the last one of a run directory, or its best one where only that was kept.

    Raises:
        UserError: There is none; names the ``option`` it was given with.
    """
    path = Path(place).expanduser()
    if path.is_file():
        return path
    places = [folder / name for name in ("last.ckpt", "best.ckpt") for folder in (path / "checkpoints", path)]
    for candidate in places:
        if candidate.is_file():
            return candidate
    if path.is_dir():
        raise UserError(
            f"{option}={place}: the folder has no checkpoints/last.ckpt, which save.keep=none removes; "
            "name another run directory or a .ckpt file"
        )
    raise UserError(f"{option}={place}: no such file or folder; name a run directory or a .ckpt file")


def find_results(place: str | Path, option: str) -> Path:
    """Return the folder of a run of ``evaluate.py``; errors name the ``option`` it was given with."""
    folder = Path(place).expanduser()
    if not (folder / "config.yaml").is_file():
        raise UserError(f"{option}={place}: no run directory with a config.yaml; name the one evaluate.py wrote")
    return folder
