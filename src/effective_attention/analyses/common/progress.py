"""How far long work has got: a bar on a terminal, a line now and then where the output is redirected."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from effective_attention.processes import rank_and_world

Item = TypeVar("Item")
_SECONDS = 30.0  # between two lines


def progress(work: Iterable[Item], title: str, *, total: int | None = None) -> Iterable[Item]:
    """Go through ``work`` and show the progress on stderr; of several processes only the first shows it.

    Args:
        work: What to go through.
        title: What is being done.
        total: How many there are; None: as many as ``work`` says.
    """
    total = len(work) if isinstance(work, Sized) else total
    if rank_and_world()[0] != 0:
        return work
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        return track(work, title, total=total, console=Console(stderr=True), transient=True)
    return _with_lines(work, title, total)


def _with_lines(work: Iterable[Item], title: str, total: int | None) -> Iterator[Item]:
    told = time.monotonic()
    for number, item in enumerate(work):
        if time.monotonic() - told >= _SECONDS:
            told = time.monotonic()
            print(f"{title}: {number}{'' if total is None else f' of {total}'}", file=sys.stderr, flush=True)
        yield item
