"""The two commands, as functions of a composed config.

``train`` finetunes, tests and analyses; ``evaluate`` tests and analyses, or, with ``text=``, looks at that text alone.

Each is a straight line: check everything, build, run, write. Tests call them directly.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Callback, LearningRateMonitor
from pytorch_lightning.utilities import rank_zero_only

from effective_attention.analyses.common.run import Tables
from effective_attention.explorer.index import megabytes
from effective_attention.io import write_json, write_table, write_text
from effective_attention.models.checkpoints import WholeCheckpointIO
from effective_attention.reports.chapters import all_chapters
from effective_attention.reports.runs import PREDICTIONS
from effective_attention.reports.scalars import final_scalars, named_scalars
from effective_attention.reports.sweep import print_rows, summarise
from effective_attention.run.analysing import GOLD, AnalysisResults, PlannedAnalyses
from effective_attention.run.callbacks import AttentionDrift, ValidationStep
from effective_attention.run.checkpointing import BestCheckpoint, LastCheckpoint, keep_only
from effective_attention.run.cli import nothing_left_behind
from effective_attention.run.intervals import scalar_intervals, score_intervals
from effective_attention.run.lock import only_run_in
from effective_attention.run.loggers import ForgivingWandbLogger, build_loggers
from effective_attention.run.options.record import recorded, recorded_yaml
from effective_attention.run.own_text import prediction_lines
from effective_attention.run.predictions import prediction_table
from effective_attention.run.resume import given_options, with_record
from effective_attention.run.resumed import Resumed, clear_requeued, resumed_evaluation, resumed_training
from effective_attention.run.setup import Run, prepare
from effective_attention.run.signals import StopSignals, stopped_in_one_line
from effective_attention.run.testing import compare_attentions
from effective_attention.run.training_progress import TrainingProgress
from effective_attention.run.wandb_names import Job, named, trained_in

log = logging.getLogger(__name__)
Metrics = dict[str, Any]
_ASK = "; a causal language model can be asked as it is: head=verb"


def train(cfg: DictConfig) -> Metrics:
    """Finetune, then test under each attention; return what ``metrics.json`` holds."""
    with _alone_in(Path(cfg.run_dir)) as signals:
        run = prepare(cfg, checkpoint=None)
        run.datamodule.split("train")
        planned = PlannedAnalyses.plan(cfg, run)
        last = _last_checkpoint(cfg, run, signals)
        resumed = resumed_training(cfg, run)
        _write_config(cfg, run.folder)
        best = BestCheckpoint(last.path.parent, f"val/{run.task.main_metric}")
        watching = [LearningRateMonitor("step"), ValidationStep(), *_watching(cfg, planned)]
        trainer = _trainer(cfg, run, [best, last, *watching], resumed)
        trainer.fit(run.classifier, datamodule=run.datamodule, ckpt_path=resumed.checkpoint, weights_only=True)
        clear_requeued(run.folder)
        metrics = _test_and_report(cfg, trainer, run, planned, last.validation, resumed.folder)
        if trainer.is_global_zero:
            keep_only(cfg.save.keep, last.path.parent)
        return metrics


def evaluate(cfg: DictConfig) -> Metrics:
    """Test a checkpoint, or the pretrained model, under each attention; return what ``metrics.json`` holds.

    With a text of the user's nothing is tested: the model reads that text, and the analyses look at it.
    """
    with _alone_in(Path(cfg.run_dir)):
        run = prepare(cfg, checkpoint=cfg.checkpoint)
        planned = PlannedAnalyses.plan(cfg, run)
        resumed = resumed_evaluation(cfg)
        _write_config(cfg, run.folder)
        if run.facts.get("run/head") == "random":
            log.warning(
                "no checkpoint given: the encoder is pretrained, its classification head is random, "
                "so scores mean nothing%s",
                _ASK if tuple(run.task.labels) == ("singular", "plural") else "",
            )
        return _test_and_report(cfg, _trainer(cfg, run, [], resumed), run, planned, {}, resumed.folder)


@contextmanager
def _alone_in(folder: Path) -> Iterator[StopSignals]:
    """Keep other runs out of the folder, and end on a signal or an error as a command should."""
    with stopped_in_one_line(folder) as signals, nothing_left_behind(folder), only_run_in(folder):
        yield signals


def _write_config(cfg: DictConfig, folder: Path) -> None:
    if rank_zero_only.rank == 0:
        write_text(folder / "config.yaml", with_record(recorded_yaml(cfg)))


# --- the trainer ---


def _last_checkpoint(cfg: DictConfig, run: Run, signals: StopSignals) -> LastCheckpoint:
    facts = {"config": recorded(cfg), "options": given_options(), "data": run.datamodule.fingerprint()}
    often = {name: cfg.save[name] for name in ("every_steps", "every_minutes")}
    return LastCheckpoint(run.folder / "checkpoints" / "last.ckpt", signals, facts=facts, **often)


def _watching(cfg: DictConfig, planned: PlannedAnalyses) -> list[Callback]:
    return [AttentionDrift(planned, cfg.drift.examples)] if cfg.drift.examples and planned.chosen else []


def _trainer(cfg: DictConfig, run: Run, callbacks: list[Callback], resumed: Resumed) -> pl.Trainer:
    tags = [run.task.name, run.encoder.name, *cfg.attention.kinds, f"seed={cfg.seed}"]
    job: Job = "train" if "optimizer" in cfg else "evaluate"
    wandb = None if cfg.logger.wandb is None else named(cfg.logger.wandb, run, job)
    facts = {**recorded(cfg), **run.facts, "run/trained_in": trained_in(run, job)}
    loggers = build_loggers(run.folder, wandb, config=facts, tags=tags, earlier=resumed.rows)
    shown = [TrainingProgress(run.task.main_metric)] if cfg.trainer.get("enable_progress_bar", True) else []
    trainer: pl.Trainer = instantiate(
        cfg.trainer,
        logger=loggers,
        callbacks=[*callbacks, *shown],
        enable_progress_bar=False,  # Lightning's
        plugins=[WholeCheckpointIO()],
        default_root_dir=str(run.folder),
    )
    return trainer


# --- results ---


def _test_and_report(
    cfg: DictConfig,
    trainer: pl.Trainer,
    run: Run,
    planned: PlannedAnalyses,
    validation: Metrics,
    resumed_from: Path | None,
) -> Metrics:
    pl.seed_everything(cfg.seed, workers=True, verbose=False)  # whatever training drew: a resumed run draws less
    device = trainer.strategy.root_device
    measured, answers, ends = (
        _tested(cfg, trainer, planned) if planned.text is None else (planned.predicted(device), {}, {})
    )
    precision = {"run/precision": str(trainer.precision)}
    metrics = {**run.facts, **precision, **run.datamodule.facts(), **validation, **measured}
    results = planned.run_all(metrics, device, earlier=resumed_from)
    results.tables |= answers if results.tables else {}
    scalars = named_scalars(results.tables, all_chapters())
    metrics |= scalars | ends
    if planned.resampling is not None:
        metrics |= scalar_intervals(planned.resampling, all_chapters())
    if trainer.is_global_zero:
        results.write(run.folder, metrics)
        write_json(run.folder / "metrics.json", metrics)
    rows = summarise([("", metrics)])
    logged = {**measured, **final_scalars(scalars)}
    numbers = {name: value for name, value in logged.items() if not isinstance(value, str)}
    advice = _log(trainer, metrics, numbers, rows, results)
    if trainer.is_global_zero:
        _tell(run, rows, metrics, results, advice)
    return metrics


def _tested(cfg: DictConfig, trainer: pl.Trainer, planned: PlannedAnalyses) -> tuple[Metrics, Tables, Metrics]:
    """Test the split under each attention; write down what the model answered; return numbers, answers, intervals."""
    run = planned.run
    data = run.datamodule
    options = {"repeats": cfg.attention.repeats}
    tested = compare_attentions(trainer, run.classifier, data, cfg.attention.kinds, **options)
    if not run.task.has_labels:
        return tested.metrics, {}, {}
    examples = data.split(data.eval_split).examples
    answers = prediction_table(examples, run.task, tested.logits[next(iter(tested.logits))])
    answers = planned.with_facts(answers)
    if trainer.is_global_zero:
        write_table(run.folder / "tables" / PREDICTIONS, answers)
    drawn = planned.resampling
    assert examples.labels is not None
    ends = {} if drawn is None else score_intervals(run.classifier, tested.logits, examples.labels, drawn)
    return tested.metrics, {PREDICTIONS: answers}, ends


def _log(
    trainer: pl.Trainer, metrics: Metrics, numbers: Metrics, rows: list[dict[str, str]], results: AnalysisResults
) -> list[str]:
    """Log the results and end the logs; return how to look at what W&B keeps here."""
    advice: list[str] = []
    for logger in trainer.loggers:
        logger.log_metrics(numbers, step=trainer.global_step)
        if isinstance(logger, ForgivingWandbLogger):
            logger.log_summary(metrics)
            if rows:
                logger.log_rows("attention", rows)
            logger.log_results(results)
            advice = logger.advice()
            logger.finish()
        else:
            logger.save()
    return advice


def _tell(run: Run, rows: list[dict[str, str]], metrics: Metrics, results: AnalysisResults, advice: list[str]) -> None:
    source = run.datamodule.split(run.datamodule.eval_split).examples.source
    title = f"{run.task.name}: {run.encoder.name} on {source}"
    if rows:
        print_rows(rows, title=title)
    else:
        print(title, *prediction_lines(metrics), sep="\n")
    truncated = [
        f"{int(count)} {name.split('/')[1]}"
        for name, count in metrics.items()
        if name.endswith("/truncated") and count and rows  # of a text of the user's that was said before
    ]
    if truncated:
        print(f"cut at {run.datamodule.max_length} tokens: {', '.join(truncated)} examples")
    if metrics.get("run/words") == GOLD:
        print("words:   gold annotation, no tagger")
    print(f"results: {run.folder}")
    if results.report is not None:
        print(f"report:  {results.report}")
    for name, page in results.pages.items():
        more = f", the list of {results.more_pages[name]} pages" if name in results.more_pages else ""
        print(f"{name}: {run.folder / name}.html ({megabytes(len(page.encode()))}){more}")
    for line in advice:
        print(line)
    if "run/note" in metrics:
        print(metrics["run/note"])
