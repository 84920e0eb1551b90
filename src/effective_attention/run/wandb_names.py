"""What a run is called in Weights & Biases, and which other runs it stands with; whatever the user says goes first."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf

from effective_attention.io import expanded
from effective_attention.run.resume import run_folder
from effective_attention.run.setup import Run

Job = Literal["train", "evaluate"]
_LONGEST_NAME = 128  # letters that W&B takes
_IN_EVERY_NAME = ("task", "model", "seed")
_BY_ENVIRONMENT = {"name": "WANDB_NAME", "group": "WANDB_RUN_GROUP", "job_type": "WANDB_JOB_TYPE"}


def named(options: Mapping[str, Any], run: Run, job: Job) -> dict[str, Any]:
    """Fill in the name, group and job type that the config's ``logger.wandb`` leaves open.

    What an environment variable of W&B's sets is left to it.
    """
    ours = {"name": _name(run, job), "group": _group(run), "job_type": job}
    open_ones = {
        key: None if os.environ.get(_BY_ENVIRONMENT[key]) else value
        for key, value in ours.items()
        if options.get(key) is None
    }
    return {**options, **open_ones}


def trained_in(run: Run, job: Job) -> str | None:
    """Return what a training run and the evaluations of its checkpoints share: the last two parts of its folder."""
    if job == "train":
        return "/".join(run.folder.absolute().parts[-2:])
    if run.checkpoint is None:
        return None
    folder = _training_folder(run)
    return run.checkpoint if folder is None else "/".join(folder.absolute().parts[-2:])


def _name(run: Run, job: Job) -> str:
    """Name task, model, seed and command, and in a sweep what else it goes over."""
    model = run.encoder.name.rstrip("/").rpartition("/")[2]
    words = [run.task.name, model, f"seed{run.facts['run/seed']}", job, *_swept()]
    return "-".join(re.sub(r"[^\w.,=+-]+", "-", word).strip("+-") for word in words)[:_LONGEST_NAME]


def _group(run: Run) -> str:
    """Return the sweep's name; else the group of the run that trained the checkpoint; else the task."""
    folder = _training_folder(run)
    return _sweep_name() or (None if folder is None else _group_of(folder)) or run.task.name


def _training_folder(run: Run) -> Path | None:
    return None if run.checkpoint is None else run_folder(expanded(run.checkpoint))


def _group_of(folder: Path) -> str | None:
    """Return the group of a run that is on the disk: the user's, or that of its sweep."""
    try:
        given = OmegaConf.select(OmegaConf.load(folder / "config.yaml"), "logger.wandb.group")
    except Exception:  # not a config of ours: nothing is learnt from it
        given = None
    if isinstance(given, str):
        return given
    sweep = folder.absolute().parent
    return sweep.name if (sweep / "multirun.yaml").is_file() else None


def _sweep_name() -> str | None:
    """Return the sweep's folder name, which its runs share as their group; None outside a sweep."""
    hydra = _sweep()
    return None if hydra is None else Path(hydra.sweep.dir).name


def _swept() -> list[str]:
    """List the options of this job in which the jobs of its sweep differ."""
    hydra = _sweep()
    if hydra is None:
        return []
    constant = {*hydra.job.config.override_dirname.exclude_keys, *_IN_EVERY_NAME}
    return [option for option in hydra.overrides.task if option.partition("=")[0].lstrip("+~") not in constant]


def _sweep() -> Any:
    """Return Hydra's config of a job of a sweep; None outside a sweep."""
    hydra = HydraConfig.get() if HydraConfig.initialized() else None
    return hydra if hydra is not None and hydra.mode == RunMode.MULTIRUN else None
