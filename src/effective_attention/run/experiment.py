"""The two commands, as functions of a composed config.

``train`` finetunes, tests and analyses; ``evaluate`` tests and analyses.

Each is a straight line: check everything, build, run, write. Tests call them directly.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Callback, LearningRateMonitor, ModelCheckpoint
from pytorch_lightning.trainer.states import TrainerFn

from effective_attention.errors import UserError
from effective_attention.finite import NotFiniteError
from effective_attention.io import write_json, write_text
from effective_attention.models.checkpoints import WholeCheckpointIO, check_fits, read_checkpoint
from effective_attention.models.places import find_checkpoint
from effective_attention.reports.chapters import all_chapters
from effective_attention.reports.scalars import named_scalars
from effective_attention.reports.sweep import print_rows, summarise
from effective_attention.run.analysing import GOLD, AnalysisResults, PlannedAnalyses
from effective_attention.run.callbacks import AttentionDrift
from effective_attention.run.cli import nothing_left_behind
from effective_attention.run.loggers import ForgivingWandbLogger, build_loggers
from effective_attention.run.options.record import recorded, recorded_yaml
from effective_attention.run.setup import Run, prepare
from effective_attention.run.testing import compare_attentions

log = logging.getLogger(__name__)
Metrics = dict[str, Any]


def train(cfg: DictConfig) -> Metrics:
    """Finetune, then test under each attention; return what ``metrics.json`` holds."""
    with nothing_left_behind(Path(cfg.run_dir)):
        run = prepare(cfg, checkpoint=None)
        resume = _resume(cfg, run)
        run.datamodule.split("train")
        planned = PlannedAnalyses.plan(cfg, run)
    _write_config(cfg, run.folder)
    watching: list[Callback] = (
        [AttentionDrift(planned, cfg.drift.examples)] if cfg.drift.examples and planned.chosen else []
    )
    callbacks = [*_checkpointing(run), LearningRateMonitor("step"), _SaveWhenInterrupted(run.folder), *watching]
    trainer = _trainer(cfg, run, callbacks)
    trainer.fit(run.classifier, datamodule=run.datamodule, ckpt_path=resume, weights_only=True)
    validation = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val/")}
    return _test_and_report(cfg, trainer, run, planned, validation)


def evaluate(cfg: DictConfig) -> Metrics:
    """Test a checkpoint, or the pretrained model, under each attention; return what ``metrics.json`` holds."""
    with nothing_left_behind(Path(cfg.run_dir)):
        run = prepare(cfg, checkpoint=cfg.checkpoint)
        planned = PlannedAnalyses.plan(cfg, run)
    _write_config(cfg, run.folder)
    if cfg.checkpoint is None and run.task.has_labels:
        log.warning(
            "no checkpoint given: the encoder is pretrained, its classification head is random, so scores mean nothing"
        )
    return _test_and_report(cfg, _trainer(cfg, run, []), run, planned, {})


def _resume(cfg: DictConfig, run: Run) -> str | None:
    if cfg.resume is None:
        return None
    path = find_checkpoint(cfg.resume, "resume")
    checkpoint = read_checkpoint(path, run.task)
    if "optimizer_states" not in checkpoint:
        raise UserError(f"resume={cfg.resume}: {path.name} holds weights only; resume from checkpoints/last.ckpt")
    check_fits(checkpoint, run.classifier)
    return str(path)


def _write_config(cfg: DictConfig, folder: Path) -> None:
    write_text(folder / "config.yaml", recorded_yaml(cfg))


# --- the trainer ---


class _SaveWhenInterrupted(Callback):
    """A callback that saves a checkpoint when Ctrl-C, SIGTERM or an error ends training."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "checkpoints" / "last.ckpt"

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        if isinstance(exception, NotFiniteError):
            return  # nobody could go on from there
        if trainer.global_step > 0 and trainer.state.fn == TrainerFn.FITTING:  # its validation included
            trainer.save_checkpoint(self.path)
            log.warning("stopped at step %d; go on with resume=%s", trainer.global_step, self.path)


