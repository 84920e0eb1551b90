"""Run Python functions side by side on the threads that PyTorch's own operations run on.

PyTorch's threads on Linux are those of GNU's OpenMP library, or of one that offers the same entries (Intel's, LLVM's).
After an operation they spin for a while, so that the next one finds them awake; any other thread then shares a
processor with one that spins. Work handed to the library itself finds them awake as PyTorch's does.

Functions should spend their time where Python's lock is not held, as compiled loops do.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

_Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_forked = False


def run(parts: Sequence[Callable[[], object]]) -> bool:
    """Run all functions, each once; False, and nothing was run: there is no such library here.

    An error in one of them is raised when all have ended.
    """
    library = None if _forked else _library()
    if library is None:
        return False
    errors: list[BaseException] = []

    def one_thread(_: object) -> None:
        first, step = library.omp_get_thread_num(), library.omp_get_num_threads()
        for part in parts[first::step]:  # there may be fewer threads than were asked for
            try:
                part()
            except BaseException as error:  # what a callback raises would be printed and lost
                errors.append(error)

    library.GOMP_parallel(_Entry(one_thread), None, len(parts), 0)
    if errors:
        raise errors[0]
    return True


@cache
def _library() -> Any:
    """Return the process' OpenMP library; None where it has none with the entries that are needed."""
    try:
        library = ctypes.CDLL(None)  # PyTorch loads its own for all to see
        library.GOMP_parallel.argtypes = [_Entry, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        library.GOMP_parallel.restype = None
        known = library.omp_get_thread_num, library.omp_get_num_threads
    except (AttributeError, OSError, TypeError):  # macOS has other entries, Windows no such library
        return None
    return library if all(known) else None


def _after_fork() -> None:
    global _forked
    _forked = True  # the library still believes in its threads, and would wait for them


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
