"""Write a result whole or not at all."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of ``path`` in one step: a reader, or a full disk, never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # the name the user knows
        raise


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` in one step, as UTF-8."""
    with whole_file(path) as file:
        file.write(text.encode())


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Flat values; a number that is not finite becomes null, because JSON has no word for it."""
    finite = {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in values.items()}
    write_text(path, json.dumps(finite, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
