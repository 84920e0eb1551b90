"""How much attention goes to [CLS] and [SEP] from all other tokens?

Sun & Marasovic (2021), Fig. 5 and 6: layer x head, averaged over query positions and then over examples. Queries are
the real tokens that are not themselves the delimiter; an example's attention to [SEP] is the sum over its [SEP] tokens.

Effective weights have no fixed range, so the paper colours them by the smallest and largest of all weights of the task,
not only those on delimiters: ``scale_min`` and ``scale_max``. Standard weights are probabilities: 0 and 1.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.schema import HEAD, LAYER, Column, Schema, attention_column, count_column
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.analyses.common.tokens import of_kind
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS

DELIMITERS = ("cls", "sep")
SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        LAYER,
        HEAD,
        Column("delimiter", "the token that is attended to", "name", DELIMITERS, key=True),
        Column("value", "weight from all other tokens, mean over these and then over examples"),
        count_column("examples that have the delimiter"),
        Column("scale_min", "smallest of all weights of this attention in the split; standard: 0"),
        Column("scale_max", "largest of all weights of this attention in the split; standard: 1"),
    )
)


def attention_to(
    attention: Float[Tensor, "batch head query key"],
    delimiters: Bool[Tensor, "batch delimiter key"],
    real: Bool[Tensor, "batch query"],
) -> Float[Tensor, "batch head delimiter"]:
    """Sum over each delimiter's tokens, and average over the real queries that are not that delimiter."""
    return _read(attention, *_places(delimiters, real), slice(None))


def _places(delimiters: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Return where the delimiters are, and how much each query's weight on them counts.

    Returns:
        Keys (batch, place) and shares (batch, delimiter, place, query).
    """
    anywhere = delimiters.any(dim=1)
    places = anywhere.int().topk(int(anywhere.sum(dim=-1).max())).indices
    belongs = delimiters.gather(
        -1, places[:, None].expand(-1, delimiters.shape[1], -1)
    ).double()  # (batch, delimiter, place)
    queries = (real[:, None] & ~delimiters).double()  # (batch, delimiter, query)
    share = queries / queries.sum(dim=-1, keepdim=True).clamp_min(1)
    return places, belongs[..., None] * share[:, :, None]


def _read(attention: Tensor, places: Tensor, counts: Tensor, queries: slice) -> Tensor:
    """Read only the delimiters' columns of attention: reading a few keys is much cheaper than a product with all."""
    columns = attention.gather(
        -1, places[:, None, None].expand(*attention.shape[:3], -1)
    )  # (batch, head, query, place)
    return torch.einsum("bhqp,bdpq->bhd", columns.double(), counts[..., queries])


class Delimiters(SplitAnalysis):
    """Fig. 5, 6. Table: attention, layer, head, delimiter, value, count, scale_min, scale_max."""

    schema = SCHEMA

    needs_delimiters = True

    lowest: Tensor
    highest: Tensor

    def setup(self, context: Context) -> Analysis:
        """Start sums for each attention, layer, head and delimiter."""
        super().setup(context)
        self.add_sum("total", len(ATTENTIONS), context.layers, context.heads, len(DELIMITERS))
        self.add_sum("count", len(DELIMITERS))
        self.add_state("lowest", torch.tensor(torch.inf), dist_reduce_fx="min")
        self.add_state("highest", torch.tensor(-torch.inf), dist_reduce_fx="max")
        return self

    def update(self, trace: Trace) -> None:
        found = torch.stack([of_kind(trace, name) for name in DELIMITERS], dim=1)  # (batch, delimiter, key)
        where = _places(found, trace.mask)
        for number, layer in enumerate(trace.layers):
            for queries in layer.blocks():
                for variant, attention in enumerate(ATTENTIONS):
                    self.total[variant, number] += _read(layer.rows(attention, queries), *where, queries).sum(dim=0)
                self._widen_scale(layer.rows("effective", queries), trace.mask, queries)
        self.count += found.any(dim=-1).sum(dim=0)

    def _widen_scale(self, effective: Tensor, tokens: Tensor, queries: slice) -> None:
        """Let the colour scale reach to the weights of real queries and keys; padding must not widen it."""
        if not bool(tokens.all()):
            real = tokens[:, None, queries, None] & tokens[:, None, None, :]
            effective = effective[real.expand_as(effective)]
        if effective.numel() == 0:  # a block of padding
            return
        low, high = torch.aminmax(effective)
        self.lowest = torch.minimum(self.lowest, low)
        self.highest = torch.maximum(self.highest, high)

    def compute(self) -> pd.DataFrame:
        names = {
            "attention": ATTENTIONS,
            "layer": range(self.context.layers),
            "head": range(self.context.heads),
            "delimiter": DELIMITERS,
        }
        table = tidy(mean_over(self.total, self.count), names, count=self.count.long())
        is_effective = table["attention"] == "effective"
        table["scale_min"] = is_effective * float(self.lowest)
        table["scale_max"] = (~is_effective).astype(float) + is_effective * float(self.highest)
        return table
