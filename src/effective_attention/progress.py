"""Show how far long work has got, on stderr: as a bar at a terminal, as a line now and then where output is redirected.

Whatever takes long goes through here. Of several processes only the first shows anything.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from effective_attention.processes import rank_and_world

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

Item = TypeVar("Item")
_SECONDS_BETWEEN_LINES = 30.0
_SHARE_BETWEEN_LINES = 0.02  # of the work: a day of it does not fill a log
_SECONDS_BETWEEN_DRAWINGS = 0.1


def _now() -> float:
    return time.monotonic()


def _no_notes() -> Sequence[str]:
    return ()


class Progress:
    """A piece of work, shown from ``with`` on until it ends; pieces may lie within each other.

    A line comes when 30 s and 2 % of the work have passed since the last one, and one when the work is done. Where
    there is nothing to do, nothing is shown; nor of what is done before ``after``.

    Args:
        title: What is being done.
        total: How much there is to do; None: nobody knows.
        unit: What is counted, such as "examples".
        done: How much of it was done before.
        notes: Asked, when something is shown, for what else is to be said: "loss 0.532".
        stays: Whether the bar is left on the screen at the end.
        after: Seconds that pass before anything is shown, for work that is mostly short.
    """

    def __init__(
        self,
        title: str,
        total: int | None,
        unit: str,
        *,
        done: int = 0,
        notes: Callable[[], Sequence[str]] = _no_notes,
        stays: bool = False,
        after: float = 0.0,
    ) -> None:
        self.title = title
        self.total = total
        self.unit = unit
        self.notes = notes
        self.stays = stays
        self.after = after
        self.done = done
        self._shown: _Bar | _Lines | None = None

    def __enter__(self) -> Progress:
        self._started = _now()
        self._show()
        return self

    def _show(self) -> None:
        """Begin to show something, if it is time."""
        is_due = _now() - self._started >= self.after
        if self._shown is None and is_due and self.total != 0 and rank_and_world()[0] == 0:
            self._shown = _Bar(self) if at_terminal() else _Lines(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown.close(self, is_done=error is None)
            self._shown = None

    def advance(self, count: int = 1) -> None:
        """Say that so much more is done; 0: that there is something new to note."""
        self.done += count
        self._show()
        if self._shown is not None:
            self._shown.update(self)

    def line(self, notes: Sequence[str]) -> str:
        """Say in one line how far it has got: ``analyses: 120 of 408 examples, 41 s``, and the notes."""
        counted = f"{self.done}" if self.total is None else f"{self.done} of {self.total}"
        return ", ".join([f"{self.title}: {counted} {self.unit}", duration(_now() - self._started), *notes])


def progress(work: Iterable[Item], title: str, unit: str, *, total: int | None = None) -> Iterator[Item]:
    """Go through ``work`` and show how far it has got.

    Args:
        work: What to go through.
        title: What is being done.
        unit: What the items are, in the plural.
        total: How many there are; None: as many as ``work`` says.
    """
    with Progress(title, len(work) if isinstance(work, Sized) else total, unit) as shown:
        for item in work:
            yield item
            shown.advance()


def tell(line: str) -> None:
    """Print a line where no bar is seen, because output is redirected."""
    if rank_and_world()[0] == 0 and not at_terminal():
        print(line, file=sys.stderr, flush=True)


def at_terminal() -> bool:
    """Tell whether somebody may be looking at a bar."""
    return sys.stderr.isatty()


def duration(seconds: float) -> str:
    """Say how long something took.

    >>> duration(41.3), duration(125), duration(7322)
    ('41 s', '2 min 5 s', '2 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


class _Lines:
    """Lines, for a log that somebody reads later."""

    def __init__(self, work: Progress) -> None:
        self._told_at = _now()
        self._told_done = work.done
        self._last: tuple[int, Sequence[str]] | None = None

    def update(self, work: Progress) -> None:
        least = 0.0 if work.total is None else _SHARE_BETWEEN_LINES * work.total
        if _now() - self._told_at >= _SECONDS_BETWEEN_LINES and work.done - self._told_done >= least:
            self._told_at = _now()
            self._told_done = work.done
            self._tell(work, work.notes())

    def close(self, work: Progress, *, is_done: bool) -> None:
        if not is_done:
            return
        notes = work.notes()
        if (work.done, notes) != self._last:  # nothing is said twice
            self._tell(work, notes)

    def _tell(self, work: Progress, notes: Sequence[str]) -> None:
        self._last = work.done, notes
        tell(work.line(notes))


class _Bar:
    """A bar; work within other work has its bar below the other's, as a terminal has room for one display only."""

    _screen: RichProgress | None = None

    def __init__(self, work: Progress) -> None:
        self._own_screen = ExitStack()
        if _Bar._screen is None:
            _Bar._screen = self._own_screen.enter_context(_open_screen(stays=work.stays))
            self._own_screen.callback(setattr, _Bar, "_screen", None)
        self._drawn_at = _now()
        self._task = _Bar._screen.add_task(work.title, total=work.total, completed=work.done, notes="")

    def update(self, work: Progress) -> None:
        if _now() - self._drawn_at >= _SECONDS_BETWEEN_DRAWINGS:
            self._draw(work)

    def _draw(self, work: Progress) -> None:
        assert _Bar._screen is not None
        self._drawn_at = _now()
        _Bar._screen.update(self._task, completed=work.done, notes=" ".join(work.notes()))

    def close(self, work: Progress, *, is_done: bool) -> None:
        assert _Bar._screen is not None
        with self._own_screen:
            if is_done:
                self._draw(work)
            if _Bar._screen.tasks[0].id != self._task:  # not the one that may stay
                _Bar._screen.remove_task(self._task)


@contextmanager
def _open_screen(*, stays: bool) -> Iterator[RichProgress]:
    """Show bars, and let what is logged meanwhile appear above them."""
    before = sys.stdout, sys.stderr
    with _layout(stays=stays) as screen:  # puts its own in their place
        handlers = [one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler)]
        moved = [(one, one.stream) for one in handlers if one.stream in before]
        for handler, stream in moved:
            handler.setStream(sys.stdout if stream is before[0] else sys.stderr)
        try:
            yield screen
        finally:
            for handler, stream in moved:
                handler.setStream(stream)


def _layout(*, stays: bool) -> RichProgress:
    """Lay out a bar that fills a line and never takes two: what does not fit is cut."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    return Progress(
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
        TextColumn("{task.completed}/{task.total}", table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[notes]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        console=Console(stderr=True),
        transient=not stays,
        redirect_stdout=sys.stdout.isatty(),  # what goes to a file is no business of the terminal
        expand=True,
    )
