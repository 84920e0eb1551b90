"""Start from a model with its own classification head, where that answers the task's question; else with a random one.

A classifier that somebody finetuned says in its config what its outputs are called (``id2label``). They are matched to
the task's labels by name, and put into the task's order, so that nothing downstream knows the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from effective_attention.data.label_names import places, say_nothing
from effective_attention.errors import UserError, listed
from effective_attention.models.encoders import Encoder, PretrainedEncoder

Head = Literal["random", "finetuned", "verb"]
_MULTI_LABEL = "multi_label_classification"


@dataclass(frozen=True)
class Start:
    """A model to test or to train.

    Attributes:
        model: Its outputs are in the task's order.
        head: Whether its classification head was finetuned by somebody, or is random; ``verb``: it has none, and is
            asked for the next verb (``next_verb``).
        note: What was done to bring head and task together, for the log; None: nothing.
    """

    model: PreTrainedModel
    head: Head
    note: str | None = None


def start_model(
    encoder: Encoder, labels: Sequence[str], num_outputs: int | None, *, place: str, new_head: bool
) -> Start:
    """Load a model for a task.

    Args:
        encoder: Where it comes from.
        labels: The task's labels, in its order; empty for scores, and for a task without labels.
        num_outputs: How many outputs the task needs; None: any number will do.
        place: What an error or a note calls the model: the option that names it.
        new_head: Whether a head for other labels is replaced by a random one; else it is refused.

    Raises:
        UserError: The model cannot be loaded, or its head answers another question.
    """
    if not isinstance(encoder, PretrainedEncoder):
        model = encoder.classifier(2 if num_outputs is None else num_outputs)
        return Start(with_names(model, labels), "random")
    model, absent = encoder.load_classifier(num_outputs)
    names = encoder.output_names()
    if absent and not absent.mismatched:
        return Start(with_names(model, labels), "random")
    if num_outputs is None:
        return Start(model, "finetuned")
    if _labels_tokens(model) and not new_head:
        raise UserError(f"{place}: it labels single tokens, which is not supported; name a classifier of whole texts")
    problem = _mismatch(model, names, labels, num_outputs)
    if problem is not None and new_head:
        fresh = _with_new_head(model)
        return Start(
            with_names(fresh, labels), "random", f"{place}: {problem}; its head is replaced by a new, random one"
        )
    if problem is not None:
        advice = (
            "choose the task it was finetuned on (task=custom for data of your own), or train a new head with train.py"
        )
        raise UserError(f"{place}: {problem}; {advice}")
    return _in_order(model, names, labels, place)


def _labels_tokens(model: PreTrainedModel) -> bool:
    """Tell whether the files are those of a classifier of tokens: its head may look like one of texts."""
    return any(name.endswith("ForTokenClassification") for name in model.config.architectures or ())


def _mismatch(model: PreTrainedModel, names: Sequence[str], labels: Sequence[str], num_outputs: int) -> str | None:
    """Say in what a finetuned head differs from what the task needs; None: in nothing but, perhaps, the order."""
    if not labels:
        is_one = len(names) == num_outputs == 1
        return None if is_one else f"its head has {len(names)} outputs ({listed(names)}), and the task needs one score"
    if _labels_tokens(model):
        return "it labels single tokens"
    if getattr(model.config, "problem_type", None) == _MULTI_LABEL:
        return "it gives a text several labels at once, and the task has one a text"
    if len(names) == num_outputs and (say_nothing(names) or places(labels, names) is not None):
        return None
    return f"its labels are {listed(names)}, those of the task {listed(labels)}"


def _in_order(model: PreTrainedModel, names: Sequence[str], labels: Sequence[str], place: str) -> Start:
    """Put the outputs into the task's order."""
    order = places(labels, names)
    if not labels:
        return Start(model, "finetuned")
    if order is None:
        note = f"{place}: its outputs have no names, and are taken in the task's order: {listed(labels)}"
        return Start(with_names(model, labels), "finetuned", note)
    if order == list(range(len(labels))):
        return Start(with_names(model, labels), "finetuned")
    _permute(model, order, place)
    note = f"{place}: its labels {listed(names)} are put into the task's order: {listed(labels)}"
    return Start(with_names(model, labels), "finetuned", note)


def with_names(model: PreTrainedModel, labels: Sequence[str]) -> PreTrainedModel:
    """Write the task's labels into the model's config."""
    if labels:
        model.config.id2label = dict(enumerate(labels))
        model.config.label2id = {name: number for number, name in enumerate(labels)}
    return model


def _with_new_head(model: PreTrainedModel) -> PreTrainedModel:
    """Return the encoder with a head that is random in all its parts."""
    fresh = AutoModelForSequenceClassification.from_config(model.config, trust_remote_code=False)
    fresh.base_model.load_state_dict(model.base_model.state_dict())
    return fresh.to(model.dtype).eval()


def _permute(model: PreTrainedModel, order: Sequence[int], place: str) -> None:
    """Reorder the outputs of the head's last layer, and prove on an input that the answers are the same otherwise.

    Raises:
        UserError: There is no such layer, or more than one, or the proof fails.
    """
    outside = {name: part for name, part in model.named_modules() if not name.startswith(f"{model.base_model_prefix}.")}
    found = [part for part in outside.values() if isinstance(part, nn.Linear) and part.out_features == len(order)]
    refusal = UserError(
        f"{place}: its labels stand in another order than the task's, and its head cannot be reordered; "
        "save it with id2label in the task's order"
    )
    if len(found) != 1:
        raise refusal
    before = _answer(model)
    with torch.no_grad():
        for tensor in (found[0].weight, found[0].bias):
            if tensor is not None:
                tensor.copy_(tensor[list(order)].clone())
    if not torch.allclose(_answer(model), before[:, list(order)], rtol=1e-4, atol=1e-5):
        raise refusal


@torch.no_grad()
def _answer(model: PreTrainedModel) -> Tensor:
    """Return the logits of a short input of arbitrary tokens, (1, label)."""
    logits: Tensor = model(input_ids=torch.arange(4)[None]).logits
    return logits
