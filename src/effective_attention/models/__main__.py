"""Models that pip fetches: which there are, and fetch one before it is needed.

``python -m effective_attention.models list`` and ``python -m effective_attention.models fetch smollm2``
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from effective_attention.errors import UserError
from effective_attention.models.packaged.catalogue import PACKAGED
from effective_attention.models.packaged.fetching import fetch, find_problem, packaged_folder


def main(arguments: list[str] | None = None, *, program: str = "python -m effective_attention.models") -> None:
    parser = argparse.ArgumentParser(prog=program, description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="say which models there are, and whether they are in the cache")
    fetching = commands.add_parser("fetch", help="fetch a model into the cache, after a question; print its folder")
    fetching.add_argument("name", choices=[*PACKAGED])
    fetching.add_argument("--yes", action="store_true", help="do not ask")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        with _stopped_in_one_line():
            if options.command == "list":
                print_list()
            else:
                print(fetch(options.name, agree=True if options.yes else None))
    except (UserError, OSError) as error:  # the latter: nobody reads what is printed
        sys.exit(f"error: {error}")


@contextmanager
def _stopped_in_one_line() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: what was begun is cleared away, one line, the signal's code."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminate) if in_main_thread else None
    try:
        yield
    except (KeyboardInterrupt, _Terminated) as stop:
        number = signal.SIGTERM if isinstance(stop, _Terminated) else signal.SIGINT
        print(f"stopped by {number.name}; nothing was kept", file=sys.stderr)
        sys.exit(128 + number)
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)


class _Terminated(BaseException):
    """SIGTERM came."""


def _terminate(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one must not end the clearing away
    raise _Terminated


def print_list() -> None:
    """Print one line a model."""
    for name, model in PACKAGED.items():
        folder = packaged_folder(name)
        problem = find_problem(model, folder)
        state = f"in {folder}" if problem is None else f"{problem}; {model.download / 1e6:.0f} MB to fetch"
        print(f"{name:11} {model.title}, {model.licence}: {state}")


if __name__ == "__main__":
    main()
