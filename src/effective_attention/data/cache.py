"""What texts were turned into, kept on disk: a cache that is damaged or cannot be written costs time, never the run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from effective_attention.results.files import whole_file

log = logging.getLogger(__name__)
Kept = TypeVar("Kept")


def read_arrays(path: Path, build: Callable[[Mapping[str, NDArray[Any]]], Kept], what: str) -> Kept | None:
    """What ``build`` makes of the arrays of an ``.npz`` file; None, and a warning, if they are not what they should be."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return build({name: arrays[name] for name in arrays.files})
    except Exception as error:  # what a damaged zip raises depends on where the damage is; to make it anew is always right
        log.warning("%s cache %s cannot be read (%s); made anew", what, path, error)
        return None


def write_arrays(path: Path, arrays: Mapping[str, Any], what: str) -> None:
    """Whole or not at all."""
    try:
        with whole_file(path) as file:
            np.savez_compressed(file, **arrays)
    except OSError as error:
        log.warning("%ss are not cached: %s: %s", what, path.parent, error.strerror)
