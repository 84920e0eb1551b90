"""One report over finished runs from anywhere: ``python -m effective_attention.run.report <folder>``.

For runs that were not one sweep, on a cluster for example; a sweep writes its report itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from effective_attention.errors import UserError
from effective_attention.reports.report import report_on
from effective_attention.run.cli import one_line_errors


def main(arguments: Sequence[str]) -> None:
    """Report on the runs in and below the one folder that is named."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        raise UserError("name one folder: python -m effective_attention.run.report <folder with run directories>")
    if report_on(Path(arguments[0])) == 0:
        raise UserError(f"{arguments[0]}: no run with tables in it; run evaluate.py with an analysis first")


def command() -> None:
    """Run ``main`` on the command line's arguments; an error that a user can correct becomes one line."""
    with one_line_errors():
        main(sys.argv[1:])


if __name__ == "__main__":
    command()
