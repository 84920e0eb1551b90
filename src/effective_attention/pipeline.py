"""The two commands, as functions of a composed config: ``train`` finetunes and tests, ``evaluate`` only tests.

Each is a straight line: check everything, build, run, write. Tests call them directly.
"""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import transformers
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import Callback, LearningRateMonitor, ModelCheckpoint
from pytorch_lightning.trainer.states import TrainerFn

from effective_attention.attention.implementations import check_swappable
from effective_attention.cli import nothing_left_behind
from effective_attention.comparison import compare_attentions
from effective_attention.data.datamodule import Source, TextDataModule
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError, first_line
from effective_attention.models.checkpoints import (
    WholeCheckpointIO,
    check_fits,
    find_checkpoint,
    read_checkpoint,
    restore_classifier,
)
from effective_attention.models.classifier import CHECKPOINT_KEY, SequenceClassifier
from effective_attention.models.encoders import Encoder, encoder_from_dict
from effective_attention.results.files import write_json, write_text
from effective_attention.results.summary import print_rows, summarise
from effective_attention.tracking import ForgivingWandbLogger, build_loggers

log = logging.getLogger(__name__)
Metrics = dict[str, Any]


@dataclass
class _Run:
    """What both commands set up in the same way."""

    folder: Path
    task: Task
    encoder: Encoder
    datamodule: TextDataModule
    classifier: SequenceClassifier
    facts: dict[str, Any]


def train(cfg: DictConfig) -> Metrics:
    """Finetune, then test under each attention. Returns what ``metrics.json`` holds."""
    with nothing_left_behind(Path(cfg.run_dir)):
        run = _prepare(cfg, checkpoint=None)
        resume = _resume(cfg, run)
        run.datamodule.split("train")
    _write_config(cfg, run.folder)
    trainer = _trainer(cfg, run, [*_checkpointing(run), LearningRateMonitor("step"), _SaveWhenInterrupted(run.folder)])
    trainer.fit(run.classifier, datamodule=run.datamodule, ckpt_path=resume, weights_only=True)
    validation = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val/")}
    return _test_and_report(cfg, trainer, run, validation)


def evaluate(cfg: DictConfig) -> Metrics:
    """Test a checkpoint, or the pretrained model, under each attention. Returns what ``metrics.json`` holds."""
    with nothing_left_behind(Path(cfg.run_dir)):
        run = _prepare(cfg, checkpoint=cfg.checkpoint)
    _write_config(cfg, run.folder)
    if cfg.checkpoint is None:
        log.warning("no checkpoint given: the encoder is pretrained, its classification head is random, so scores mean nothing")
    return _test_and_report(cfg, _trainer(cfg, run, []), run, {})


# --- set-up ---


def _prepare(cfg: DictConfig, checkpoint: str | None) -> _Run:
    """Everything bad input can break, before anything is written."""
    _quiet_libraries()
    _check(cfg)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    task: Task = instantiate(cfg.task)
    source: Source = instantiate(cfg.data.source)
    if checkpoint is None:
        encoder: Encoder = instantiate(cfg.model)
        origin = {"encoder": encoder.to_dict(), "seed": cfg.seed, "data": source.name}
        model = encoder.classifier(task.num_outputs)
        classifier = SequenceClassifier(model, task, _optimizer(cfg), warmup=cfg.get("warmup", 0.0), origin=origin)
    else:
        state = read_checkpoint(find_checkpoint(checkpoint, "checkpoint"), task)
        classifier = restore_classifier(state, task)
        encoder = encoder_from_dict(state[CHECKPOINT_KEY]["encoder"])
    for kind in cfg.attention.kinds:
        _check_attention(classifier, kind)
    datamodule = _datamodule(cfg, task, source, encoder, classifier)
    datamodule.split(datamodule.eval_split)
    facts = _facts(task, source, encoder, seed=cfg.seed, checkpoint=checkpoint)
    return _Run(Path(cfg.run_dir), task, encoder, datamodule, classifier, facts)


def _check(cfg: DictConfig) -> None:
    """The options that belong to nobody below."""
    if not isinstance(cfg.seed, int) or not 0 <= cfg.seed < 2**32:
        raise UserError(f"seed must be a whole number from 0 to {2**32 - 1}, got {cfg.seed!r}")
    if not cfg.attention.kinds or not isinstance(cfg.attention.repeats, int) or cfg.attention.repeats < 1:
        raise UserError(
            "attention must have at least one of kinds and repeats, "
            f"got attention.kinds={cfg.attention.kinds} attention.repeats={cfg.attention.repeats}"
        )
    try:
        instantiate(cfg.trainer, logger=False)  # thrown away: the real one writes files as soon as it has its loggers
    except InstantiationException as error:
        reason = first_line(error.__cause__ or error)
        raise UserError(f"trainer: {reason}; check the trainer's options, or add trainer=cpu") from error


def _optimizer(cfg: DictConfig) -> Any:
    return instantiate(cfg.optimizer) if "optimizer" in cfg else None


def _check_attention(classifier: SequenceClassifier, kind: str) -> None:
    try:
        check_swappable(classifier.model, kind)
    except ValueError as error:
        raise UserError(f"attention {kind!r}: {error}") from error


def _datamodule(cfg: DictConfig, task: Task, source: Source, encoder: Encoder, classifier: SequenceClassifier) -> TextDataModule:
    options = {name: value for name, value in cfg.data.items() if name in _DATA_OPTIONS}
    return TextDataModule(
        task,
        source,
        encoder.tokenizer(),
        seed=cfg.seed,
        split=cfg.split,
        max_positions=getattr(classifier.model.config, "max_position_embeddings", None),
        **options,
    )


