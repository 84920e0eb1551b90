"""How a loop is compiled, and how many threads it runs on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import torch
from numba.core.types.misc import unliteral

from effective_attention.kernels import openmp

_WORTH_SHARING = 300_000  # ns
_OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}


def loop(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function when it is first called, and keep the machine code on disk.

    A decorator, with numba's options or without. Numba makes the code anew when the file of the function changes, but
    not when that of a function it calls does. Here all of them count. And numba makes a form of its own for every
    constant that a compiled function calls this one with, even for what a variable is only before a loop. Here one form
    serves all numbers of a type, which halves the time to compile.

    Args:
        function: What to compile.
        options: Such as ``fastmath``.
    """
    if function is None:
        return lambda later: loop(later, **options)
    compiled = numba.njit(**_OPTIONS, **options)(function)
    file = compiled._cache._cache_file
    file._source_stamp = (file._source_stamp, stamp_of(Path(__file__).parent))
    template = compiled.get_call_template
    compiled.get_call_template = lambda given, named: template(tuple(map(unliteral, given)), named)
    return compiled


def leaf(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function that makes no array, and gives none back, as ``loop`` does.

    Numba counts who uses an array, whenever a function is called with it: a step that all threads must agree on, and
    that costs as much as a hundred sums. What makes no array has nothing to count.
    """
    return loop(function, _nrt=False, **options)


@cache
def stamp_of(folder: Path) -> str:
    """Return a text that changes whenever a Python file in the folder does."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def share_out(work: Callable[..., Any], count: int, *arguments: object) -> None:
    """Run a loop over ``range(count)``, in parts, on as many threads as PyTorch may use.

    The same machine code on one thread and on many: numba's own way to do it, a form of the loop in which ``range`` is
    ``prange``, takes as long to compile as all the rest. Compiled loops do not hold Python's lock.

    The threads are PyTorch's own where that can be had (``openmp``): those keep their processors busy for a while after
    each operation, waiting for the next one, and threads of ours would have to share with them. With one thread nothing
    is shared out.

    Args:
        work: A loop that is called with the first number of its part, one behind the last, and the arguments.
        count: How many there are.
        arguments: What else the loop is called with; it writes its results into some of them.
    """
    parts = max(1, min(torch.get_num_threads(), count))
    ends = [count * part // parts for part in range(parts + 1)]
    each = [partial(work, *part, *arguments) for part in pairwise(ends)]
    if parts == 1:
        each[0]()
    elif not openmp.run(each):
        others = [_threads(parts - 1).submit(part) for part in each[1:]]
        each[0]()
        for other in others:
            other.result()


def share_out_long(work: Callable[..., Any], count: int, nanoseconds: float, *arguments: object) -> None:
    """Run a loop as ``share_out`` does, but on one thread where it is soon done.

    Another thread has to be woken and waited for: some microseconds where a processor is free, and many milliseconds
    where other programs keep them all busy.

    Args:
        work: As in ``share_out``.
        count: As in ``share_out``.
        nanoseconds: About how long one thread takes for all.
        arguments: As in ``share_out``.
    """
    if nanoseconds < _WORTH_SHARING:
        work(0, count, *arguments)
    else:
        share_out(work, count, *arguments)


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "effective_attention")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a forked process has none of the threads
