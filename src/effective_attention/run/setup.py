"""Build and check everything a command needs before anything is written, so that bad input fails here."""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import transformers
from omegaconf import DictConfig
from transformers import PreTrainedModel

from effective_attention.attention.model_facts import longest_text
from effective_attention.attention.swap import check_swappable
from effective_attention.attention.variants import VARIANTS
from effective_attention.data.custom.complete import ModelLabels, complete
from effective_attention.data.custom.task import CustomTask
from effective_attention.data.datamodule import Source, TextDataModule
from effective_attention.data.label_names import say_nothing
from effective_attention.data.padding import agree_on_padding, padding_changes_answer
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError, first_line
from effective_attention.finite import check_weights
from effective_attention.models.classifier import SequenceClassifier
from effective_attention.models.encoders import Encoder
from effective_attention.models.finetuned import start_model
from effective_attention.program import as_typed
from effective_attention.run.options.check import check_options
from effective_attention.run.options.targets import build, check_targets
from effective_attention.run.origins import Head, Origin, asks_for_verbs, check_head, find_origin
from effective_attention.run.own_text import TEXT, OwnText, check_pair, own_texts, task_of_text
from effective_attention.run.real_thing import is_embedded, note_on

log = logging.getLogger(__name__)


@dataclass
class Run:
    """What both commands set up in the same way.

    Attributes:
        folder: The folder that results go to.
        task: The task to learn or to test on.
        encoder: Where the model comes from.
        datamodule: The examples.
        classifier: The model to train or test.
        facts: What a reader of the results should know of the run; part of ``metrics.json``.
        checkpoint: Where the weights come from; None: they are the pretrained ones, at first.
        has_start: Whether this run, or that of the checkpoint, finetuned the model, so that its start is known.
    """

    folder: Path
    task: Task
    encoder: Encoder
    datamodule: TextDataModule
    classifier: SequenceClassifier
    facts: dict[str, Any]
    checkpoint: str | None
    has_start: bool = False

    def pretrained_start(self) -> PreTrainedModel:
        """Return the model as it was before finetuning; its random parts are drawn from the seed alone."""
        config = self.classifier.model.config
        names = [str(config.id2label[number]) for number in sorted(config.id2label)]
        labels = [] if len(names) == 1 or say_nothing(names) else names
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.classifier.origin["seed"])
            start = start_model(self.encoder, labels, len(names), place=f"model {self.encoder.name}", new_head=True)
        model = start.model
        agree_on_padding(model, self.datamodule.tokenizer)
        return model


def prepare(cfg: DictConfig, checkpoint: str | None) -> Run:
    """Build and check everything that bad input can break, before anything is written."""
    _quiet_libraries()
    check_everything(cfg)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    asked = _task(cfg)
    if not asked.has_labels and "optimizer" in cfg:
        raise UserError(
            f"task={asked.name} has no labels, so there is nothing to learn; "
            "train on a task that has, such as task=mrpc, "
            f"then look at it with {as_typed(f'evaluate.py task={asked.name} checkpoint=<run>')}"
        )
    check_head(cfg, checkpoint, asked)
    texts = own_texts(cfg)
    origin = find_origin(cfg, checkpoint, asked)
    if texts is None:
        chosen: Source = build(cfg.data.source, "data.source", has=("name", "load"))
        task, source, found = _completed(asked, chosen, origin, split=cfg.split)
    else:
        check_pair(asked, origin, texts)
        task, source, found = task_of_text(asked, origin, texts), OwnText(texts), {}
    # the first to draw from the seed: pretrained_start relies on it
    classifier, head = origin.classifier(task, cfg, _optimizer(cfg), source.name)
    check_weights(classifier.model.state_dict(), origin.place)
    for kind in cfg.attention.kinds:
        _check_attention(classifier, kind)
    datamodule = _datamodule(cfg, task, source, origin.encoder, classifier)
    datamodule.split(datamodule.eval_split)
    facts = {**_facts(task, source, origin, head, seed=cfg.seed, checkpoint=checkpoint), **found}
    starts_here = origin.is_trained or origin.state is not None
    return Run(Path(cfg.run_dir), task, origin.encoder, datamodule, classifier, facts, checkpoint, starts_here)


def _completed(
    task: Task | CustomTask, source: Source, origin: Origin, *, split: str | None
) -> tuple[Task, Source, dict[str, Any]]:
    """Find the labels and splits of a task of the user's own, say what was found, and return facts of it."""
    if not isinstance(task, CustomTask):
        return task, source, {}
    ours = origin.is_trained or origin.state is not None
    completed = complete(task, source, ModelLabels(origin.place, origin.labels(), is_ours=ours), split=split)
    for note in completed.notes:
        log.info(note)
    return completed.task, completed.source, completed.facts