_DATA_OPTIONS = ("batch_size", "max_length", "padding", "limit_train", "limit_eval", "num_workers", "token_cache")


def _resume(cfg: DictConfig, run: _Run) -> str | None:
    if cfg.resume is None:
        return None
    path = find_checkpoint(cfg.resume, "resume")
    checkpoint = read_checkpoint(path, run.task)
    if "optimizer_states" not in checkpoint:
        raise UserError(f"resume={cfg.resume}: {path.name} holds weights only; resume from checkpoints/last.ckpt")
    check_fits(checkpoint, run.classifier)
    return str(path)


def _facts(task: Task, source: Source, encoder: Encoder, *, seed: int, checkpoint: str | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "run/task": task.name,
        "run/model": encoder.name,
        "run/data": source.name,
        "run/seed": seed,
        "run/checkpoint": checkpoint,
    }
    embedded = [name for name, is_so in (("model", encoder.embedded), ("data", source.name == "sample")) if is_so]
    facts["run/embedded"] = bool(embedded)
    if embedded:
        facts["run/note"] = (
            f"embedded {' and '.join(embedded)}: a small demonstration, not the paper's setting; "
            f"for the real thing: python train.py +experiment=paper task={task.name}"
        )
    return facts


def _quiet_libraries() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its retries; what comes of them is our error to tell
    for noisy in ("pytorch_lightning", "lightning_fabric"):  # device banners and tips; warnings stay
        logging.getLogger(noisy).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="pytorch_lightning.utilities._pytree")
    warnings.filterwarnings("ignore", message="The number of training batches")
    warnings.filterwarnings("ignore", message="You're resuming from a checkpoint that ended before")  # our data module can
    warnings.filterwarnings("ignore", message=".*does not have many workers")
    warnings.filterwarnings("ignore", message="Metric `SpearmanCorrcoef` will save all")  # a few thousand numbers


def _write_config(cfg: DictConfig, folder: Path) -> None:
    write_text(folder / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))


# --- the trainer ---


class _SaveWhenInterrupted(Callback):
    """Ctrl-C, SIGTERM or an error in the middle of training: keep what has been learnt."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "checkpoints" / "last.ckpt"

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        if trainer.global_step > 0 and trainer.state.fn == TrainerFn.FITTING:  # its validation included
            trainer.save_checkpoint(self.path)
            log.warning("stopped at step %d; go on with resume=%s", trainer.global_step, self.path)


def _checkpointing(run: _Run) -> list[Callback]:
    """``best.ckpt`` by the task's metric (weights only) and ``last.ckpt`` with all that resuming needs."""
    folder = str(run.folder / "checkpoints")
    metric = f"val/{run.task.main_metric}"
    return [
        ModelCheckpoint(folder, "best", monitor=metric, mode="max", save_weights_only=True, enable_version_counter=False),
        ModelCheckpoint(folder, "last", enable_version_counter=False),
    ]


def _trainer(cfg: DictConfig, run: _Run, callbacks: list[Callback]) -> pl.Trainer:
    config = OmegaConf.to_container(cfg, resolve=True)
    tags = [run.task.name, run.encoder.name, *cfg.attention.kinds, f"seed={cfg.seed}"]
    wandb = None if cfg.logger.wandb is None else {**cfg.logger.wandb, "group": cfg.logger.wandb.group or _sweep_name()}
    loggers = build_loggers(run.folder, wandb, config={**config, **run.facts}, tags=tags)  # type: ignore[dict-item]
    trainer: pl.Trainer = instantiate(
        cfg.trainer, logger=loggers, callbacks=callbacks, plugins=[WholeCheckpointIO()], default_root_dir=str(run.folder)
    )
    return trainer


def _sweep_name() -> str | None:
    """The sweep's folder name, which its runs share as their W&B group; None outside a sweep."""
    hydra = HydraConfig.get() if HydraConfig.initialized() else None
    return Path(hydra.sweep.dir).name if hydra is not None and hydra.mode == RunMode.MULTIRUN else None


# --- results ---


def _test_and_report(cfg: DictConfig, trainer: pl.Trainer, run: _Run, earlier: Metrics) -> Metrics:
    tested = compare_attentions(trainer, run.classifier, run.datamodule, cfg.attention.kinds, repeats=cfg.attention.repeats)
    metrics = {**run.facts, **run.datamodule.facts(), **earlier, **tested}
    if trainer.is_global_zero:
        write_json(run.folder / "metrics.json", metrics)
    rows = summarise([("", metrics)])
    for logger in trainer.loggers:
        if isinstance(logger, ForgivingWandbLogger):
            logger.log_summary(metrics)
            logger.log_rows("attention", rows)
            logger.finish()
        else:
            logger.log_metrics(tested, step=trainer.global_step)
            logger.save()
    if trainer.is_global_zero:
        _tell(run, rows, metrics)
    return metrics


def _tell(run: _Run, rows: list[dict[str, str]], metrics: Metrics) -> None:
    print_rows(
        rows, title=f"{run.task.name}: {run.encoder.name} on {run.datamodule.split(run.datamodule.eval_split).examples.source}"
    )
    truncated = [f"{int(count)} {name.split('/')[1]}" for name, count in metrics.items() if name.endswith("/truncated") and count]
    if truncated:
        print(f"cut at {run.datamodule.max_length} tokens: {', '.join(truncated)} examples")
    print(f"results: {run.folder}")
    if "run/note" in metrics:
        print(metrics["run/note"])
