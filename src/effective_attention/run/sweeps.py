"""What happens around a sweep (``-m``), whatever launcher runs its jobs: a Hydra callback.

Imports nothing heavy, because Hydra imports it at start-up.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, open_dict

from effective_attention.reports.runs import collect_facts, job_order
from effective_attention.reports.sweep import write_summary
from effective_attention.run.jobs import FAILED
from effective_attention.run.report import gather

_SOME_FAILED = 1


class Sweep(Callback):
    """A Hydra callback that names the folders of a sweep, keeps its summary up to date, and says what failed.

    The summary is written after every job: a sweep that is killed has its summary all the same.
    """

    _started = 0.0

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Leave what all jobs share out of the names of their folders."""
        self._started = time.time()
        constant = _constant_options(config.hydra.overrides.task)
        option = f"hydra.job.config.override_dirname.exclude_keys=[{','.join(constant)}]"
        with open_dict(config):
            config.hydra.overrides.hydra = [*config.hydra.overrides.hydra, option]  # of every job

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        if config.hydra.mode == RunMode.MULTIRUN:
            folder = Path(config.hydra.sweep.dir)
            write_summary(collect_facts(folder), to=folder)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Report on what finished; end the program with an error code where a job did not."""
        folder = Path(config.hydra.sweep.dir)
        if not gather([folder], folder, title="Sweep, mean ± std over seeds"):
            print(f"no finished run in {folder}: no summary")
        failures = failed_jobs(folder, since=self._started)
        if failures:
            _tell(failures, len(_jobs(folder, self._started)))
            sys.exit(_SOME_FAILED)


def _constant_options(overrides: Iterable[str]) -> list[str]:
    """List the options that have one value only in a sweep's command line."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    return [override.get_key_element().lstrip("+~") for override in parsed if not override.is_sweep_override()]


def _jobs(folder: Path, since: float) -> list[Path]:
    """List the folders of jobs in which something was written; an earlier sweep may have left others beside them."""
    found = [path for path in folder.iterdir() if path.is_dir() and re.match(r"\d", path.name)]
    fresh = [path for path in found if path.stat().st_mtime >= since - 1]  # clocks of disks are coarse
    return sorted(fresh, key=job_order)


def failed_jobs(folder: Path, *, since: float = 0.0) -> dict[str, str]:
    """Return the names of a sweep's jobs that have no result, and why, in one line each."""
    failures = {}
    for job in _jobs(folder, since):
        if (job / FAILED).is_file():
            failures[job.name] = (job / FAILED).read_text(encoding="utf-8").splitlines()[0]
        elif not (job / "metrics.json").is_file():
            failures[job.name] = "ended without a result: killed, or still running"
    return failures


def _tell(failures: dict[str, str], count: int) -> None:
    print(f"{len(failures)} of {count} jobs failed:", file=sys.stderr)
    for name, reason in failures.items():
        print(f"  {name}: {reason}", file=sys.stderr)
