"""A text, or a pair, that the user hands us: checked, tokenised as the model wants it, and traced."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from effective_attention.attention.model_facts import accepted_inputs, device_of, longest_text
from effective_attention.attention.readings import Protocol, Reading, as_reading
from effective_attention.attention.trace import Trace, trace
from effective_attention.data.examples import is_unicode
from effective_attention.data.padding import padded, padding_agreed

log = logging.getLogger(__name__)


def as_texts(text: Any, text_pair: Any = None, *more: Any) -> tuple[str, ...]:
    """Check a text, or two, and put them into a tuple.

    Raises:
        ValueError: It is no text, or empty; says why.
    """
    texts = tuple(part for part in (text, text_pair) if part is not None)
    if more or not texts or not all(isinstance(part, str) for part in texts):
        raise ValueError(f"a text must be a string, or two for a pair, got {(*texts, *more)!r}")
    if not texts[0].strip():
        raise ValueError("text is empty; give one with words in it")
    if not all(map(is_unicode, texts)):
        raise ValueError("text holds half a surrogate pair, which is no character; leave it out")
    return texts


def longest_input(model: nn.Module, tokenizer: Any) -> int | None:
    """Return how many tokens the model can take; None if it does not say."""
    positions = longest_text(model)
    return None if positions is None else min(positions, int(tokenizer.model_max_length))


def encode_texts(tokenizer: Any, texts: Sequence[str], longest: int | None, *, warn: bool = True) -> Any:
    """Tokenise a text or a pair, as a batch of one; what is longer than ``longest`` is cut, with a warning if wanted.

    Raises:
        ValueError: There are no tokens.
    """
    encoded = tokenizer(*texts, return_tensors="pt", verbose=False)
    if longest is not None and encoded["input_ids"].shape[1] > longest:
        if warn:
            log.warning("the text has %d tokens and is cut at %d", encoded["input_ids"].shape[1], longest)
        encoded = tokenizer(*texts, truncation=True, max_length=longest, return_tensors="pt")
    if encoded["input_ids"].shape[1] == 0:
        raise ValueError("text has no tokens; give one with words in it")
    return encoded


def inputs_for(model: nn.Module, encoded: Any) -> dict[str, Tensor]:
    """Return what ``encode_texts`` made as the model takes it, on the model's device."""
    return {name: value.to(device_of(model)) for name, value in accepted_inputs(model, encoded).items()}


def trace_texts(
    model: nn.Module,
    tokenizer: Any,
    texts: Sequence[str],
    *,
    max_length: int | None = None,
    reading: Reading | Protocol = "exact",
) -> tuple[Trace, list[int] | None]:
    """Trace a text or a pair; return the trace, and which of the texts each token belongs to (None if unknown).

    Args:
        model: The model that reads the text.
        tokenizer: The model's.
        texts: One or two texts.
        max_length: Largest number of tokens; None: as many as the model can take.
        reading: One that pads does so to ``max_length``.
    """
    longest = max_length or longest_input(model, tokenizer)
    encoded = encode_texts(tokenizer, texts, longest)
    segments = _sequence_numbers(encoded, len(texts))
    inputs = inputs_for(model, encoded)
    with padding_agreed(model, tokenizer) as pad_id:
        if as_reading(reading).pads and longest is not None:
            inputs = padded(inputs, longest, pad_id)
        return trace(model, inputs, reading=reading), segments


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
