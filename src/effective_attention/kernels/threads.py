"""How a loop is compiled, and how many threads it gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import torch

COMPILE: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}


def share(serial: Callable[..., Any], parallel: Callable[..., Any], *arguments: object) -> None:
    """Run with as many threads as PyTorch may use.

    With one, the pool of threads is not touched: a process forked from one that used it (a worker of a data loader,
    which PyTorch gives one thread) could not survive that.
    """
    threads = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)
    if threads == 1:
        serial(*arguments)
    else:
        numba.set_num_threads(threads)
        parallel(*arguments)