def _checkpointing(run: Run) -> list[Callback]:
    """Build callbacks that save ``best.ckpt`` by the task's metric (weights only), and ``last.ckpt`` to resume from."""
    folder = str(run.folder / "checkpoints")
    metric = f"val/{run.task.main_metric}"
    return [
        ModelCheckpoint(
            folder, "best", monitor=metric, mode="max", save_weights_only=True, enable_version_counter=False
        ),
        ModelCheckpoint(folder, "last", enable_version_counter=False),
    ]


def _trainer(cfg: DictConfig, run: Run, callbacks: list[Callback]) -> pl.Trainer:
    tags = [run.task.name, run.encoder.name, *cfg.attention.kinds, f"seed={cfg.seed}"]
    wandb = None if cfg.logger.wandb is None else {**cfg.logger.wandb, "group": cfg.logger.wandb.group or _sweep_name()}
    loggers = build_loggers(run.folder, wandb, config={**recorded(cfg), **run.facts}, tags=tags)
    trainer: pl.Trainer = instantiate(
        cfg.trainer,
        logger=loggers,
        callbacks=callbacks,
        plugins=[WholeCheckpointIO()],
        default_root_dir=str(run.folder),
    )
    return trainer


def _sweep_name() -> str | None:
    """Return the sweep's folder name, which its runs share as their W&B group; None outside a sweep."""
    hydra = HydraConfig.get() if HydraConfig.initialized() else None
    return Path(hydra.sweep.dir).name if hydra is not None and hydra.mode == RunMode.MULTIRUN else None


# --- results ---


def _test_and_report(
    cfg: DictConfig, trainer: pl.Trainer, run: Run, planned: PlannedAnalyses, earlier: Metrics
) -> Metrics:
    tested = compare_attentions(
        trainer, run.classifier, run.datamodule, cfg.attention.kinds, repeats=cfg.attention.repeats
    )
    precision = {"run/precision": str(trainer.precision)}
    metrics = {**run.facts, **precision, **run.datamodule.facts(), **earlier, **tested}
    results = planned.run_all(metrics, trainer.strategy.root_device)
    scalars = named_scalars(results.tables, all_chapters())
    metrics |= scalars
    if trainer.is_global_zero:
        results.write(run.folder, metrics)
        write_json(run.folder / "metrics.json", metrics)
    rows = summarise([("", metrics)])
    _log(trainer, metrics, {**tested, **scalars}, rows, results)
    if trainer.is_global_zero:
        _tell(run, rows, metrics, results)
    return metrics


def _log(
    trainer: pl.Trainer, metrics: Metrics, numbers: Metrics, rows: list[dict[str, str]], results: AnalysisResults
) -> None:
    for logger in trainer.loggers:
        if isinstance(logger, ForgivingWandbLogger):
            logger.log_metrics(numbers, step=trainer.global_step)
            logger.log_summary(metrics)
            logger.log_rows("attention", rows)
            logger.log_results(results)
            logger.finish()
        else:
            logger.log_metrics(numbers, step=trainer.global_step)
            logger.save()


def _tell(run: Run, rows: list[dict[str, str]], metrics: Metrics, results: AnalysisResults) -> None:
    source = run.datamodule.split(run.datamodule.eval_split).examples.source
    print_rows(rows, title=f"{run.task.name}: {run.encoder.name} on {source}")
    truncated = [
        f"{int(count)} {name.split('/')[1]}" for name, count in metrics.items() if name.endswith("/truncated") and count
    ]
    if truncated:
        print(f"cut at {run.datamodule.max_length} tokens: {', '.join(truncated)} examples")
    if metrics.get("run/words") == GOLD:
        print("words:   gold annotation, no tagger")
    print(f"results: {run.folder}")
    if results.report is not None:
        print(f"report:  {results.report}")
    for name, page in results.pages.items():
        print(f"{name}: {run.folder / name}.html ({len(page) / 1e6:.1f} MB)")
    if "run/note" in metrics:
        print(metrics["run/note"])
