"""One HTML file that shows what one run, or every run of a sweep, has found.

Everything is inside the file: it opens from disk and asks the network for nothing. Imports nothing heavy at the top,
because Hydra imports ``SweepReport`` at start-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from effective_attention.errors import UserError
from effective_attention.io import write_text
from effective_attention.reports.runs import RunResults, collect_runs, combine

_TEMPLATES = Path(__file__).parent / "templates"


class SweepReport(Callback):
    """A Hydra callback that writes ``report.html`` and ``figures/`` over all runs of a sweep that have tables."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        report_on(Path(config.hydra.sweep.dir))


def report_on(folder: Path) -> int:
    """Write one report over every run below ``folder`` that has tables; return how many there were."""
    runs = [run for run in collect_runs(folder) if run.tables]
    if runs:
        from effective_attention.reports.chapters import all_chapters  # matplotlib: seconds
        from effective_attention.reports.drawing.files import write_figures

        write_figures(folder / "figures", combine(runs), all_chapters())
        write_report(folder / "report.html", runs, figures=folder / "figures")
        print(f"report over {len(runs)} runs: {folder / 'report.html'}")
    return len(runs)


def write_report(path: Path, runs: Sequence[RunResults], *, figures: Path | None = None) -> None:
    """Write the report over ``runs`` to ``path``, in one step.

    Args:
        path: The file to write.
        runs: The runs to report on.
        figures: The folder into which ``write_figures`` has drawn these runs' tables; None: drawn for the page alone.

    Raises:
        UserError: There is no run to report on.
    """
    if not runs:
        raise UserError(f"{path}: no finished run to report on; a run is a folder with metrics.json")
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from effective_attention.reports.policy import content_policy
    from effective_attention.reports.sections import overview, sections

    loader = FileSystemLoader(_TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    html = environment.get_template("report.html.j2").render(
        overview=overview(runs),
        sections=sections(runs, combine(runs), figures),
        script=script,
        policy=content_policy(script, images="data:"),
    )
    write_text(path, html)
