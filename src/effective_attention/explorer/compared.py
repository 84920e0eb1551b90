"""What the explorer's page of one text shows: the model on that text, and beside it another model or another text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from transformers import PreTrainedModel

from effective_attention.analyses.common.base import Context
from effective_attention.attention.trace import Trace, trace
from effective_attention.data.own_text import trace_texts
from effective_attention.errors import UserError
from effective_attention.explorer.maps import DEFAULT_MAPS
from effective_attention.explorer.sides import Prediction, Side, prediction_of, side_of
from effective_attention.reports.paths import without_folders

PRETRAINED = "pretrained"


@dataclass(frozen=True)
class Comparison:
    """Makes the sides of a page.

    Attributes:
        context: What is known of the run.
        beside: ``pretrained``, a run directory or .ckpt file; None: nothing, or ``other_texts``.
        other_texts: Another text, or a pair, to show beside; empty: none.
        neurons: Whether queries and keys go into the page.
        maps: Which maps stand beside standard and effective attention.
    """

    context: Context
    beside: str | None = None
    other_texts: tuple[str, ...] = ()
    neurons: bool = True
    maps: tuple[str, ...] = DEFAULT_MAPS

    def sides(
        self, seen: Trace, texts: tuple[str, ...], prediction: Prediction | None, gold: str | float | None
    ) -> list[Side]:
        """Return one side, or two to compare.

        Args:
            seen: The trace of one text without padding.
            texts: What was tokenised.
            prediction: What the model answered.
            gold: What is right.
        """
        facts = {
            "model": self.context.facts.get("run/model", ""),
            "checkpoint": self.context.facts.get("run/checkpoint"),
            "gold": gold,
        }
        name = self._own_name(facts["checkpoint"])
        first = self._side(seen, texts, prediction=prediction, name=name, **facts)
        if self.other_texts:
            return [first, self._on_other_text(seen, **facts)]
        if self.beside is None:
            return [first]
        if self.beside == PRETRAINED:
            return [first, self._in_pretrained(seen, texts, **facts)]
        return [first, self._in_run(seen, texts, self.beside, gold)]

    def learnt(self, seen: Trace) -> Prediction | None:
        """Return the prediction of a finetuned model; a pretrained one has a random classification head, so None."""
        return self._prediction(seen) if self._is_finetuned else None

    @property
    def _is_finetuned(self) -> bool:
        """Tell whether the model was finetuned: here, where its start is known, or elsewhere."""
        return self.context.models.pretrained is not None or self.context.facts.get("run/head") == "finetuned"

    def gold(self, label: float | None) -> str | float | None:
        """Name a label of the split; a score stays a number."""
        task = self.context.task
        if label is None or task is None or not task.has_labels:
            return None
        return float(label) if task.is_regression else str(task.labels[int(label)])

    def check(self) -> None:
        """Refuse a model to compare with that there is not, or that cannot be loaded."""
        if self.beside == PRETRAINED:
            if self.context.models.pretrained is None:
                why = "its start is not known" if self._is_finetuned else "this is the pretrained model"
                raise UserError(f"analysis.explorer.beside=pretrained: {why}; add checkpoint=<run>")
        elif self.beside is not None:
            _restore(self.context, self.beside)  # thrown away: what matters is whether it can be

    def _own_name(self, checkpoint: str | None) -> str:
        if self.other_texts:
            return "first text"
        if self.beside is None:
            return ""
        if checkpoint and self.beside != PRETRAINED:
            own, other = without_folders(checkpoint), without_folders(self.beside)
            return own if own != other else f"{own} (this one)"
        return "finetuned" if self._is_finetuned else PRETRAINED

    def _side(self, seen: Trace, texts: tuple[str, ...], **facts: Any) -> Side:
        return side_of(seen, self.context.tokenizer, texts, neurons=self.neurons, maps=self.maps, **facts)

    def _on_other_text(self, seen: Trace, **facts: Any) -> Side:
        options: dict[str, Any] = {"max_length": self.context.max_length, "reading": seen.layers[0].reading}
        other, segments = trace_texts(seen.model, self.context.tokenizer, self.other_texts, **options)
        facts |= {"prediction": self.learnt(other), "gold": None, "name": "second text", "segments": segments}
        return self._side(other, self.other_texts, **facts)

    def _in_pretrained(self, seen: Trace, texts: tuple[str, ...], **facts: Any) -> Side:
        """Show the same text in the pretrained model, without prediction: its classification head is random."""
        load = self.context.models.pretrained
        if load is None:
            raise ValueError("the explorer needs the pretrained model (OtherModels.pretrained)")
        other = trace(load().to(seen.model.device), seen.inputs, reading=seen.layers[0].reading)
        return self._side(other, texts, **{**facts, "checkpoint": None, "gold": None, "name": PRETRAINED})

    def _in_run(self, seen: Trace, texts: tuple[str, ...], place: str, gold: str | float | None) -> Side:
        """Show the same text in another run's model; on the same tokens, if it has the same vocabulary."""
        reading = seen.layers[0].reading
        model, tokenizer, name = self._other_run
        model.to(seen.model.device)
        if tokenizer.get_vocab() == self.context.tokenizer.get_vocab():
            other = trace(model, seen.inputs, reading=reading)
            segments = None
        else:
            length = self.context.max_length
            other, segments = trace_texts(model, tokenizer, texts, max_length=length, reading=reading)
        facts: dict[str, Any] = {
            "prediction": self._prediction(other),
            "gold": gold,
            "model": name,
            "checkpoint": place,
            "name": place,
        }
        return side_of(other, tokenizer, texts, segments=segments, neurons=self.neurons, maps=self.maps, **facts)

    @cached_property
    def _other_run(self) -> tuple[PreTrainedModel, Any, str]:
        return _restore(self.context, str(self.beside))

    def _prediction(self, seen: Trace) -> Prediction | None:
        task = self.context.task
        return prediction_of(seen.logits[0], task.labels) if task is not None and task.has_labels else None


def _restore(context: Context, beside: str) -> tuple[PreTrainedModel, Any, str]:
    """Load the model of a run; return it with its tokenizer and its name."""
    from effective_attention.models.checkpoints import read_checkpoint, restore_classifier
    from effective_attention.models.classifier import CHECKPOINT_KEY
    from effective_attention.models.encoders import encoder_from_dict
    from effective_attention.models.places import find_checkpoint

    if context.task is None:
        raise UserError(
            f"analysis.explorer.beside={beside}: there is no task that the run could have learnt; leave it out"
        )
    state = read_checkpoint(find_checkpoint(beside, "analysis.explorer.beside"), context.task)
    encoder = encoder_from_dict(state[CHECKPOINT_KEY]["encoder"])
    return restore_classifier(state, context.task).model, encoder.tokenizer(), encoder.name


def check_beside(beside: Any, beside_text: Any, beside_text_pair: Any) -> None:
    """Refuse what nothing can be compared with: two things at once, half a pair, no text."""
    for option, text in (("beside_text", beside_text), ("beside_text_pair", beside_text_pair)):
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise UserError(
                f"analysis.explorer.{option} must be a text, got {text!r}; put it in quotes, or leave it out"
            )
    if beside_text is None and beside_text_pair is not None:
        raise UserError("analysis.explorer.beside_text_pair is given without analysis.explorer.beside_text; add that")
    if beside is not None and beside_text is not None:
        raise UserError(
            "analysis.explorer.beside and analysis.explorer.beside_text exclude each other; leave one of them out"
        )
    if beside is not None and not isinstance(beside, str):
        raise UserError(f"analysis.explorer.beside must be pretrained, a run directory or a .ckpt file, got {beside!r}")
