"""Keep the checksums of a finished model beside its files, and find the file that is no longer as it was made."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from effective_attention.models.packaged.wheels import file_sha256

WEIGHTS = "model.safetensors"
CHECKSUMS = "checksums.json"


def write_checksums(folder: Path) -> dict[str, str]:
    """Write down the checksum of every file of a folder, in ``checksums.json``; return them by file."""
    found = {path.name: file_sha256(path) for path in sorted(folder.iterdir())}
    (folder / CHECKSUMS).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return found


def find_damage(folder: Path, weights: str) -> str | None:
    """Say which file of a model is not as it was made; None: all are. A checksum is taken once a process.

    Args:
        folder: Of the model.
        weights: The sha256 that its weights must have, whatever the folder says.
    """
    try:
        known = json.loads((folder / CHECKSUMS).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return f"{CHECKSUMS} is missing"
    except (ValueError, RecursionError):
        return f"{CHECKSUMS} has changed"
    if not isinstance(known, dict) or known.get(WEIGHTS) != weights:
        return f"{CHECKSUMS} is not of these weights"
    damages = (_damage_of(folder / name, sha256) for name, sha256 in known.items())
    return next((damage for damage in damages if damage is not None), None)


def _damage_of(path: Path, sha256: object) -> str | None:
    try:
        found = path.stat()
        same = _sha256(path, (found.st_size, found.st_mtime_ns)) == sha256
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return f"{path.name} is missing"
    return None if same else f"{path.name} has changed"


@cache
def _sha256(path: Path, _state: tuple[int, int]) -> str:
    """Take a checksum once for a file in this state: its size, and when it was changed."""
    return file_sha256(path)
