"""One text, every layer and head, to look around in: the interactive page.

Vig (2019), "A multiscale visualization of attention in the transformer model": attention-head view, model view and
neuron view; Vig & Belinkov (2019) use them to find and show their heads. Ours has effective and null attention beside
standard attention, and a second model or text beside the first. What the page shows is put together here;
``results.explorer`` makes it one HTML file.

The text is one of the split, or the user's own. It is run through the model on its own, whichever batch it is in.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pandas as pd
from transformers import PreTrainedModel

from effective_attention.analyses.common.base import Analysis, Context, check_example
from effective_attention.attention.trace import Trace, trace
from effective_attention.errors import UserError
from effective_attention.explorer.explore import trace_texts
from effective_attention.explorer.page import build_page
from effective_attention.explorer.sides import Prediction, Side, prediction_of, side_of

PRETRAINED = "pretrained"


class Explorer(Analysis):
    """Table: side, name, model, checkpoint, layers, heads, tokens, label, value (its probability, or the score).

    Args:
        context: The model and the split; with ``context.text`` that text is shown.
        example: Which example of the split, counted from 0.
        beside: To compare with: ``pretrained`` for the model as it was before finetuning, or a run directory or .ckpt
            file; None: nothing.
        beside_text: To compare with: the same model on another text.
        beside_text_pair: Its second half.
        neurons: Whether queries and keys go into the page, for its neuron view.
    """

    streams = False

    def __init__(
        self,
        context: Context,
        *,
        example: int = 0,
        beside: object = None,
        beside_text: object = None,
        beside_text_pair: object = None,
        neurons: object = True,
    ) -> None:
        super().__init__(context)
        check_example("analysis.explorer.example", example, context)
        _check_texts(context, beside_text, beside_text_pair)
        if not isinstance(neurons, bool):
            raise UserError(f"analysis.explorer.neurons must be true or false, got {neurons!r}")
        if beside is not None and beside_text is not None:
            raise UserError(
                "analysis.explorer.beside and analysis.explorer.beside_text exclude each other; leave one of them out"
            )
        if beside is not None:
            _check_beside(context, beside)
        self.example, self.beside, self.neurons = example, beside, neurons
        self.other_texts = tuple(str(text) for text in (beside_text, beside_text_pair) if text is not None)

    def update(self, trace: Trace) -> None:
        """Nothing to learn from a batch."""

    def compute(self) -> pd.DataFrame:
        rows = [
            {
                "side": number,
                "name": side.name,
                "model": side.model,
                "checkpoint": side.checkpoint or "",
                "layers": len(side.standard),
                "heads": len(side.standard[0]),
                "tokens": side.size,
                "label": label,
                "value": value,
            }
            for number, side in enumerate(self.sides)
            for label, value in _answers(side.prediction)
        ]
        return pd.DataFrame(rows)

    def page(self) -> str:
        return build_page(
            self.sides, title=f"Attention of {' and '.join(dict.fromkeys(side.model for side in self.sides))}"
        )

    @cached_property
    def sides(self) -> list[Side]:
        """What the page shows: one, or two to compare."""
        context = self.context
        seen, texts = self._shown()
        facts = {"model": context.metrics.get("run/model", ""), "checkpoint": context.metrics.get("run/checkpoint")}
        first = self._side(
            seen, texts, prediction=self._learnt(seen), name=self._own_name(facts["checkpoint"]), **facts
        )
        if self.other_texts:
            return [first, self._on_other_text(seen, **facts)]
        if self.beside is None:
            return [first]
        return [
            first,
            self._in_pretrained(seen, texts, **facts) if self.beside == PRETRAINED else self._in_run(seen, texts),
        ]

    def _shown(self) -> tuple[Trace, tuple[str, ...]]:
        context = self.context
        if context.text is not None:
            return context.text, context.texts or ()
        if context.example_trace is None or context.example_texts is None:
            raise ValueError("the explorer wants a context with example_trace and example_texts, or with text")
        return context.example_trace(self.example), context.example_texts(self.example)

    def _own_name(self, checkpoint: str | None) -> str:
        if self.other_texts:
            return "first text"
        if self.beside is None:
            return ""
        finetuned = self.context.reference is not None
        return checkpoint if checkpoint and self.beside != PRETRAINED else "finetuned" if finetuned else PRETRAINED

    def _side(self, seen: Trace, texts: tuple[str, ...], **facts: Any) -> Side:
        return side_of(seen, self.context.tokenizer, texts, neurons=self.neurons, **facts)

    def _on_other_text(self, seen: Trace, **facts: Any) -> Side:
        options: dict[str, Any] = {"max_length": self.context.max_length, "reading": seen.layers[0].reading}
        other, segments = trace_texts(seen.model, self.context.tokenizer, self.other_texts, **options)
        facts |= {"prediction": self._learnt(other), "name": "second text", "segments": segments}
        return self._side(other, self.other_texts, **facts)

    def _in_pretrained(self, seen: Trace, texts: tuple[str, ...], **facts: Any) -> Side:
        """Its classification head is random: no prediction."""
        load = self.context.reference
        if load is None:
            raise ValueError("the explorer wants a context with reference")
        other = trace(load().to(seen.model.device), seen.inputs, reading=seen.layers[0].reading)
        return self._side(other, texts, **{**facts, "checkpoint": None, "name": PRETRAINED})

    def _in_run(self, seen: Trace, texts: tuple[str, ...]) -> Side:
        """On the same tokens, if the other model has the same vocabulary."""
        context, reading, place = self.context, seen.layers[0].reading, str(self.beside)
        model, tokenizer, name = _restore(context, place)
        model.to(seen.model.device)
        if tokenizer.get_vocab() == context.tokenizer.get_vocab():
            other, segments = trace(model, seen.inputs, reading=reading), None
        else:
            other, segments = trace_texts(model, tokenizer, texts, max_length=context.max_length, reading=reading)
        facts: dict[str, Any] = {
            "prediction": self._prediction(other),
            "model": name,
            "checkpoint": place,
            "name": place,
        }
        return side_of(other, tokenizer, texts, segments=segments, neurons=self.neurons, **facts)

    def _learnt(self, seen: Trace) -> Prediction | None:
        """A pretrained model's classification head is random, and its answer worth nothing."""
        return None if self.context.reference is None else self._prediction(seen)

    def _prediction(self, seen: Trace) -> Prediction | None:
        task = self.context.task
        return prediction_of(seen.logits[0], task.labels) if task is not None and task.has_labels else None


