"""From which token does the model answer? Its row of attention is what an answer is explained with.

An encoder answers from its first token, [CLS]; XLNet sets [CLS] last. A causal model has read the whole text only at
its last token, and answers from there.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from effective_attention.attention.model_facts import text_config_of
from effective_attention.attention.trace import Trace
from effective_attention.data.annotation.tagging import KINDS
from effective_attention.models.next_verb import NextVerb

_CLS = KINDS.index("cls")


def answer_position(trace: Trace) -> Int[Tensor, " batch"]:
    """Find the token that each example's answer is read from.

    In a causal model the last real token; as its classification heads do, tokens that are the padding token are passed
    over, even inside a text. Elsewhere [CLS], where the tokens' kinds are known and it is one of them, or the first
    token.
    """
    if trace.causal:
        return _last(trace)
    first = trace.mask.int().argmax(dim=-1)
    if "kind" not in trace.tokens:
        return first
    is_cls = (trace.tokens["kind"] == _CLS) & trace.mask
    return torch.where(is_cls.any(dim=-1), is_cls.int().argmax(dim=-1), first)


def _last(trace: Trace) -> Tensor:
    read = trace.mask
    if isinstance(trace.model, NextVerb):  # which asks the mask, not the ids
        return _rightmost(read)
    padding = getattr(text_config_of(trace.model), "pad_token_id", None)
    if trace.logits is not None and trace.logits.ndim == 2 and padding is not None:
        read = read & (trace.inputs["input_ids"] != padding)
    return _rightmost(read)


def _rightmost(read: Bool[Tensor, "batch key"]) -> Int[Tensor, " batch"]:
    places = torch.arange(read.shape[1], device=read.device)
    return torch.where(read, places, 0).argmax(dim=-1)
