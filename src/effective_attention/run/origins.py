"""Where the model of a run comes from: a pretrained encoder, a run of ``train.py``, or a classifier made elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from omegaconf import DictConfig

from effective_attention.data.custom.task import CustomTask
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError
from effective_attention.io import expanded
from effective_attention.models.checkpoints import read_checkpoint, restore_classifier, stored_labels
from effective_attention.models.classifier import CHECKPOINT_KEY, SequenceClassifier
from effective_attention.models.encoders import Encoder, PretrainedEncoder, encoder_from_dict
from effective_attention.models.finetuned import Start, start_model, with_names
from effective_attention.models.next_verb import load_next_verb
from effective_attention.models.places import find_checkpoint, is_classifier_place
from effective_attention.program import as_typed
from effective_attention.run.options.targets import build

log = logging.getLogger(__name__)
Head = Literal["random", "finetuned", "verb", "trained here"]

_NUMBERS = ("singular", "plural")  # labels, in the order of a language model's two answers


@dataclass(frozen=True)
class Origin:
    """Where a model comes from.

    Attributes:
        encoder: Where its tokenizer, and its weights before training, come from.
        place: The option that names it, and its value.
        is_trained: Whether the run trains it.
        state: The checkpoint of a run of ``train.py``; None: the weights come from the encoder.
        is_classifier: Whether the user said that it is a finetuned classifier: ``checkpoint=`` names it.
    """

    encoder: Encoder
    place: str
    is_trained: bool
    state: dict[str, Any] | None = None
    is_classifier: bool = False

    def labels(self) -> Sequence[str] | None:
        """Return the labels that the model was finetuned on, in the order of its outputs; None: it says nothing.

        A model that gives scores has the empty list, one that is about to be trained says nothing.
        """
        if self.state is not None:
            return stored_labels(self.state, self.place)
        if self.is_trained or not isinstance(self.encoder, PretrainedEncoder) or not self.encoder.is_classifier():
            return None
        names = self.encoder.output_names()
        return names if len(names) > 1 else []

    def classifier(self, task: Task, cfg: DictConfig, optimizer: Any, data: str) -> tuple[SequenceClassifier, Head]:
        """Build the model for a task; say of its head whether it is random.

        Args:
            task: With its labels.
            cfg: The command's options.
            optimizer: Makes the optimiser; None: nothing is trained.
            data: The source's name.
        """
        if self.state is not None:
            return restore_classifier(self.state, task), "trained here"
        start = self._asked(task) if asks_for_verbs(cfg) else self._start(task)
        if start.note is not None:
            log.info(start.note)
        origin = {"encoder": self.encoder.to_dict(), "seed": cfg.seed, "data": data}
        classifier = SequenceClassifier(start.model, task, optimizer, warmup=cfg.get("warmup", 0.0), origin=origin)
        return classifier, "trained here" if self.is_trained else start.head

    def _asked(self, task: Task) -> Start:
        """Load the language model itself, to be asked for the next verb."""
        return Start(with_names(load_next_verb(self.encoder, self.place), task.labels), "verb")

    def _start(self, task: Task) -> Start:
        outputs = task.num_outputs if task.has_labels else None
        start = start_model(self.encoder, task.labels, outputs, place=self.place, new_head=self.is_trained)
        if self.is_classifier and task.has_labels and start.head == "random":
            raise UserError(
                f"{self.place}: its files have no classification head; "
                "name a classifier that was finetuned, or finetune this one: python train.py "
                f"model.name={self.encoder.name} task={task.name}"
            )
        return start


def asks_for_verbs(cfg: DictConfig) -> bool:
    """Tell whether the model is a language model that is asked for the next verb."""
    return bool(cfg.get("head") == "verb")


def check_head(cfg: DictConfig, checkpoint: str | None, task: Task | CustomTask) -> None:
    """Refuse ``head=verb`` where there is nothing to ask, or something to train.

    Raises:
        UserError: Says what to do instead.
    """
    if not asks_for_verbs(cfg):
        return
    if "optimizer" in cfg:
        command = as_typed("evaluate.py")
        raise UserError(
            f"head=verb has nothing to train: it asks a language model as it is; use {command}, or leave head=verb out "
            "to finetune a classification head"
        )
    if checkpoint is not None:
        raise UserError(
            "head=verb asks a language model as it is, not a classifier; leave checkpoint= out and name the model with "
            "model=smollm2 or model.name=<hub id or folder>"
        )
    if not isinstance(task, Task) or tuple(task.labels) != _NUMBERS:
        raise UserError(f"head=verb answers with a verb's number; add task=agreement, got task={task.name}")


def find_origin(cfg: DictConfig, checkpoint: str | None, task: Task | CustomTask) -> Origin:
    """Find the model that the options name.

    Raises:
        UserError: There is none, or a checkpoint is not for this task.
    """
    is_trained = "optimizer" in cfg
    if checkpoint is None:
        encoder: Encoder = build(cfg.model, "model", has=("tokenizer", "classifier", "to_dict", "name", "embedded"))
        return Origin(encoder, f"model {encoder.name}", is_trained)
    place = f"checkpoint={checkpoint}"
    if is_classifier_place(checkpoint):
        folder = expanded(checkpoint)
        if folder.is_dir():
            encoder = PretrainedEncoder(str(folder), option="checkpoint")
            return Origin(encoder, place, is_trained, is_classifier=True)
        return Origin(_on_the_hub(checkpoint), place, is_trained, is_classifier=True)
    state = read_checkpoint(find_checkpoint(checkpoint, "checkpoint"), task)
    encoder = _with_consent(encoder_from_dict(state[CHECKPOINT_KEY]["encoder"]), cfg)
    return Origin(encoder, place, is_trained, state)


def _on_the_hub(name: str) -> PretrainedEncoder:
    """Return the model of that name on the hub; a mistyped path has come here too."""
    encoder = PretrainedEncoder(name, option="checkpoint")
    try:
        encoder.is_classifier()
    except UserError as error:
        raise UserError(f"checkpoint={name}: no such file or folder; taken for a name on the hub: {error}") from error
    return encoder


def _with_consent(encoder: Encoder, cfg: DictConfig) -> Encoder:
    """Take over whether a checkpoint's model may be fetched, if the user has named that very model."""
    named = isinstance(encoder, PretrainedEncoder) and encoder.name == cfg.model.get("name")
    return replace(encoder, fetch=cfg.model.get("fetch", "ask")) if named else encoder
