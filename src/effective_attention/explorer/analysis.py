"""One text, every layer and head, to look around in: the interactive page.

Vig (2019), "A multiscale visualization of attention in the transformer model": attention-head view, model view and
neuron view; Vig & Belinkov (2019) use them to find and show their heads. Ours has effective and null attention beside
standard attention, and a second model or text beside the first. What the page shows is put together here;
``explorer.page`` makes it one HTML file.

The text is one of the split, or the user's own. It is run through the model on its own, whichever batch it is in.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from transformers import PreTrainedModel

from effective_attention.analyses.common.base import Analysis, Context, TextAnalysis
from effective_attention.analyses.common.options import check_flag
from effective_attention.analyses.common.schema import Column, Schema
from effective_attention.attention.trace import Trace, one_text, trace
from effective_attention.data.own_text import trace_texts
from effective_attention.errors import UserError
from effective_attention.explorer.page import build_page
from effective_attention.explorer.sides import Prediction, Side, prediction_of, side_of
from effective_attention.processes import gather

PRETRAINED = "pretrained"
SCHEMA = Schema(
    (
        Column("examples", "always 1: one example of the split, or the user's text", "whole", low=1, high=1),
        Column("side", "0, or 1 for what it is compared with", "whole", low=0, high=1, key=True),
        Column("name", "what the side is called; empty where there is one", "name", missing=True),
        Column("model", "whose attention is shown", "name"),
        Column("checkpoint", "where its weights come from; empty: not from a checkpoint", "name"),
        Column("layers", "of the model", "whole", low=1),
        Column("heads", "of a layer", "whole", low=1),
        Column("tokens", "of the text", "whole", low=1),
        Column("label", "what may be predicted; empty where nothing is", "name", key=True, missing=True),
        Column("value", "probability of the label, or the score"),
    )
)


class ExplorerPage(TextAnalysis):
    """One text, every layer and head, as an interactive page; ``SCHEMA`` describes the table.

    Args:
        example: Which example of the split, counted from 0; not read where the user wrote a text.
        beside: To compare with: ``pretrained`` for the model as it was before finetuning, or a run directory or .ckpt
            file; None: nothing.
        beside_text: To compare with: the same model on another text.
        beside_text_pair: Its second half.
        neurons: Whether queries and keys go into the page, for its neuron view.
    """

    schema = SCHEMA

    @classmethod
    def analysis_name(cls) -> str:
        """Return the name that configs and the page have."""
        return "explorer"

    def __init__(
        self,
        *,
        example: int = 0,
        beside: object = None,
        beside_text: object = None,
        beside_text_pair: object = None,
        neurons: bool = True,
    ) -> None:
        super().__init__(example=example)
        _check_texts(beside_text, beside_text_pair)
        check_flag("analysis.explorer.neurons", neurons)
        if beside is not None and beside_text is not None:
            raise UserError(
                "analysis.explorer.beside and analysis.explorer.beside_text exclude each other; leave one of them out"
            )
        self.beside = beside
        self.neurons = neurons
        self.other_texts = tuple(str(text) for text in (beside_text, beside_text_pair) if text is not None)
        self.sides: list[Side] = []

    def setup(self, context: Context) -> Analysis:
        """Check that there is a text to show, and a model to compare with where one is wanted."""
        super().setup(context)
        if context.text is not None and not context.text.texts[0].strip():
            raise UserError("text is empty; add text=<some words>, or leave it out to see an example of the split")
        if self.beside is not None:
            _check_beside(context, self.beside)
        self.sides = []
        return self

    def look(self, trace: Trace) -> pd.DataFrame:
        """Put together what the page shows: one side, or two to compare."""
        self.sides = self._make_sides(trace)
        rows = [
            {
                "examples": 1,
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

    def compute(self) -> pd.DataFrame:
        """Bring table and sides to every process; only one is asked for the page."""
        table = super().compute()
        self.sides = next(sides for sides in gather(self.sides) if sides)
        return table

    def page(self) -> str:
        """Build the page of the sides."""
        models = dict.fromkeys(side.model for side in self.sides)
        return build_page(self.sides, title=f"Attention of {' and '.join(models)}")

    def _make_sides(self, cut: Trace) -> list[Side]:
        context = self.context
        seen = cut if cut.layers[0].reading == "padded" else trace(cut.model, one_text(cut, 0))  # without companions
        texts = self._texts()
        facts = {"model": context.facts.get("run/model", ""), "checkpoint": context.facts.get("run/checkpoint")}
        name = self._own_name(facts["checkpoint"])
        first = self._side(seen, texts, prediction=self._learnt(seen), name=name, **facts)
        if self.other_texts:
            return [first, self._on_other_text(seen, **facts)]
        if self.beside is None:
            return [first]
        if self.beside == PRETRAINED:
            return [first, self._in_pretrained(seen, texts, **facts)]
        return [first, self._in_run(seen, texts)]

    def _texts(self) -> tuple[str, ...]:
        """Return the texts that were tokenised."""
        context = self.context
        if context.text is not None:
            return context.text.texts
        if context.split.texts is None:
            raise ValueError("the explorer needs to know the split's texts (SplitFacts.texts)")
        return context.split.texts(self.example)

    def _own_name(self, checkpoint: str | None) -> str:
        if self.other_texts:
            return "first text"
        if self.beside is None:
            return ""
        finetuned = self.context.models.pretrained is not None
        return checkpoint if checkpoint and self.beside != PRETRAINED else "finetuned" if finetuned else PRETRAINED

    def _side(self, seen: Trace, texts: tuple[str, ...], **facts: Any) -> Side:
        return side_of(seen, self.context.tokenizer, texts, neurons=self.neurons, **facts)

    def _on_other_text(self, seen: Trace, **facts: Any) -> Side:
        options: dict[str, Any] = {"max_length": self.context.max_length, "reading": seen.layers[0].reading}
        other, segments = trace_texts(seen.model, self.context.tokenizer, self.other_texts, **options)
        facts |= {"prediction": self._learnt(other), "name": "second text", "segments": segments}
        return self._side(other, self.other_texts, **facts)

    def _in_pretrained(self, seen: Trace, texts: tuple[str, ...], **facts: Any) -> Side:
        """Show the same text in the pretrained model, without prediction: its classification head is random."""
        load = self.context.models.pretrained
        if load is None:
            raise ValueError("the explorer needs the pretrained model (OtherModels.pretrained)")
        other = trace(load().to(seen.model.device), seen.inputs, reading=seen.layers[0].reading)
        return self._side(other, texts, **{**facts, "checkpoint": None, "name": PRETRAINED})

    def _in_run(self, seen: Trace, texts: tuple[str, ...]) -> Side:
        """Show the same text in another run's model; on the same tokens, if it has the same vocabulary."""
        context = self.context
        reading = seen.layers[0].reading
        place = str(self.beside)
        model, tokenizer, name = _restore(context, place)
        model.to(seen.model.device)
        if tokenizer.get_vocab() == context.tokenizer.get_vocab():
            other = trace(model, seen.inputs, reading=reading)
            segments = None
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
        """Return the prediction of a finetuned model; a pretrained one has a random classification head, so None."""
        return None if self.context.models.pretrained is None else self._prediction(seen)

    def _prediction(self, seen: Trace) -> Prediction | None:
        task = self.context.task
        return prediction_of(seen.logits[0], task.labels) if task is not None and task.has_labels else None


def _answers(prediction: Prediction | None) -> list[tuple[str, float]]:
    if prediction is None:
        return [("", float("nan"))]
    if prediction["kind"] == "score":
        return [("score", prediction["score"])]
    return [(label, chance) for label, chance in prediction["probabilities"]]


def _check_texts(beside_text: Any, beside_text_pair: Any) -> None:
    for option, text in (("beside_text", beside_text), ("beside_text_pair", beside_text_pair)):
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise UserError(
                f"analysis.explorer.{option} must be a text, got {text!r}; put it in quotes, or leave it out"
            )
    if beside_text is None and beside_text_pair is not None:
        raise UserError("analysis.explorer.beside_text_pair is given without analysis.explorer.beside_text; add that")


def _check_beside(context: Context, beside: Any) -> None:
    if beside == PRETRAINED:
        if context.models.pretrained is None:
            raise UserError("analysis.explorer.beside=pretrained: this is the pretrained model; add checkpoint=<run>")
    elif not isinstance(beside, str):
        raise UserError(f"analysis.explorer.beside must be pretrained, a run directory or a .ckpt file, got {beside!r}")
    else:
        _restore(context, beside)  # thrown away: what matters is whether it can be


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
