"""Which token fills up short texts, where a tokenizer has none for it? And does the answer change with padding?

Decoders' tokenizers often have no token for it. What stands there does not matter to attention, which does not see
padding. It matters to the classification heads that transformers gives to decoders: they answer from the rightmost
token that is not the padding token (``pad_token_id`` of the config), and look at ids, not at the mask. So model and
batches must agree on the token, and a text should not end in it.

Other heads read the last place of their input, whatever stands there: XLNet's does, whose [CLS] is last. Filled up on
the right such a model answers from padding. Whether a model is one of them is tried out; its texts run in batches of
one length, so that there is no padding at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from effective_attention.attention.hook import evaluation_mode
from effective_attention.attention.model_facts import accepted_inputs, device_of, text_config_of
from effective_attention.attention.trace import answer_of

_SOME_TEXT = "some words"
_SOME_TOKENS = 4  # with one of padding as many as the shortest ``data.max_length``


def padding_id(tokenizer: Any, known: int | None = None) -> int:
    """Return the id to pad with: the model's own, the tokenizer's own, or one that is chosen.

    Chosen is the first special token that the tokenizer does not set behind a text: the end of a text, its start, any
    other; never the unknown token, which stands for words. Without any it is the last entry of the vocabulary, which
    tokenizers that learn from frequent to rare hardly ever use.

    Args:
        tokenizer: The model's.
        known: ``pad_token_id`` of the model's config; one outside of the vocabulary does not count.
    """
    for own in (known, tokenizer.pad_token_id):
        if own is not None and 0 <= own < len(tokenizer):
            return int(own)
    others = [number for number in tokenizer.all_special_ids if number != tokenizer.unk_token_id]
    behind = tokenizer(_SOME_TEXT, verbose=False)["input_ids"][-1]
    for number in (tokenizer.eos_token_id, tokenizer.bos_token_id, *others):
        if number is not None and number != behind:
            return int(number)
    return len(tokenizer) - 1


def agree_on_padding(model: Any, tokenizer: Any) -> int:
    """Return the id to pad with, and tell the model's config, which a checkpoint keeps."""
    config = text_config_of(model)
    found = padding_id(tokenizer, getattr(config, "pad_token_id", None))
    if config is not None:
        config.pad_token_id = found
    return found


@contextmanager
def padding_agreed(model: Any, tokenizer: Any) -> Iterator[int]:
    """Let the model know what texts are padded with inside the block; its config is as it was after it."""
    config = text_config_of(model)
    before = getattr(config, "pad_token_id", None)
    try:
        yield agree_on_padding(model, tokenizer)
    finally:
        if config is not None:
            config.pad_token_id = before


@torch.no_grad()
def padding_changes_answer(model: Any, tokenizer: Any, pad_id: int) -> bool:
    """Try out whether a model answers a text otherwise when it is filled up on the right: two tiny passes.

    Args:
        model: Answers with logits, or with a vector for each token; it is left as it was.
        tokenizer: The model's.
        pad_id: What texts are filled up with, of which the model's config knows.
    """
    options = {"truncation": True, "max_length": _SOME_TOKENS, "return_attention_mask": True, "return_tensors": "pt"}
    encoded = accepted_inputs(model, tokenizer(_SOME_TEXT, **options))
    inputs = {name: value.to(device_of(model)) for name, value in encoded.items()}
    length = inputs["input_ids"].shape[1]
    with evaluation_mode(model):
        alone = answer_of(model(**inputs)).float()
        filled = answer_of(model(**padded(inputs, length + 1, pad_id))).float()
    if alone.ndim > 2:  # one for each token
        filled = filled[:, :length]
    tolerance = torch.finfo(next(model.parameters()).dtype).eps ** 0.5
    return bool((alone - filled).abs().max() > tolerance * alone.abs().max())


def padded(inputs: dict[str, Tensor], length: int, number: int) -> dict[str, Tensor]:
    """Fill a batch up on the right, whatever side its tokenizer prefers: ids with ``number``, the rest with 0."""
    more = length - inputs["input_ids"].shape[1]
    return {name: pad(value, (0, more), value=number if name == "input_ids" else 0) for name, value in inputs.items()}
