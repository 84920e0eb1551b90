"""Which parts of speech does a head look at, and which look through it?

Vig & Belinkov (2019), part-of-speech heatmaps: of all attention of a head over the split, the share that goes to keys
of a tag (``to``) and that comes from queries of a tag (``from``). Tags are the universal parts of speech, then ``cls``,
``sep`` and ``other`` (a token without a word, a special token that is neither). Every sub-token carries its word's tag.
The shares of a head sum to 1 in each direction; that of a tag which the split does not have is 0.

Nouns are many, so much attention goes to them anyway. ``even`` is the share if each query spread its weight evenly over
the keys that count; a head whose share is above it seeks the tag.

Deviations: special tokens are left out too, not only the authors' first token (``special_tokens``, ``first_token``, see
``analyses.common.pairs``; then there are no rows for cls and sep); effective attention counts by the size of its
weights, or the positive ones (``convention``).
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_pair_options
from effective_attention.analyses.common.pairs import (
    counted_blocks,
    counted_tokens,
    counts_first,
    even_weights,
    pair_weights,
)
from effective_attention.analyses.common.schema import (
    CONVENTION,
    FIRST_TOKEN,
    HEAD,
    LAYER,
    SPECIAL_TOKENS,
    Column,
    Schema,
    attention_column,
    count_column,
)
from effective_attention.analyses.common.tables import tidy
from effective_attention.analyses.common.tokens import of_kind
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.data.annotation.tagging import UPOS
from effective_attention.graphs.conventions import Convention

DIRECTIONS = ("to", "from")
TAGS = (*UPOS, "cls", "sep", "other")
_DELIMITERS = ("cls", "sep")
SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        LAYER,
        HEAD,
        Column("direction", "attention to tokens of the tag, or from them", "name", DIRECTIONS, key=True),
        Column("tag", "universal part of speech, or what a token without a word is", "name", TAGS, key=True),
        Column("value", "share of the head's attention", low=0, high=1),
        Column("even", "the same if each query spread its weight evenly", low=0, high=1),
        count_column("tokens with the tag"),
        SPECIAL_TOKENS,
        FIRST_TOKEN,
        CONVENTION,
    )
)


def tag_sums(
    weights: Float[Tensor, "batch head some key"], tags: Bool[Tensor, "batch key tag"], queries: slice = slice(None)
) -> Float[Tensor, "head direction tag"]:
    """Return the weight that goes to the tokens of each tag, and that comes from them, of some queries.

    >>> tags = torch.eye(2, dtype=torch.bool)[None]
    >>> tag_sums(torch.tensor([[[[0.75, 0.25], [0.5, 0.5]]]]).double(), tags)[0].tolist()
    [[1.25, 0.75], [1.0, 1.0]]
    """
    known = tags.to(weights.dtype)
    reached = torch.einsum("bhk,bkt->ht", weights.sum(dim=2), known)
    given = torch.einsum("bhq,bqt->ht", weights.sum(dim=3), known[:, queries])
    return torch.stack([reached, given], dim=1)


def token_tags(trace: Trace) -> Bool[Tensor, "batch key tag"]:
    """Which of ``TAGS`` each token has: exactly one."""
    number = trace.tokens["upos"].long()
    number = torch.where(number < 0, TAGS.index("other"), number)
    for kind in _DELIMITERS:
        number = torch.where(of_kind(trace, kind), TAGS.index(kind), number)
    return torch.nn.functional.one_hot(number, len(TAGS)).bool()


class PosAttention(SplitAnalysis):
    """Table: attention, layer, head, direction, tag, value, even, count, special_tokens, first_token, convention.

    ``value`` and ``even`` are shares, NaN where nothing counts; ``count`` is the number of tokens with the tag.

    Args:
        special_tokens: Whether pairs with [CLS], [SEP] or another special token count.
        convention: How effective attention's negative weights count: by ``absolute`` value, or not at all
            (``positive``).
        first_token: Whether attention to the first token of a text counts; None: unless the model is causal.
    """

    schema = SCHEMA

    needs_tags = True

    def __init__(
        self, *, special_tokens: bool = False, convention: str = "absolute", first_token: bool | None = None
    ) -> None:
        super().__init__()
        check_pair_options("pos_attention", special_tokens, convention, first_token)
        self.first_token = first_token
        self.special_tokens = special_tokens
        self.convention: Convention = convention  # type: ignore[assignment]

    def setup(self, context: Context) -> Analysis:
        """Start sums of weight for each head, direction and tag, for even attention, and counts of tokens."""
        super().setup(context)
        self.counts_first = counts_first(self.first_token, context)
        self.add_sum("total", len(ATTENTIONS), context.layers, context.heads, len(DIRECTIONS), len(TAGS))
        self.add_sum("even", context.layers, len(DIRECTIONS), len(TAGS))
        self.add_sum("count", len(TAGS))
        return self

    def update(self, trace: Trace) -> None:
        tags = token_tags(trace)
        options = {"special_tokens": self.special_tokens, "first_token": self.counts_first}
        for number, layer in enumerate(trace.layers):
            for queries, pairs in counted_blocks(trace, layer, **options):
                for variant, attention in enumerate(ATTENTIONS):
                    weights = pair_weights(layer, attention, pairs, self.convention, queries)
                    self.total[variant, number] += tag_sums(weights, tags, queries)
                self.even[number] += tag_sums(even_weights(pairs)[:, None], tags, queries)[0]
        tokens = counted_tokens(trace, special_tokens=self.special_tokens)
        self.count += (tags & tokens[:, :, None]).sum(dim=(0, 1))

    def compute(self) -> pd.DataFrame:
        names = {
            "attention": ATTENTIONS,
            "layer": range(self.context.layers),
            "head": range(self.context.heads),
            "direction": DIRECTIONS,
            "tag": TAGS,
        }
        table = tidy(_shares(self.total), names, even=_shares(self.even)[:, None], count=self.count.long())
        if not self.special_tokens:
            table = table[~table["tag"].isin(_DELIMITERS)].reset_index(drop=True)
        said = {"special_tokens": self.special_tokens, "first_token": self.counts_first}
        return table.assign(**said, convention=self.convention)


def _shares(total: Tensor) -> Tensor:
    """Of the sum over tags; 0 divided by 0 is NaN: nothing counted."""
    return total / total.sum(dim=-1, keepdim=True)