def check_everything(cfg: DictConfig) -> None:
    """Check every option, and try out what libraries check themselves."""
    check_options(cfg)
    check_targets(cfg)
    try:  # thrown away: the real one writes files as soon as it has its loggers
        build(cfg.trainer, "trainer", has=("fit", "test"), refuses=(Exception,), logger=False)
    except UserError as error:
        raise UserError(f"{error} or add trainer=cpu") from error
    if "optimizer" in cfg:
        _try_optimizer(cfg)
    try:
        _task(cfg).build_metrics()
    except (TypeError, ValueError) as error:
        raise UserError(f"task.metrics: {first_line(error)}") from error


def _task(cfg: DictConfig) -> Task | CustomTask:
    return build(cfg.task, "task", has=("build_metrics", "has_labels"))


def _try_optimizer(cfg: DictConfig) -> None:
    """Build the optimizer for a single number and take a step, which tells whether it accepts its options."""
    number = torch.nn.Parameter(torch.zeros(1))
    number.grad = torch.ones(1)
    try:
        made = _optimizer(cfg)([number])
        if isinstance(made, torch.optim.Optimizer):
            made.step(lambda: 0.0)  # some ask for the loss
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"optimizer: {first_line(error)}; check the options that begin with optimizer.") from error
    if not isinstance(made, torch.optim.Optimizer):
        raise UserError(f"optimizer._target_={cfg.optimizer._target_} does not do: it makes a {type(made).__name__}")


def _optimizer(cfg: DictConfig) -> Any:
    return build(cfg.optimizer, "optimizer") if "optimizer" in cfg else None


def _check_attention(classifier: SequenceClassifier, kind: str) -> None:
    try:
        check_swappable(classifier.model, kind)
    except ValueError as error:
        raise UserError(f"attention {kind!r}: {error}") from error


def _datamodule(
    cfg: DictConfig, task: Task, source: Source, encoder: Encoder, classifier: SequenceClassifier
) -> TextDataModule:
    options = {name: value for name, value in cfg.data.items() if name in _DATA_OPTIONS}
    tokenizer = encoder.tokenizer()
    pad_id = agree_on_padding(classifier.model, tokenizer)
    if tokenizer.pad_token_id is None:
        token = tokenizer.convert_ids_to_tokens(pad_id)
        log.info("the tokenizer of %s has no padding token: texts are filled up with %r", encoder.name, token)
    return TextDataModule(
        task,
        source,
        tokenizer,
        pad_id=pad_id,
        equal_lengths=_without_padding(cfg, classifier, tokenizer, pad_id),
        seed=cfg.seed,
        split=TEXT if isinstance(source, OwnText) else cfg.split,
        max_positions=longest_text(classifier.model),
        verbs=asks_for_verbs(cfg) and not isinstance(source, OwnText),
        **options,
    )


def _without_padding(cfg: DictConfig, classifier: SequenceClassifier, tokenizer: Any, pad_id: int) -> bool:
    """Tell whether no text may be padded, as the model would answer from padding; refuse options that ask for it."""
    if not padding_changes_answer(classifier.model, tokenizer, pad_id):
        return False
    name = type(classifier.model).__name__
    asked = {
        "data.padding=max_length": cfg.data.padding == "max_length",
        "reading=padded": cfg.get("reading") == "padded",
        "attention padded": any(VARIANTS[kind].full_length for kind in cfg.attention.kinds),
    }
    for option, is_asked in asked.items():
        if is_asked:
            raise UserError(f"{option} fills texts up, which changes what {name} answers; leave it out for this model")
    log.info("padding changes what %s answers: texts run in batches of one length", name)
    return True


_DATA_OPTIONS = ("batch_size", "max_length", "padding", "limit_train", "limit_eval", "num_workers", "token_cache")


def _facts(
    task: Task, source: Source, origin: Origin, head: Head, *, seed: int, checkpoint: str | None
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "run/task": task.name,
        "run/model": origin.encoder.name,
        "run/data": source.name,
        "run/seed": seed,
        "run/checkpoint": checkpoint,
    }
    if task.has_labels:
        facts |= {"run/main_metric": task.main_metric, "run/head": head}
    is_sample = source.name == "sample"
    facts["run/embedded"] = is_sample or is_embedded(origin.encoder)
    note = note_on(task, origin, head, checkpoint, is_sample=is_sample)
    if note is not None:
        facts["run/note"] = note
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
    warnings.filterwarnings(
        "ignore", message="You're resuming from a checkpoint that ended before"
    )  # our data module can
    warnings.filterwarnings("ignore", message=".*does not have many workers")
    warnings.filterwarnings("ignore", message="Metric `SpearmanCorrcoef` will save all")  # a few thousand numbers
