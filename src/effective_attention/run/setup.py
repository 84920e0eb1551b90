"""Build and check everything a command needs before anything is written, so that bad input fails here."""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass, replace
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
from effective_attention.data.datamodule import Source, TextDataModule
from effective_attention.data.padding import agree_on_padding, padding_changes_answer
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError, first_line
from effective_attention.finite import check_weights
from effective_attention.models.checkpoints import read_checkpoint, restore_classifier
from effective_attention.models.classifier import CHECKPOINT_KEY, SequenceClassifier
from effective_attention.models.encoders import Encoder, PretrainedEncoder, encoder_from_dict
from effective_attention.models.packaged import PACKAGED
from effective_attention.models.places import find_checkpoint
from effective_attention.program import as_typed
from effective_attention.run.options.check import check_options
from effective_attention.run.options.targets import build, check_targets
from effective_attention.run.own_text import TEXT, OwnText, own_texts

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
    """

    folder: Path
    task: Task
    encoder: Encoder
    datamodule: TextDataModule
    classifier: SequenceClassifier
    facts: dict[str, Any]
    checkpoint: str | None

    def pretrained_start(self) -> PreTrainedModel:
        """Return the model as it was before finetuning; its random parts are drawn from the seed alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.classifier.origin["seed"])
            model = self.encoder.classifier(self.classifier.model.config.num_labels)
        agree_on_padding(model, self.datamodule.tokenizer)
        return model


def prepare(cfg: DictConfig, checkpoint: str | None) -> Run:
    """Build and check everything that bad input can break, before anything is written."""
    _quiet_libraries()
    check_everything(cfg)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    task = _task(cfg)
    if not task.has_labels and "optimizer" in cfg:
        raise UserError(
            f"task={task.name} has no labels, so there is nothing to learn; "
            "train on a task that has, such as task=mrpc, "
            f"then look at it with {as_typed(f'evaluate.py task={task.name} checkpoint=<run>')}"
        )
    texts = own_texts(cfg)
    source: Source = build(cfg.data.source, "data.source", has=("name", "load")) if texts is None else OwnText(texts)
    if checkpoint is None:
        encoder: Encoder = build(cfg.model, "model", has=("tokenizer", "classifier", "to_dict", "name", "embedded"))
        origin = {"encoder": encoder.to_dict(), "seed": cfg.seed, "data": source.name}
        model = encoder.classifier(task.num_outputs)  # first to draw from the seed: pretrained_start relies on it
        classifier = SequenceClassifier(model, task, _optimizer(cfg), warmup=cfg.get("warmup", 0.0), origin=origin)
    else:
        state = read_checkpoint(find_checkpoint(checkpoint, "checkpoint"), task)
        classifier = restore_classifier(state, task)
        encoder = _with_consent(encoder_from_dict(state[CHECKPOINT_KEY]["encoder"]), cfg)
    origin_of_weights = f"model {encoder.name}" if checkpoint is None else f"checkpoint={checkpoint}"
    check_weights(classifier.model.state_dict(), origin_of_weights)
    for kind in cfg.attention.kinds:
        _check_attention(classifier, kind)
    datamodule = _datamodule(cfg, task, source, encoder, classifier)
    datamodule.split(datamodule.eval_split)
    facts = _facts(task, source, encoder, seed=cfg.seed, checkpoint=checkpoint)
    return Run(Path(cfg.run_dir), task, encoder, datamodule, classifier, facts, checkpoint)


def _with_consent(encoder: Encoder, cfg: DictConfig) -> Encoder:
    """Take over whether a checkpoint's model may be fetched, if the user has named that very model."""
    named = isinstance(encoder, PretrainedEncoder) and encoder.name == cfg.model.get("name")
    return replace(encoder, fetch=cfg.model.get("fetch", "ask")) if named else encoder


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


def _task(cfg: DictConfig) -> Task:
    return build(cfg.task, "task", has=("build_metrics", "loader"))


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
            f"for the real thing: {as_typed(_real_command(task, encoder, checkpoint))}"
        )
    return facts


def _real_command(task: Task, encoder: Encoder, checkpoint: str | None) -> str:
    """Say how to get results that count; the model is the one that the user chose, if that is a real one."""
    data = f"task={task.name} {task.local_options}" if task.loaders else f"+experiment=paper task={task.name}"
    if not isinstance(encoder, PretrainedEncoder) or encoder.embedded:
        return f"train.py {data}" if task.has_labels else f"evaluate.py model=bert_base {data}"
    model = f"model={encoder.name}" if encoder.name in PACKAGED else f"model.name={encoder.name}"
    if task.has_labels:
        return f"train.py {model} {data}"
    chosen = model if checkpoint is None else f"checkpoint={checkpoint}"
    return f"evaluate.py {chosen} {data}"


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
