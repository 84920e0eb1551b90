"""What kind of token is each? The tensors that analyses select queries and keys with.

``Trace.tokens`` holds, for each token, -1 on padding: ``kind`` (index into ``KINDS``), ``upos`` (index into ``UPOS``,
-1 where there is no tagger or no word), ``word`` (number of its word in the example), ``first`` (1 on the first
sub-token of a word), ``head`` (number of the word its word depends on, its own for a root, -1: no word, -2: the head
has no token) and ``relation`` (index into ``Context.relations``, -1: no word). Where the data marks words
(``task=agreement`` does) there is ``role`` too, an index into ``ROLES``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from effective_attention.attention.trace import Trace
from effective_attention.data.annotation.tagging import KINDS, UPOS
from effective_attention.errors import UserError


def of_kind(trace: Trace, kind: str) -> Bool[Tensor, "batch key"]:
    """Select the tokens of one kind: word, punctuation, cls, sep (``KINDS``)."""
    return trace.tokens["kind"] == KINDS.index(kind)


def with_tag(trace: Trace, tags: Sequence[str]) -> Bool[Tensor, "batch key"]:
    """Select the first sub-tokens of words with one of these parts of speech."""
    wanted = torch.tensor([UPOS.index(tag) for tag in tags], device=trace.mask.device)
    return torch.isin(trace.tokens["upos"], wanted) & (trace.tokens["first"] == 1) & of_kind(trace, "word")


def check_tags(tags: Sequence[str], option: str) -> None:
    unknown = [tag for tag in tags if tag not in UPOS]
    if unknown or not tags:
        raise UserError(f"{option} must be universal parts of speech ({', '.join(UPOS)}), got {list(tags)}")
