"""What a model is given that writes a text: the text's tokens, moved one place on, behind the token it starts with.

A decoder that has been given ``[start] A cat`` answers with ``A cat [end]``. How a family starts is the model's to say
(T5 with its padding token, BART with its end token, mBART with the language), so the model itself makes the tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from effective_attention.data.annotation.alignment import KINDS, NO_WORD, is_punctuation, special_kinds
from effective_attention.data.annotation.tagging import Annotated
from effective_attention.data.encoding import Encoded


def decoder_ids(
    model: PreTrainedModel, tokenizer: Any, texts: Sequence[str], max_length: int | None
) -> list[list[int]]:
    """Return the token ids that ``model`` is given while it writes each text.

    Args:
        model: One that reads one text and writes another.
        tokenizer: The model's.
        texts: What is written.
        max_length: Longer texts are cut there; None: nowhere.

    Raises:
        ValueError: The model does not say how a text starts.
    """
    if not hasattr(model, "prepare_decoder_input_ids_from_labels"):
        raise ValueError(
            f"{type(model).__name__} does not say how the text it writes starts; load the model with its "
            "language-model head (AutoModelForSeq2SeqLM)"
        )
    cut = {} if max_length is None else {"truncation": True, "max_length": max_length}
    rows = tokenizer(text_target=list(texts), verbose=False, **cut)["input_ids"]
    return [model.prepare_decoder_input_ids_from_labels(labels=torch.tensor([row]))[0].tolist() for row in rows]


def encode_targets(
    model: PreTrainedModel, tokenizer: Any, texts: Sequence[str], max_length: int
) -> tuple[Encoded, Annotated]:
    """Return the token ids of texts that are written, and what kind of token each is; words are not looked for."""
    rows = decoder_ids(model, tokenizer, texts, max_length)
    whole = [len(row) for row in decoder_ids(model, tokenizer, texts, None)]
    offsets = np.cumsum([0, *map(len, rows)])
    ids = np.concatenate([np.asarray(row, dtype=np.int32) for row in rows])
    truncated = np.array([len(row) < length for row, length in zip(rows, whole, strict=True)])
    none = np.full(len(ids), NO_WORD)
    kinds = _kinds(ids.tolist(), tokenizer)
    first = np.zeros(len(ids), dtype=np.bool_)
    annotated = Annotated(none, none, none, none, none, first, kinds, offsets, relations=())
    return Encoded(ids, np.zeros(len(ids), dtype=np.int8), offsets, truncated), annotated


def _kinds(ids: Sequence[int], tokenizer: Any) -> Any:
    """Tell the kind of each token, an index into ``KINDS``."""
    special = special_kinds(tokenizer)
    names = tokenizer.convert_ids_to_tokens(list(ids))
    texts = {name: tokenizer.convert_tokens_to_string([name]).strip() for name in set(names)}
    word, punctuation = KINDS.index("word"), KINDS.index("punctuation")
    plain = [punctuation if is_punctuation(texts[name]) else word for name in names]
    return np.array([special.get(token, kind) for token, kind in zip(ids, plain, strict=True)], dtype=np.int8)
