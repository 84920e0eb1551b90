"""How a loop is compiled, and how many threads it runs on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import torch

_OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}


def loop(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function when it is first called, and keep the machine code on disk.

    A decorator, with numba's options or without. Numba makes the code anew when the file of the function changes, but
    not when that of a function it calls does. Here all of them count.

    Args:
        function: What to compile.
        options: Such as ``parallel=True``.
    """
    if function is None:
        return lambda later: loop(later, **options)
    compiled = numba.njit(**_OPTIONS, **options)(function)
    file = compiled._cache._cache_file
    file._source_stamp = (file._source_stamp, stamp_of(Path(__file__).parent))
    return compiled


@cache
def stamp_of(folder: Path) -> str:
    """Return a text that changes whenever a Python file in the folder does."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def run_threaded(serial: Callable[..., Any], parallel: Callable[..., Any], *arguments: object) -> None:
    """Run one of two forms of a loop, with as many threads as PyTorch may use.

    With one, the pool of threads is not touched: a process forked from one that used it (a worker of a data loader,
    which PyTorch gives one thread) could not survive that.

    Args:
        serial: The loop for one thread.
        parallel: The same loop for many.
        arguments: What the loop is called with; it writes its results into some of them.
    """
    threads = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)
    if threads == 1:
        serial(*arguments)
    else:
        numba.set_num_threads(threads)
        parallel(*arguments)
