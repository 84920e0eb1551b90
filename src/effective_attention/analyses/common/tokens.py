"""What kind of token is each? The tensors that analyses select queries and keys with.

``Trace.tokens`` holds, for each token, -1 on padding: ``kind`` (index into ``KINDS``), ``upos`` (index into ``UPOS``,
-1 where there is no tagger or no word), ``xpos`` (index into ``PENN``, likewise, and where the tag is of another kind),
``word`` (number of its word in the example), ``first`` (1 on the first sub-token of a word), ``head`` (number of the
word its word depends on, its own for a root, -1: no word, -2: the head has no token) and ``relation`` (index into
``Context.relations``, -1: no word). Where the data marks words (``task=agreement`` does) there is ``role`` too, an
index into ``ROLES``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from effective_attention.attention.trace import Trace
from effective_attention.data.annotation.tagging import KINDS, UPOS
from effective_attention.errors import UserError

_MARKS = (".", ",")


def of_kind(trace: Trace, kind: str) -> Bool[Tensor, "batch key"]:
    """Select the tokens of one kind: word, punctuation, cls, sep (``KINDS``)."""
    return trace.tokens["kind"] == KINDS.index(kind)


def written(trace: Trace) -> Bool[Tensor, "batch key"]:
    """Select what the text itself says: words and punctuation, without delimiters and padding."""
    return (of_kind(trace, "word") | of_kind(trace, "punctuation")) & trace.mask


def with_tag(trace: Trace, tags: Sequence[str]) -> Bool[Tensor, "batch key"]:
    """Select the first sub-tokens of words with one of these parts of speech."""
    wanted = torch.tensor([UPOS.index(tag) for tag in tags], device=trace.mask.device)
    return torch.isin(trace.tokens["upos"], wanted) & (trace.tokens["first"] == 1) & of_kind(trace, "word")


def check_tags(tags: Sequence[str], option: str) -> None:
    unknown = [tag for tag in tags if tag not in UPOS]
    if unknown or not tags:
        raise UserError(f"{option} must be universal parts of speech ({', '.join(UPOS)}), got {list(tags)}")


def period_and_comma_ids(vocabulary: Mapping[str, int]) -> list[int]:
    """Return the ids of tokens that are a period or a comma, whatever signs a tokenizer writes around it.

    Such signs stand for a space in front, or for the inside or the end of a word.

    >>> period_and_comma_ids({".": 5, "##,": 6, "...": 7, "a": 8, ",</w>": 9})
    [5, 6, 9]
    """
    return sorted(
        number
        for token, number in vocabulary.items()
        if token.removesuffix("</w>").removeprefix("##").lstrip("\u0120\u2581") in _MARKS
    )


def token_types(trace: Trace, marks: Int[Tensor, " mark"]) -> Bool[Tensor, "batch key type"]:
    """Tell the type of each token, [CLS], [SEP], period or comma, or other: a real token has exactly one, padding none.

    Args:
        trace: Of the tokens.
        marks: The ids of periods and commas.
    """
    delimiters = [of_kind(trace, name) & trace.mask for name in ("cls", "sep")]
    found = torch.isin(trace.inputs["input_ids"], marks.to(trace.mask.device)) & trace.mask
    found = found & ~(delimiters[0] | delimiters[1])
    return torch.stack([*delimiters, found, trace.mask & ~(delimiters[0] | delimiters[1] | found)], dim=-1)
