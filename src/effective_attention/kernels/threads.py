"""How a loop is compiled, and how many threads it runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import torch

COMPILE: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}


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
