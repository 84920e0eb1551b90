"""What a resumed run takes over from where it was: checkpoints, logged rows, finished tables."""

from __future__ import annotations

import logging
import shutil
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.utilities import rank_zero_only

from effective_attention.errors import UserError
from effective_attention.io import whole_file
from effective_attention.models.checkpoints import check_fits, read_checkpoint
from effective_attention.models.places import find_checkpoint, find_results
from effective_attention.run.checkpointing import STATE
from effective_attention.run.csv_rows import Rows, rows_before
from effective_attention.run.options.record import recorded
from effective_attention.run.resume import check_epochs, check_same_run, run_folder
from effective_attention.run.setup import Run

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Resumed:
    """What there is to go on from.

    Attributes:
        checkpoint: Where training goes on; None: it begins.
        folder: The run directory with finished tables; None: there is none.
        rows: What was logged before.
    """

    checkpoint: str | None = None
    folder: Path | None = None
    rows: Rows = field(default_factory=list)


def resumed_training(cfg: DictConfig, run: Run) -> Resumed:
    """Find the run to go on with, and check that it is this one.

    Raises:
        UserError: There is none, or another.
    """
    place = _requeued(run.folder) if cfg.resume is None else cfg.resume
    if place is None:
        return Resumed()
    path = find_checkpoint(place, "resume")
    state = _checked_state(cfg, run, path, place)
    folder = run_folder(path)
    if rank_zero_only.rank == 0:
        _copy(path, run.folder / "checkpoints" / "last.ckpt")
        _copy(path.with_name("best.ckpt"), run.folder / "checkpoints" / "best.ckpt")
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
    mark = state["mark"]
    due = mark["validation"] == "due"
    rows = [] if folder is None else rows_before(folder / "csv" / "metrics.csv", mark["step"], validation_is_due=due)
    return Resumed(str(path), folder, rows)


def resumed_evaluation(cfg: DictConfig) -> Resumed:
    """Find the evaluation to go on with, and check that it is this one.

    Raises:
        UserError: There is none, or another.
    """
    if cfg.resume is None:
        return Resumed()
    folder = find_results(cfg.resume, "resume")
    own: Any = OmegaConf.load(folder / "config.yaml")
    if "checkpoint" not in own:
        raise UserError(f"resume={folder}: a run of train.py; look at it with checkpoint={folder}")
    check_same_run(recorded(own), recorded(cfg), folder)
    return Resumed(folder=folder)


def _requeued(folder: Path) -> str | None:
    """Return the newest checkpoint that Lightning wrote before SLURM took the job off and queued it again."""
    found = _of_slurm(folder) if SLURMEnvironment.detect() else []
    return str(found[-1]) if found else None


def clear_requeued(folder: Path) -> None:
    """Remove those checkpoints when training has ended, or the next run in the folder would go on from them."""
    if rank_zero_only.rank == 0:
        for path in _of_slurm(folder):
            path.unlink()


def _of_slurm(folder: Path) -> list[Path]:
    return sorted(folder.glob("hpc_ckpt_*.ckpt"), key=lambda path: int(path.stem.rpartition("_")[2]))


def _checked_state(cfg: DictConfig, run: Run, path: Path, place: str) -> dict[str, Any]:
    checkpoint = read_checkpoint(path, run.task)
    if "optimizer_states" not in checkpoint:
        raise UserError(
            f"resume={place}: {path.name} holds weights only; resume from checkpoints/last.ckpt, "
            "which save.keep=all keeps"
        )
    state = checkpoint.get("callbacks", {}).get(STATE)
    if state is None:
        raise UserError(f"resume={place}: {path.name} has no random states, so an earlier version wrote it; train anew")
    given = recorded(cfg)
    check_same_run(state["config"], given, place)
    check_fits(checkpoint, run.classifier)
    if state["data"] != run.datamodule.fingerprint():
        raise UserError(f"resume={place}: the examples are not those the run began with; bring back its data")
    epochs = (state["mark"]["epoch"], state["config"]["trainer"]["max_epochs"], given["trainer"]["max_epochs"])
    warning = check_epochs(*epochs, place)
    if warning is not None:
        log.warning(warning)
    return dict(state)


def _copy(source: Path, target: Path) -> None:
    """Make the folder complete, as it would be if the run had always been there; what is there already is kept."""
    if source.is_file() and not target.is_file():
        with whole_file(target) as file, source.open("rb") as original:
            shutil.copyfileobj(original, file)
