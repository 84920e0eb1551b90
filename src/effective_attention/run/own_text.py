"""``text=`` means that text: it takes the place of the split, which is neither loaded nor tested.

So a command with a text takes seconds, whatever the data are.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from effective_attention.attention.model_facts import longest_text
from effective_attention.attention.trace import Trace
from effective_attention.attributions.explain import outputs_of
from effective_attention.data.custom.complete import task_with_labels
from effective_attention.data.custom.task import CustomTask
from effective_attention.data.examples import Examples
from effective_attention.data.label_names import places
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError, listed
from effective_attention.models.classifier import CHECKPOINT_KEY

if TYPE_CHECKING:
    from effective_attention.run.origins import Origin
    from effective_attention.run.setup import Run

log = logging.getLogger(__name__)
TEXT = "text"
"""What tables and facts call data and split of a run on a text of the user's."""


@dataclass
class OwnText:
    """A source of one example, without a label: the text that the user wrote."""

    texts: tuple[str, ...]
    name: str = TEXT

    def load(self, task: Task, split: str) -> Examples:
        """Return the text, whatever the split."""
        return Examples([self.texts], None, "the text given with text=")


def own_texts(cfg: DictConfig) -> tuple[str, ...] | None:
    """Return the text, or the pair, that the user wrote; None: there is none."""
    texts = tuple(text for text in (cfg.get("text"), cfg.get("text_pair")) if text is not None)
    return texts or None


def check_pair(asked: Task | CustomTask, origin: Origin, texts: Sequence[str]) -> None:
    """Refuse a pair where the task, or what the model was finetuned on, is known to have single texts.

    Of a classifier made elsewhere nobody knows, unless the user has named its task or its text column.

    Raises:
        UserError: Says whose texts are single.
    """
    if len(texts) < 2:
        return
    single = "text_pair: {} has single texts; leave text_pair out, or write both parts into text="
    if origin.state is not None:
        columns = origin.state[CHECKPOINT_KEY]["task"].get("text_columns")
        if isinstance(columns, list) and len(columns) == 1:
            raise UserError(single.format(f"the task of {origin.place}"))
    elif isinstance(asked, CustomTask):
        if len(asked.columns) == 1:
            raise UserError(single.format(f"task.text_columns=[{asked.columns[0]}]"))
    elif asked.has_labels and not asked.is_pair and _is_asked_of(asked, origin):
        raise UserError(single.format(f"task={asked.name}"))


def _is_asked_of(asked: Task, origin: Origin) -> bool:
    """Tell whether a model answers a task's question, as far as its labels tell."""
    labels = origin.labels() if origin.is_classifier else None
    return labels is None or places(asked.labels, labels) is not None


def task_of_text(asked: Task | CustomTask, origin: Origin, texts: Sequence[str]) -> Task:
    """Return the task that the text is read for; of a classifier made elsewhere, what that one was finetuned on.

    Raises:
        UserError: The task is the user's own, and the model does not say which labels it has.
    """
    if isinstance(asked, Task) and not origin.is_classifier:
        return asked
    labels = origin.labels()
    if labels is None and origin.is_classifier:
        raise UserError(f"{origin.place}: its files have no classification head; name a classifier that was finetuned")
    if labels is None:
        raise UserError(
            f"task={asked.name}: {origin.place} does not say which labels it has; "
            "add checkpoint=<run, folder or hub id of a finetuned classifier>"
        )
    if isinstance(asked, Task) and not _is_asked_of(asked, origin):
        log.info(
            "text= is read for the labels of %s (%s), not for those of task=%s",
            origin.place,
            listed(labels),
            asked.name,
        )
    columns = ("text", "text_pair")[: len(texts)]
    return task_with_labels(CustomTask(name=asked.name, text_columns=columns, regression=not labels), labels)


def check_length(texts: Sequence[str], run: Run) -> None:
    """Refuse a text of the user's that is longer than the model can take; warn of one that ``data.max_length`` cuts."""
    data = run.datamodule
    if len(data.tokenizer(*texts, add_special_tokens=False, verbose=False)["input_ids"]) == 0:
        raise UserError("text has no words that the model's tokenizer knows; give one with words in it")
    length = len(data.tokenizer(*texts, verbose=False)["input_ids"])
    positions = longest_text(run.classifier.model)
    if positions is not None and length > positions:
        raise UserError(f"text has {length} tokens, and the model takes {positions}; shorten it")
    if length > data.max_length:
        cut = length - data.max_length
        log.warning("text has %d tokens, %d of them are cut; add data.max_length=%d to keep them", length, cut, length)


def prediction_facts(seen: Trace, task: Task) -> dict[str, Any]:
    """Return what the model predicts of the text, for ``metrics.json``; nothing where the task has no labels."""
    if not task.has_labels:
        return {}
    logits = seen.logits[0].double()
    if len(logits) == 1:
        return {"text/score": float(logits[0])}
    chances = logits.softmax(dim=0)
    names = outputs_of(seen, task.labels or None)
    return {"text/predicted": names[int(chances.argmax())], "text/probability": float(chances.max())}


def prediction_lines(metrics: Mapping[str, Any]) -> list[str]:
    """Say what the model predicts of the text, in a line; none where it predicts nothing."""
    if "text/score" in metrics:
        return [f"predicted: score {metrics['text/score']:.3f}"]
    if "text/predicted" in metrics:
        return [f"predicted: {metrics['text/predicted']}, probability {metrics['text/probability']:.3f}"]
    return []
