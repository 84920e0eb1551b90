"""One HTML file that shows what one run, or every run of a sweep, has found.

Everything is inside the file: it opens from disk and asks the network for nothing. Imports nothing heavy at the top,
because Hydra imports ``SweepReport`` at start-up.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from effective_attention.errors import UserError, first_line
from effective_attention.io import write_text

if TYPE_CHECKING:
    from pandas import DataFrame

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class RunResults:
    """What a run directory holds: ``metrics.json``, the tables by analysis, and the directory's name."""

    facts: dict[str, Any]
    tables: dict[str, DataFrame] = field(default_factory=dict)
    name: str = ""


class SweepReport(Callback):
    """Writes ``report.html`` and ``figures/`` over all runs of a sweep that has tables."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        report_on(Path(config.hydra.sweep.dir))


def report_on(folder: Path) -> int:
    """One report over every run below ``folder`` that has tables; says how many there were."""
    runs = [run for run in collect_runs(folder) if run.tables]
    if runs:
        from effective_attention.reports.figures import write_figures

        write_figures(folder / "figures", combine(runs))
        write_report(folder / "report.html", runs, figures=folder / "figures")
        print(f"report over {len(runs)} runs: {folder / 'report.html'}")
    return len(runs)


def collect_runs(folder: Path) -> list[RunResults]:
    """Every finished run in or below ``folder``, in the order of its job numbers."""
    found = [path.parent for path in folder.rglob("metrics.json")]
    return [read_run(path, str(path.relative_to(folder))) for path in sorted(found, key=_job_order)]


def _job_order(path: Path) -> tuple[Any, ...]:
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in path.parts)


def read_run(folder: Path, name: str = "") -> RunResults:
    """The run in ``folder``; its tables are those in ``tables/*.parquet``."""
    import pandas

    try:
        facts = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{folder / 'metrics.json'} is no JSON ({first_line(error)}); run this job again") from error
    tables = {}
    for path in sorted((folder / "tables").glob("*.parquet")):
        try:
            tables[path.stem] = pandas.read_parquet(path)
        except (ValueError, OSError) as error:  # pyarrow's errors are both
            raise UserError(f"{path} is no Parquet table ({first_line(error)}); run this job again") from error
    return RunResults(facts, tables, name)


def combine(runs: Sequence[RunResults]) -> dict[str, DataFrame]:
    """The runs' tables by analysis, one under the other, with a column ``run`` that counts the runs."""
    import pandas

    parts: dict[str, list[DataFrame]] = {}
    for index, run in enumerate(runs):
        for name, table in run.tables.items():
            if len(table):
                parts.setdefault(name, []).append(table.assign(run=index))
    return {name: pandas.concat(tables, ignore_index=True) for name, tables in parts.items()}


def write_report(path: Path, runs: Sequence[RunResults], *, figures: Path | None = None) -> None:
    """Write the report over ``runs`` to ``path``, in one step.

    Args:
        path: Where it goes.
        runs: What it is over.
        figures: The folder into which ``write_figures`` has drawn these runs' tables; None: drawn for the page alone.

    Raises:
        UserError: There is no run to report on.
    """
    if not runs:
        raise UserError(f"{path}: no finished run to report on; a run is a folder with metrics.json")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from effective_attention.reports.report_sections import overview, sections

    loader = FileSystemLoader(_TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    html = environment.get_template("report.html.j2").render(
        overview=overview(runs), sections=sections(runs, combine(runs), figures)
    )
    write_text(path, html)
