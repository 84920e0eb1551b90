"""Write a result whole or not at all."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` in one step: a reader, or a full disk, never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Flat values; a number that is not finite becomes null, because JSON has no word for it."""
    finite = {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in values.items()}
    write_text(path, json.dumps(finite, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
