"""How much attention goes to [CLS], to [SEP], to periods and commas and to all other tokens, and from which of these?

Brunner et al. (2020), Fig. 1b-c and 5, after Clark et al. (2019), Fig. 2, per layer and head, standard beside
effective. Of each query the weights on tokens of a type are summed; the sums are averaged over the example's queries
(all, or those of one type), then over the examples that have such queries. ``even`` is what even attention would give:
the mean share of visible tokens that are of the type.

A period or comma is a token that is exactly that, whatever its tokenizer writes around it; other punctuation is
``other``, as in the papers. Special tokens that are neither [CLS] nor [SEP] are ``other`` too. Standard weights of a
row sum to 1 over the types, effective ones need not.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.schema import HEAD, LAYER, Column, Schema, attention_column, count_column
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.analyses.common.tokens import period_and_comma_ids, token_types
from effective_attention.attention.trace import Layer, Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.errors import UserError

TARGETS = ("cls", "sep", "punctuation", "other")
SOURCES = ("all", *TARGETS)
SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        LAYER,
        HEAD,
        Column("source", "type of the tokens that attend; all: every token", "name", SOURCES, key=True),
        Column("target", "type of the tokens attended to", "name", TARGETS, key=True),
        Column("value", "weight on tokens of the target type, mean over the source's queries, then over examples"),
        Column("even", "what even attention over the visible tokens would give", low=0, high=1),
        count_column("examples that have tokens of the source type"),
    )
)


def type_profile(
    attention: Float[Tensor, "batch head query key"],
    types: Bool[Tensor, "batch key type"],
    sources: Bool[Tensor, "batch source all_queries"],
    queries: slice = slice(None),
) -> Float[Tensor, "batch head source type"]:
    """Return the weight on each type of token, averaged over each source's queries; 0 where an example has none.

    Of a block of ``queries``, what they add to that.
    """
    on_types = (attention @ types[:, None].to(attention.dtype)).double()  # (batch, head, query, type)
    share = sources.double() / sources.sum(dim=-1, keepdim=True).clamp_min(1)
    return share[:, None, :, queries] @ on_types


class TokenTypeProfile(SplitAnalysis):
    """Average attention from each type of token to each type; the table is described by ``SCHEMA``."""

    schema = SCHEMA

    def setup(self, context: Context) -> Analysis:
        """Find periods and commas in the vocabulary, and start sums for each head, source and target."""
        super().setup(context)
        if context.tokenizer is None:
            raise UserError("analysis token_type_profile needs a tokenizer, to find periods and commas")
        self.marks = torch.tensor(period_and_comma_ids(context.tokenizer.get_vocab()), dtype=torch.long)
        self.add_sum("total", len(ATTENTIONS), context.layers, context.heads, len(SOURCES), len(TARGETS))
        self.add_sum("even", context.layers, len(SOURCES), len(TARGETS))
        self.add_sum("count", len(SOURCES))
        return self

    def update(self, trace: Trace) -> None:
        types = token_types(trace, self.marks)  # (batch, key, type)
        sources = torch.cat([trace.mask[:, None], types.mT], dim=1)  # (batch, source, query)
        for number, layer in enumerate(trace.layers):
            for queries in layer.blocks():
                for variant, attention in enumerate(ATTENTIONS):
                    found = type_profile(layer.rows(attention, queries), types, sources, queries)
                    self.total[variant, number] += found.sum(dim=0)
                even = type_profile(_even(layer, trace.mask, queries), types, sources, queries)
                self.even[number] += even.sum(dim=(0, 1))
        self.count += sources.any(dim=-1).sum(dim=0)

    def compute(self) -> pd.DataFrame:
        names = {
            "attention": ATTENTIONS,
            "layer": range(self.context.layers),
            "head": range(self.context.heads),
            "source": SOURCES,
            "target": TARGETS,
        }
        count = self.count[:, None]  # (source, target)
        even = mean_over(self.even, count)[None, :, None]  # (attention, layer, head, source, target)
        table = tidy(mean_over(self.total, count), names, even=even, count=count.long())
        present = [name for name, some in zip(SOURCES, (self.count > 0).tolist(), strict=True) if some]
        return table[table["source"].isin(present) & table["target"].isin(present)].reset_index(drop=True)


def _even(layer: Layer, mask: Tensor, queries: slice) -> Float[Tensor, "batch 1 some key"]:
    """Return attention with the same weight on every visible token.

    No model that we know hides different keys from its heads, so what the first head sees is read.
    """
    visible = mask[:, None, None] if layer.visible is None else layer.visible[:, :1] & mask[:, None, None]
    visible = visible.expand(len(mask), 1, mask.shape[1], -1)[:, :, queries].to(layer.value.dtype)
    return visible / visible.sum(dim=-1, keepdim=True).clamp_min(1)
