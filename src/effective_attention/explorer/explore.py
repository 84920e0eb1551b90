"""Build a page to explore what attention does with a text, from Python: in a notebook, or as a file.

    >>> explore(model, tokenizer, "A cat sat on the mat.").save("cat.html")  # doctest: +SKIP

The same page is written by ``python evaluate.py analysis=explorer text="..."``.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from effective_attention.analyses.common.analyse import longest_input
from effective_attention.attention.decomposition import Reading
from effective_attention.attention.trace import Trace, trace
from effective_attention.data.examples import is_unicode
from effective_attention.explorer.page import build_page
from effective_attention.explorer.sides import Prediction, Side, prediction_of, side_of
from effective_attention.io import write_text

log = logging.getLogger(__name__)
_HEIGHT = 760  # of the frame in a notebook, in pixels


@dataclass(frozen=True)
class Explorer:
    """The page; a notebook shows it, and ``save`` writes it to a file, which needs neither network nor notebook."""

    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page, completely or not at all."""
        write_text(Path(path), self.html)
        return Path(path)

    def __repr__(self) -> str:
        return f"Explorer({len(self.html) / 1e6:.1f} MB of HTML; .save(path) writes it)"

    def _repr_html_(self) -> str:
        """Show the page in a frame of its own, which can do nothing to the notebook around it."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-downloads" '
            'allow="clipboard-write" '
            f'style="width: 100%; height: {_HEIGHT}px; border: 0" title="Attention explorer"></iframe>'
        )


def explore(
    model: PreTrainedModel,
    tokenizer: Any,
    text: str,
    text_pair: str | None = None,
    *,
    beside: PreTrainedModel | str | Sequence[str] | None = None,
    labels: Sequence[str] | None = None,
    name: str | Sequence[str] | None = None,
    neurons: bool = True,
) -> Explorer:
    """Run the model once on a text and build the page that shows its attention: standard, effective and null.

    Args:
        model: Any transformers model whose attention goes through the ``AttentionInterface``; neither it nor its mode
            is changed.
        tokenizer: The model's.
        text: What to look at; cut, with a warning, where the model can take no more.
        text_pair: Its second half.
        beside: To compare: another model with the same tokenizer (a second checkpoint, say), another text, or a pair of
            texts.
        labels: Names of what the model predicts; None: those of its config.
        name: Name of the model, or names of the two models; None: from their configs.
        neurons: Whether queries and keys go into the file, for the neuron view.

    Raises:
        ValueError: A text is empty, or the model cannot be shown; says why.
    """
    texts = _texts(text, text_pair)
    _check(model, beside)
    models = [model]
    both = [texts]
    if isinstance(beside, PreTrainedModel):
        models.append(beside)
        both.append(texts)
    elif beside is not None:
        models.append(model)
        both.append(_texts(*([beside] if isinstance(beside, str) else beside)))
    names = _names(models, name)
    headings = _headings(names, same_model=not isinstance(beside, PreTrainedModel)) if beside is not None else [""]
    sides = [
        _side(one, tokenizer, given, labels, {"neurons": neurons, "model": called, "name": heading})
        for one, given, called, heading in zip(models, both, names, headings, strict=True)
    ]
    return Explorer(build_page(sides, title=f"Attention of {' and '.join(dict.fromkeys(names))}"))


def _side(
    model: PreTrainedModel, tokenizer: Any, texts: tuple[str, ...], labels: Sequence[str] | None, facts: dict[str, Any]
) -> Side:
    seen, segments = trace_texts(model, tokenizer, texts)
    return side_of(seen, tokenizer, texts, segments=segments, prediction=_prediction(seen, labels), **facts)


def trace_texts(
    model: PreTrainedModel,
    tokenizer: Any,
    texts: Sequence[str],
    *,
    max_length: int | None = None,
    reading: Reading = "exact",
) -> tuple[Trace, list[int] | None]:
    """Trace a text or a pair; return the trace, and which of the texts each token belongs to (None if unknown).

    Args:
        model: The model that reads the text.
        tokenizer: The model's.
        texts: One or two texts.
        max_length: Largest number of tokens; None: as many as the model can take.
        reading: ``padded`` pads to ``max_length``.
    """
    longest = max_length or longest_input(model, tokenizer)
    encoded = tokenizer(*texts, return_tensors="pt", verbose=False)
    if longest is not None and encoded["input_ids"].shape[1] > longest:
        log.warning("the text has %d tokens and is cut at %d", encoded["input_ids"].shape[1], longest)
        encoded = tokenizer(*texts, truncation=True, max_length=longest, return_tensors="pt")
    segments = _sequence_numbers(encoded, len(texts))
    if reading == "padded":
        encoded = tokenizer(*texts, truncation=True, max_length=longest, padding="max_length", return_tensors="pt")
    if encoded["input_ids"].shape[1] == 0:
        raise ValueError("text has no tokens; give one with words in it")
    return trace(model, {name: value.to(model.device) for name, value in encoded.items()}, reading=reading), segments


def _sequence_numbers(encoded: Any, texts: int) -> list[int] | None:
    """Tell which text each token belongs to; a special token belongs to the text before it."""
    if texts == 1:
        return [0] * encoded["input_ids"].shape[1]
    if not encoded.is_fast:
        return None
    numbers = []
    last = 0
    for number in encoded.sequence_ids(0):
        last = last if number is None else number
        numbers.append(last)
    return numbers


def _check(*models: Any) -> None:
    for model in models:
        if isinstance(model, PreTrainedModel) and model.config.is_encoder_decoder:
            raise ValueError(
                f"explore shows attention of a text to itself: {type(model).__name__} reads one and writes another"
            )


def _texts(text: Any, text_pair: Any = None, *more: Any) -> tuple[str, ...]:
    texts = tuple(part for part in (text, text_pair) if part is not None)
    if more or not texts or not all(isinstance(part, str) for part in texts):
        raise ValueError(f"a text must be a string, or two for a pair, got {(*texts, *more)!r}")
    if not texts[0].strip():
        raise ValueError("text is empty; give one with words in it")
    if not all(map(is_unicode, texts)):
        raise ValueError("text holds half a surrogate pair, which is no character; leave it out")
    return texts


def _prediction(seen: Trace, labels: Sequence[str] | None) -> Prediction | None:
    """Return the prediction of a model that classifies or scores whole texts; None for any other."""
    if seen.logits is None or seen.logits.ndim != 2:
        return None
    config = seen.model.config
    outputs = seen.logits.shape[1]
    named = [str(config.id2label.get(place, place)) for place in range(outputs)] if labels is None else list(labels)
    if len(named) != outputs and outputs > 1:
        raise ValueError(f"labels must be as many as the model's outputs, {outputs}, got {len(named)}")
    several = config.problem_type == "multi_label_classification"
    return prediction_of(seen.logits[0], named, several=several)


def _names(models: Sequence[PreTrainedModel], name: str | Sequence[str] | None) -> list[str]:
    if name is None:
        return [Path(model.config.name_or_path).name or type(model).__name__ for model in models]
    names = [name] * len(models) if isinstance(name, str) else list(name)
    if len(names) != len(models):
        raise ValueError(f"name must be one, or one of each model, got {len(names)} for {len(models)}")
    return names


def _headings(names: Sequence[str], *, same_model: bool) -> list[str]:
    if same_model:
        return ["first text", "second text"]
    return list(names) if len(set(names)) == len(names) else ["first model", "second model"]
