"""Is a head's attention spread over many tokens or fixed on a few?

Vig & Belinkov (2019), entropy: of each query's distribution over keys, ``- sum of a log a``, in nats, averaged over all
queries of the split. 0: all weight on one key. The highest possible, the logarithm of the number of keys, depends on
the length of the text; ``relative`` is the entropy divided by it, row by row: from 0 to 1, whatever the length.

**Effective attention is no distribution**: it has negative weights and its rows do not sum to 1. ``convention`` makes
it one (weights by ``absolute`` size, or the ``positive`` ones only), then rows are divided by their sum. A row without
any weight is not counted.

Deviation: here special tokens count, unless ``special_tokens`` says otherwise, though the first token of a causal model
does not (``first_token``). The distribution over everything a query sees is the point: without [SEP], a head that rests
there would be judged by how the last few hundredths of its weight happen to lie. With ``special_tokens=False`` queries
and keys that are special are left out and rows divided by what is left.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_pair_options
from effective_attention.analyses.common.pairs import counted_blocks, counts_first, pair_weights
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
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.graphs.conventions import Convention

STATISTICS = ("entropy", "relative")
SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        LAYER,
        HEAD,
        Column("statistic", "entropy in nats, or relative to the largest possible", "name", STATISTICS, key=True),
        Column("value", "mean over queries: nats for entropy, a share from 0 to 1 for relative", low=0),
        count_column("queries"),
        SPECIAL_TOKENS,
        FIRST_TOKEN,
        CONVENTION,
    )
)


def row_entropy(weights: Float[Tensor, "*any query key"]) -> Float[Tensor, "*any query"]:
    """In nats, of each row divided by its sum; NaN for a row without weight. Weights are not negative.

    With S the sum of a row's weights w it is ``log S - (sum of w log w) / S``: no second matrix of shares is needed.

    >>> row_entropy(torch.tensor([[1.0, 1.0], [0.0, 5.0], [0.0, 0.0]]))
    tensor([0.6931, 0.0000,    nan])
    """
    total = weights.sum(dim=-1)
    logarithms = weights.clamp_min(
        torch.finfo(weights.dtype).tiny
    ).log_()  # twice as fast as xlogy; 0 log 0 is 0 either way
    return (total.log() - logarithms.mul_(weights).sum(dim=-1) / total).clamp_min(0)


def entropy_sums(
    weights: Float[Tensor, "batch head query key"], keys: Int[Tensor, "batch query"]
) -> tuple[Float[Tensor, "head statistic"], Int[Tensor, "head statistic"]]:
    """Return the sum over rows of each of ``STATISTICS``, and how many rows are in it.

    Args:
        weights: Not negative; 0 on pairs that do not count.
        keys: How many keys of each row count; a row with one has no relative entropy.
    """
    entropy = row_entropy(weights)
    relative = entropy / keys[:, None].double().clamp_min(1).log()  # 0 divided by log 1 is NaN
    both = torch.stack([entropy, relative], dim=-1)  # (batch, head, query, statistic)
    there = both.isfinite()
    return both.where(there, 0).sum(dim=(0, 2)), there.sum(dim=(0, 2))


class Entropy(SplitAnalysis):
    """Table: attention, layer, head, statistic, value, count, special_tokens, first_token, convention.

    ``statistic`` is entropy, in nats, or relative; ``value`` is the mean over ``count`` rows.

    Args:
        special_tokens: Whether [CLS], [SEP] and other special tokens count, as queries and as keys.
        convention: How effective attention's negative weights count: by ``absolute`` value, or not at all
            (``positive``).
        first_token: Whether attention to the first token of a text counts; None: unless the model is causal.
    """

    schema = SCHEMA
    stacks = ("decoder", "cross")

    def __init__(
        self, *, special_tokens: bool = True, convention: str = "absolute", first_token: bool | None = None
    ) -> None:
        super().__init__()
        check_pair_options("entropy", special_tokens, convention, first_token)
        self.first_token = first_token
        self.special_tokens = special_tokens
        self.convention: Convention = convention  # type: ignore[assignment]

    def setup(self, context: Context) -> Analysis:
        """Start sums of each statistic, and counts of the rows that are in them."""
        super().setup(context)
        self.counts_first = counts_first(self.first_token, context)
        shape = (len(ATTENTIONS), context.layers, context.heads, len(STATISTICS))
        self.add_sum("total", *shape)
        self.add_sum("count", *shape)
        return self

    def update(self, trace: Trace) -> None:
        options = {"special_tokens": self.special_tokens, "first_token": self.counts_first}
        for number, layer in enumerate(trace.layers):
            for queries, pairs in counted_blocks(trace, layer, **options):
                for variant, attention in enumerate(ATTENTIONS):
                    weights = pair_weights(layer, attention, pairs, self.convention, queries)
                    total, count = entropy_sums(weights, pairs.sum(dim=-1))
                    self.total[variant, number] += total
                    self.count[variant, number] += count

    def compute(self) -> pd.DataFrame:
        names = {
            "attention": ATTENTIONS,
            "layer": range(self.context.layers),
            "head": range(self.context.heads),
            "statistic": STATISTICS,
        }
        table = tidy(mean_over(self.total, self.count), names, count=self.count.long())
        said = {"special_tokens": self.special_tokens, "first_token": self.counts_first}
        return table.assign(**said, convention=self.convention)
