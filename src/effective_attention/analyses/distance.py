"""Does a head look near or far?

Vig & Belinkov (2019), attention distance: the mean distance, in tokens, between all pairs of query and key of the
split, weighted by the attention between them: ``sum of w |i - j| / sum of w``, over all examples and pairs. Positions
are those of the whole input, special tokens included in the counting even where their pairs are left out.

``even`` is the same for a head that looks at nothing in particular: each query spreads its weight evenly over the keys
that count. So texts of other lengths can be compared; a head below it looks nearer than chance.

Deviations: the authors' model is causal, in an encoder keys on both sides count, and special tokens are left out in
place of the first token (``special_tokens``, ``first_token``, see ``analyses.common.pairs``); effective attention is
weighted by the size of its weights or by the positive ones (``convention``).
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_pair_options
from effective_attention.analyses.common.pairs import (
    counted_blocks,
    counts_first,
    distances,
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
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.graphs.conventions import Convention

SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        LAYER,
        HEAD,
        Column("value", "mean distance between query and key, weighted by attention, in tokens", low=0),
        Column("even", "the same if each query spread its weight evenly, in tokens", low=0),
        count_column("pairs of a query and a key"),
        SPECIAL_TOKENS,
        FIRST_TOKEN,
        CONVENTION,
    )
)


def distance_sums(weights: Float[Tensor, "batch head some key"], first: int = 0) -> Float[Tensor, "head 2"]:
    """Return the sum of weight times distance, and the sum of weight; of some queries, of which the first is ``first``.

    >>> distance_sums(torch.tensor([[[[0.75, 0.25], [0.5, 0.5]]]]).double())
    tensor([[0.7500, 2.0000]], dtype=torch.float64)
    """
    by_pair = weights.sum(dim=0)  # (head, some, key)
    apart = distances(weights.shape[-1], weights.device)[first : first + weights.shape[-2]].to(weights.dtype)
    return torch.stack([(by_pair * apart).sum(dim=(1, 2)), by_pair.sum(dim=(1, 2))], dim=-1)


class Distance(SplitAnalysis):
    """Table: attention, layer, head, value, even, count, special_tokens, first_token, convention.

    ``value`` and ``even`` in tokens, NaN where nothing counts; ``count`` is the number of pairs.

    Args:
        special_tokens: Whether pairs with [CLS], [SEP] or another special token count.
        convention: How effective attention's negative weights count: by ``absolute`` value, or not at all
            (``positive``).
        first_token: Whether attention to the first token of a text counts; None: unless the model is causal.
    """

    schema = SCHEMA
    stacks = ("decoder",)

    def __init__(
        self, *, special_tokens: bool = False, convention: str = "absolute", first_token: bool | None = None
    ) -> None:
        super().__init__()
        check_pair_options("distance", special_tokens, convention, first_token)
        self.first_token = first_token
        self.special_tokens = special_tokens
        self.convention: Convention = convention  # type: ignore[assignment]

    def setup(self, context: Context) -> Analysis:
        """Start sums of weight times distance and of weight, for each head, and for even attention."""
        super().setup(context)
        self.counts_first = counts_first(self.first_token, context)
        self.add_sum("sums", len(ATTENTIONS), context.layers, context.heads, 2)
        self.add_sum("even", context.layers, 2)
        self.add_sum("count", context.layers)
        return self

    def update(self, trace: Trace) -> None:
        options = {"special_tokens": self.special_tokens, "first_token": self.counts_first}
        for number, layer in enumerate(trace.layers):
            for queries, pairs in counted_blocks(trace, layer, **options):
                for variant, attention in enumerate(ATTENTIONS):
                    weights = pair_weights(layer, attention, pairs, self.convention, queries)
                    self.sums[variant, number] += distance_sums(weights, queries.start)
                self.even[number] += distance_sums(even_weights(pairs)[:, None], queries.start)[0]
                self.count[number] += pairs.sum()

    def compute(self) -> pd.DataFrame:
        names = {"attention": ATTENTIONS, "layer": range(self.context.layers), "head": range(self.context.heads)}
        even = self.even[:, None]  # (layer, head, 2)
        table = tidy(_mean(self.sums), names, even=_mean(even), count=self.count[:, None].long())
        said = {"special_tokens": self.special_tokens, "first_token": self.counts_first}
        return table.assign(**said, convention=self.convention)


def _mean(sums: Tensor) -> Tensor:
    """0 divided by 0 is NaN: nothing counted."""
    return sums[..., 0] / sums[..., 1]
