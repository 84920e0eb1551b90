"""One table and one report over finished runs from anywhere: ``python -m effective_attention.run.report <folder> …``.

For runs that were not one sweep, on a cluster for example; a sweep writes both itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from effective_attention.errors import UserError
from effective_attention.reports.report import report_on
from effective_attention.reports.runs import collect_facts
from effective_attention.reports.sweep import print_rows, write_summary
from effective_attention.run.cli import one_line_errors

_ABOUT = "Write one table and one report over finished runs from anywhere; a sweep (-m) writes both itself."


class _Parser(argparse.ArgumentParser):
    """A parser that refuses in one line, as every command here does."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; write {self.prog} <folder> [<folder> ...] [--to <folder>]")


def main(arguments: Sequence[str], *, program: str = "python -m effective_attention.run.report") -> None:
    """Gather the runs in and below the folders that are named."""
    parser = _Parser(prog=program, description=_ABOUT)
    parser.add_argument("folders", nargs="+", type=Path, help="folders with run directories in or below them")
    parser.add_argument("--to", type=Path, help="folder for summary and report; default: the one folder named")
    options = parser.parse_args(arguments)
    for folder in options.folders:
        if not folder.is_dir():
            problem = "is a file" if folder.exists() else "no such folder"
            raise UserError(f"{folder}: {problem}; name folders with run directories in or below them")
    if options.to is not None and options.to.exists() and not options.to.is_dir():
        raise UserError(f"--to {options.to}: is a file; name a folder, which is made where there is none")
    if options.to is None and len(options.folders) > 1:
        raise UserError("several folders, and none to write to; add --to <folder>")
    first = options.folders[0]
    if not gather(options.folders, options.to or first, title="Mean ± std over seeds"):
        raise UserError(f"{first}: no finished run in or below it; a finished run is a folder with metrics.json")


def gather(folders: Sequence[Path], to: Path, *, title: str) -> bool:
    """Write summary and report over the runs below the folders into ``to``, and print the table.

    Returns:
        Whether there was a finished run; without one, nothing is written.
    """
    found = collect_facts(*folders)
    rows = write_summary(found, to=to)
    if rows:
        report_on(found, to=to)
        print_rows(rows, title=f"{title} ({to / 'summary.md'})")
    return bool(rows)


def command() -> None:
    """Run ``main`` on the command line's arguments; an error that a user can correct becomes one line."""
    with one_line_errors():
        main(sys.argv[1:])


if __name__ == "__main__":
    command()
