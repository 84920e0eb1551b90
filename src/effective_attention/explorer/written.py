"""The sides of a model that reads one text and writes another: one for each of its three attentions."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import torch
from transformers import PreTrainedModel

from effective_attention.attention.stacks import Stack
from effective_attention.attention.trace import Trace, trace_stacks
from effective_attention.data.own_text import longest_input
from effective_attention.data.targets import decoder_ids
from effective_attention.explorer.sides import Side, side_of

log = logging.getLogger(__name__)


def written_sides(model: PreTrainedModel, tokenizer: Any, texts: tuple[str, str], /, **facts: Any) -> list[Side]:
    """Run the model once and show what it does with a text that it reads and one that it writes.

    Args:
        model: An encoder-decoder.
        tokenizer: The model's.
        texts: What is read, and what is written; each is cut, with a warning, where the model can take no more.
        facts: ``neurons``, ``maps``, and facts of ``sides.Side``.
    """
    traces = trace_written(model, tokenizer, texts)
    return [
        replace(side_of(seen, tokenizer, texts, segments=[0] * seen.mask.shape[1], **facts), stack=stack)
        for stack, seen in traces.items()
    ]


def trace_written(model: PreTrainedModel, tokenizer: Any, texts: tuple[str, str]) -> dict[Stack, Trace]:
    """Trace all attentions of a model on a text that it reads and one that it writes."""
    longest = longest_input(model, tokenizer)
    text, target = texts
    cut: dict[str, Any] = {} if longest is None else {"truncation": True, "max_length": longest}
    read = tokenizer(text, return_tensors="pt", verbose=False, **cut)
    written = decoder_ids(model, tokenizer, [target], longest)
    whole = len(tokenizer(text, verbose=False)["input_ids"]), len(decoder_ids(model, tokenizer, [target], None)[0])
    kept = read["input_ids"].shape[1], len(written[0])
    for name, all_tokens, left in zip(("text", "target"), whole, kept, strict=True):
        if left < all_tokens:
            log.warning("the %s has %d tokens and is cut at %d", name, all_tokens, left)
    if 0 in kept:
        raise ValueError("text and target must have tokens; give some with words in them")
    inputs = {**read, "decoder_input_ids": torch.tensor(written)}
    return trace_stacks(model, {name: value.to(model.device) for name, value in inputs.items()})
