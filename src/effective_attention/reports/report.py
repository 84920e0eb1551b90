"""One HTML file that shows what one run, or every run of a sweep, has found.

Everything is inside the file: it opens from disk and asks the network for nothing. Imports nothing heavy at the top,
because Hydra imports what a sweep calls at start-up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effective_attention.errors import UserError
from effective_attention.io import write_text
from effective_attention.reports.runs import RunResults, collect_runs, combine

if TYPE_CHECKING:
    from pandas import DataFrame

_TEMPLATES = Path(__file__).parent / "templates"
_INSIDE = re.compile(r"(?<=\d) (?=%)|(?<=head) (?=\d)|(?<=\d,) (?=[-\d][^\[\]]*\])")
"""Spaces at which no line may end: before a percent sign, between a head and its number, inside an interval."""


def report_on(found: Mapping[Path, dict[str, Any]], *, to: Path) -> int:
    """Write ``report.html`` and ``figures/`` into ``to``, over every run that has tables.

    Args:
        found: The facts of runs by their folders, from ``collect_facts``.
        to: Where to write.

    Returns:
        How many runs had tables; without any, nothing is written.
    """
    runs = [run for run in collect_runs(found, to=to) if run.tables]
    if runs:
        from effective_attention.reports.chapters import all_chapters  # matplotlib: seconds
        from effective_attention.reports.drawing.files import write_figures

        tables = combine(runs)
        write_figures(to / "figures", tables, all_chapters())
        write_report(to / "report.html", runs, figures=to / "figures", tables=tables)
        print(f"report over {len(runs)} runs: {to / 'report.html'}")
    return len(runs)


def write_report(
    path: Path,
    runs: Sequence[RunResults],
    *,
    figures: Path | None = None,
    tables: Mapping[str, DataFrame] | None = None,
) -> None:
    """Write the report over ``runs`` to ``path``, in one step.

    Args:
        path: The file to write.
        runs: The runs to report on.
        figures: The folder into which ``write_figures`` has drawn these runs' tables; None: drawn for the page alone.
        tables: What ``combine`` makes of the runs, where it was made already.

    Raises:
        UserError: There is no run to report on.
    """
    if not runs:
        raise UserError(f"{path}: no finished run to report on; a run is a folder with metrics.json")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from effective_attention.policy import content_policy
    from effective_attention.reports.overview import overview
    from effective_attention.reports.sections import sections

    loader = FileSystemLoader(_TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["unbroken"] = _unbroken
    script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    html = environment.get_template("report.html.j2").render(
        overview=overview(runs),
        sections=sections(runs, combine(runs) if tables is None else tables, figures),
        script=script,
        policy=content_policy(script, images="data:"),
    )
    write_text(path, html)


def _unbroken(words: object) -> str:
    r"""Let no line end before a percent sign, between a head and its number, or inside an interval.

    >>> _unbroken("layer 2, head 10: 0.26 [0.20, 0.32], 5 %").split(" ")
    ['layer', '2,', 'head\xa010:', '0.26', '[0.20,\xa00.32],', '5\xa0%']
    """
    return _INSIDE.sub("\N{NO-BREAK SPACE}", str(words))
