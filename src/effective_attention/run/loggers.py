"""Log numbers while they are made: as CSV always, to Weights & Biases when it works.

W&B is a convenience, never a condition: whatever goes wrong with it is said once, in one line, and the run goes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytorch_lightning.loggers import CSVLogger, Logger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only

from effective_attention.run.csv_rows import Rows, WholeRows

if TYPE_CHECKING:
    import pandas as pd

    from effective_attention.run.analysing import AnalysisResults

log = logging.getLogger(__name__)
Result = TypeVar("Result")
_LARGEST_PAGE = 20 * 10**6  # letters


class ForgivingWandbLogger(WandbLogger):
    """A ``WandbLogger`` that gives up after its first failure instead of ending the run."""

    broken = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._wandb_init.pop("anonymous", None)  # passed on even when unset, which W&B answers with a warning

    def _attempt(self, action: Callable[[], Result]) -> Result | None:
        if self.broken:
            return None
        try:
            return action()
        except Exception as error:
            self.broken = True
            _say_off(error)
            return None

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self._attempt(lambda: super(ForgivingWandbLogger, self).log_metrics(metrics, step))

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        self._attempt(lambda: super(ForgivingWandbLogger, self).log_hyperparams(params))

    def log_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log a table of the results."""
        columns = list(dict.fromkeys(column for row in rows for column in row))
        data = [[row.get(column, "") for column in columns] for row in rows]
        self._attempt(lambda: self.log_table(name, columns=columns, data=data))

    def log_results(self, results: AnalysisResults) -> None:
        """Log tables, figures and pages, and the report as an artifact."""
        self._attempt(lambda: self._log_results(results))

    def _log_results(self, results: AnalysisResults) -> None:
        import wandb

        tables = {f"tables/{name}": wandb.Table(**_contents(table)) for name, table in results.tables.items()}
        figures = {f"figures/{name}": wandb.Image(str(path)) for name, path in results.figures.items()}
        pages = {f"pages/{name}": wandb.Html(page, inject=False) for name, page in _bearable(results.pages).items()}
        for name, count in results.more_pages.items():
            log.info("W&B: of %s the list is logged; its %d pages stay in the run directory", name, count)
        if tables or figures or pages:
            self.experiment.log({**tables, **figures, **pages})
        if results.report is not None:
            artifact = wandb.Artifact(f"report-{self.experiment.id}", type="report")
            artifact.add_file(str(results.report))
            self.experiment.log_artifact(artifact)

    def log_summary(self, values: Mapping[str, Any]) -> None:
        """Log the final values, which the run's overview shows and sweeps are sorted by."""
        self._attempt(lambda: self.experiment.summary.update(dict(values)))

    def advice(self) -> list[str]:
        """Say how to look at a run that is kept offline, and how to send it; nothing of others."""
        folder = self._attempt(lambda: self.experiment.settings.sync_dir if self.experiment.offline else None)
        if folder is None:
            return []
        place = shlex.quote(str(folder))
        look = [f"look:    wandb leet {place}"] if _has_leet() else []
        return [*look, f"send:    wandb sync {place}"]

    def finish(self) -> None:
        """End the run, so that the next one of a sweep starts its own.

        This is done after a failure too, or the next run would go on in this one.
        """
        self._attempt(lambda: self.experiment.finish())
        if self.broken and self._experiment is not None:
            with contextlib.suppress(Exception):
                self._experiment.finish()


def _has_leet() -> bool:
    """Tell whether the installed W&B can show a run in the terminal."""
    from wandb.cli.cli import cli

    return "leet" in cli.commands


def _bearable(pages: Mapping[str, str]) -> dict[str, str]:
    """Return the pages that are small enough for a dashboard, and warn about the others."""
    large = [name for name, page in pages.items() if len(page) > _LARGEST_PAGE]
    if large:
        log.warning("W&B: left out, because larger than %d MB: %s.html", _LARGEST_PAGE // 10**6, ".html, ".join(large))
    return {name: page for name, page in pages.items() if name not in large}


def _contents(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Return columns and rows for W&B; missing integers and NaN, which it does not know, become None.

    As lists: a frame of 100 000 rows, such as the exemplars of 270 heads, takes it three times longer.
    """
    plain = table.astype(object).where(table.notna(), None)
    return {"columns": list(plain.columns), "data": plain.to_numpy().tolist()}


def build_loggers(
    run_dir: Path,
    wandb_options: Mapping[str, Any] | None,
    *,
    config: Mapping[str, Any],
    tags: Sequence[str],
    earlier: Rows | None = None,
) -> list[Logger]:
    """Build a CSV logger, and one for W&B unless ``wandb_options`` is None or W&B cannot be started.

    Args:
        run_dir: Where the logs go.
        wandb_options: The config's ``logger.wandb``.
        config: What W&B shows as the run's config.
        tags: What W&B finds the run by.
        earlier: Rows of the CSV file that were logged before the run was resumed; W&B, where it is a new run, gets them
            again.
    """
    rows = CSVLogger(save_dir=str(run_dir), name="", version="csv")
    if rank_zero_only.rank == 0:
        rows._experiment = WholeRows(rows.log_dir, earlier or [])
    loggers: list[Logger] = [rows]
    if wandb_options is not None:
        wandb = _start_wandb(run_dir, wandb_options, tags)
        if wandb is not None:
            wandb.log_hyperparams(dict(config))
            for row in earlier or []:
                numbers = {name: float(value) for name, value in row.items() if name != "step"}
                wandb.log_metrics(numbers, int(row["step"]))
            loggers.append(wandb)
    return loggers


def _start_wandb(run_dir: Path, options: Mapping[str, Any], tags: Sequence[str]) -> ForgivingWandbLogger | None:
    """Start W&B online if the user is logged in, else offline; return None if neither works.

    A server that does not answer means offline too.
    """
    for mode in ["online", "offline"] if _wants_online() else [os.environ.get("WANDB_MODE") or "offline"]:
        try:
            return _open_wandb(run_dir, options, tags, mode)
        except Exception as error:
            _say_off(error, mode)
    return None


def _open_wandb(run_dir: Path, options: Mapping[str, Any], tags: Sequence[str], mode: str) -> ForgivingWandbLogger:
    import wandb

    settings = wandb.Settings(init_timeout=30, silent=True)
    extra = [str(tag) for tag in options.get("tags") or []]
    logger = ForgivingWandbLogger(
        project=options["project"],
        name=options.get("name"),
        group=options.get("group"),
        job_type=options.get("job_type"),
        entity=options.get("entity"),
        save_dir=str(run_dir),
        tags=[*tags, *extra],
        mode=mode,
        settings=settings,
    )
    _ = logger.experiment  # start it here, where a failure can be caught
    return logger


def _wants_online() -> bool:
    """Tell whether the user is logged in, and WANDB_MODE does not say otherwise."""
    if os.environ.get("WANDB_MODE"):
        return os.environ["WANDB_MODE"] == "online"
    try:
        import wandb

        return bool(wandb.login(prompt=False, verify=False))
    except ImportError:
        return False  # said when it is opened
    except Exception as error:
        _say_off(error, "login")
        return False


def _say_off(error: Exception, what: str = "logging") -> None:
    reason = " ".join(str(error).split()) or type(error).__name__
    log.warning(
        "W&B %s failed, the run goes on %s: %s", what, "offline" if what == "online" else "without it", reason[:200]
    )