def _answers(prediction: Prediction | None) -> list[tuple[str, float]]:
    if prediction is None:
        return [("", float("nan"))]
    if prediction["kind"] == "score":
        return [("score", prediction["score"])]
    return [(label, chance) for label, chance in prediction["probabilities"]]


def _check_texts(context: Context, beside_text: Any, beside_text_pair: Any) -> None:
    if context.texts is not None and not context.texts[0].strip():
        raise UserError("text is empty; add text=<some words>, or leave it out to see an example of the split")
    for option, text in (("beside_text", beside_text), ("beside_text_pair", beside_text_pair)):
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise UserError(
                f"analysis.explorer.{option} must be a text, got {text!r}; put it in quotes, or leave it out"
            )
    if beside_text is None and beside_text_pair is not None:
        raise UserError("analysis.explorer.beside_text_pair is given without analysis.explorer.beside_text; add that")


def _check_beside(context: Context, beside: Any) -> None:
    if beside == PRETRAINED:
        if context.reference is None:
            raise UserError("analysis.explorer.beside=pretrained: this is the pretrained model; add checkpoint=<run>")
    elif not isinstance(beside, str):
        raise UserError(f"analysis.explorer.beside must be pretrained, a run directory or a .ckpt file, got {beside!r}")
    else:
        _restore(context, beside)  # thrown away: what matters is whether it can be


def _restore(context: Context, beside: str) -> tuple[PreTrainedModel, Any, str]:
    """The model of a run, its tokenizer and its name."""
    from effective_attention.models.checkpoints import find_checkpoint, read_checkpoint, restore_classifier
    from effective_attention.models.classifier import CHECKPOINT_KEY
    from effective_attention.models.encoders import encoder_from_dict

    if context.task is None:
        raise UserError(
            f"analysis.explorer.beside={beside}: there is no task that the run could have learnt; leave it out"
        )
    state = read_checkpoint(find_checkpoint(beside, "analysis.explorer.beside"), context.task)
    encoder = encoder_from_dict(state[CHECKPOINT_KEY]["encoder"])
    return restore_classifier(state, context.task).model, encoder.tokenizer(), encoder.name
