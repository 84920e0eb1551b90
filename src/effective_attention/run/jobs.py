"""Run one command as Hydra's job; in a sweep a job that fails is written down, and the others go on.

Imports nothing heavy: ``--help`` goes through here.
"""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from effective_attention.errors import first_line
from effective_attention.io import write_text
from effective_attention.run.cli import check_before_loading, explain, one_line_errors

_LONGEST = 100  # letters of a folder's name; file systems take 255
FAILED = "failed.txt"
"""In the folder of a job that failed: why, in one line; below it the traceback, where it is our bug."""


def run_job(name: Literal["train", "evaluate"], cfg: DictConfig) -> float | None:
    """Run a command; return the main metric under the first attention, for Hydra's optimising sweepers.

    None for a task without labels or with a text of the user's, NaN for a job of a sweep that failed.
    """

    def work() -> float | None:
        check_before_loading(cfg)
        from effective_attention.run import experiment  # heavy: imported here to keep --help fast

        metrics = getattr(experiment, name)(cfg)
        score = metrics.get(f"test/{cfg.attention.kinds[0]}/{metrics.get('run/main_metric')}")
        return None if score is None else float(score)

    if HydraConfig.get().mode == RunMode.MULTIRUN:
        return keep_sweep_going(work, Path(HydraConfig.get().runtime.output_dir))
    with one_line_errors():
        result = work()
        (Path(cfg.run_dir) / FAILED).unlink(missing_ok=True)  # of a sweep's job that is now resumed by itself
        return result


def keep_sweep_going(work: Callable[[], float | None], folder: Path) -> float | None:
    """Do a job of a sweep; if it fails, write ``failed.txt`` into its folder, say so, and return NaN."""
    try:
        (folder / FAILED).unlink(missing_ok=True)
        return work()
    except Exception as error:
        known = explain(error)
        line = known or f"{type(error).__name__}: {first_line(error)}"
        details = "" if known else "".join(traceback.format_exception(error))
        write_text(folder / FAILED, f"{line}\n{details}")
        print(f"error: {line}; the sweep goes on", file=sys.stderr)
        return math.nan


def folder_name(overrides: str) -> str:
    """Turn a job's overrides into the rest of a folder's name, with a line before it; empty for no overrides.

    >>> folder_name("checkpoint=runs/a,seed=1"), folder_name("")
    ('_checkpoint=runs-a,seed=1', '')
    """
    kept = "".join(letter if letter.isalnum() or letter in "=,._+-" else "-" for letter in overrides)
    return f"_{kept[:_LONGEST]}" if kept else ""


OmegaConf.register_new_resolver("folder_name", folder_name, replace=True)
