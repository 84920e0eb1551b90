"""What does the token that the model answers from attend to: words of which kind, delimiters, punctuation?

Sun & Marasovic (2021), section 3.2 and Fig. 1: the weights of [CLS]'s row in the last layer, per head, averaged over
the split. In a causal model it is the row of the last token, which that one answers from. A word of several sub-tokens
counts by its first one; of several tokens of a type the largest weight counts (their footnote 5).

A maximum favours types with many tokens: of ten nouns one will have a large weight by chance. So two more readings are
given beside the paper's ``largest``: ``mean``, over the tokens of the type, and ``lift``, which is that mean times the
number of tokens, so that 1 is what attention spread evenly would give. Examples without a token of the type are left
out (``count`` says how many have one).

Deviation: the paper does not say whether proper nouns are nouns and auxiliaries verbs; here they are, and an option
changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import layer_numbers
from effective_attention.analyses.common.schema import HEAD, LAYER, Column, Schema, attention_column, count_column
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.analyses.common.tokens import check_tags, of_kind, with_tag
from effective_attention.attention.trace import Layer, Part, Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions.answer import answer_position

STATISTICS = ("largest", "mean", "lift")
_SPECIAL = {"sep": "sep", "cls": "cls", "special": "other special"}  # types and their kinds
WORDS = {"noun": ("NOUN", "PROPN"), "pronoun": ("PRON",), "verb": ("VERB", "AUX")}
"""Types of words, each with its universal parts of speech."""
SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        LAYER,
        Column(
            "statistic",
            "largest or mean weight on a type's tokens; lift: that mean divided by what even attention would give",
            "name",
            STATISTICS,
            key=True,
        ),
        HEAD,
        Column(
            "token_type",
            "punctuation, one of the option words, or sep, cls and other special tokens where the tokenizer sets them",
            "name",
            key=True,
        ),
        Column(
            "value",
            "weight from the token that the model answers from, such as [CLS]; lift: a ratio, 1 is even attention",
        ),
        count_column("examples that have a token of the type"),
    )
)


def weights_by_type(
    weights: Float[Tensor, "batch head key"], types: Bool[Tensor, "batch type key"], lengths: Tensor
) -> Float[Tensor, "statistic batch head type"]:
    """Return largest weight, mean weight and lift on the tokens of each type; 0 where an example has none."""
    count = types.sum(dim=-1)  # (batch, type)
    chosen = types[:, None]  # (batch, 1, type, key)
    largest = weights[:, :, None].masked_fill(~chosen, -torch.inf).amax(dim=-1)  # (batch, head, type)
    mean = torch.einsum("bhk,btk->bht", weights, types.to(weights.dtype)) / count.clamp_min(1)[:, None]
    statistics = torch.stack([largest, mean, mean * lengths[:, None, None]])
    return torch.where(count[:, None] > 0, statistics, 0)


def _rows_at(layer: Layer, attention: Part, places: Tensor) -> Tensor:
    """Return one row of each example, (batch, head, key)."""
    if not layer.is_long:
        return layer.part(attention)[torch.arange(len(places), device=places.device), :, places]
    return torch.cat([layer.rows(attention, slice(p, p + 1))[i : i + 1, :, 0] for i, p in enumerate(places.tolist())])


class TokenTypes(SplitAnalysis):
    """Fig. 1. Table: attention, layer, head, token_type, statistic, value, count.

    Args:
        layer: ``last``, ``all`` or a number.
        words: Token types that need a tagger, each with its universal parts of speech.
    """

    schema = SCHEMA

    needs_tags = True

    def __init__(self, *, layer: str | int = "last", words: Mapping[str, Sequence[str]] = WORDS) -> None:
        super().__init__()
        for name, tags in words.items():
            check_tags(tags, f"analysis.token_types.words.{name}")
        self.layer = layer
        self.words = {name: list(tags) for name, tags in words.items()}
        self.types = (*self.words, *_SPECIAL, "punctuation")

    def setup(self, context: Context) -> Analysis:
        """Start sums for each chosen layer, statistic, head and type."""
        super().setup(context)
        self.layers = layer_numbers(self.layer, context.layers, "analysis.token_types.layer")
        shape = (len(ATTENTIONS), len(self.layers), len(STATISTICS), context.heads, len(self.types))
        self.add_sum("total", *shape)
        self.add_sum("count", len(self.types))
        return self

    def update(self, trace: Trace) -> None:
        types = torch.stack([self._tokens(trace, name) for name in self.types], dim=1)  # (batch, type, key)
        answer = answer_position(trace)
        for number, layer in enumerate(self.layers):
            for variant, attention in enumerate(ATTENTIONS):
                weights = _rows_at(trace.layers[layer], attention, answer).double()  # (batch, head, key)
                self.total[variant, number] += weights_by_type(weights, types, trace.lengths).sum(dim=1)
        self.count += types.any(dim=-1).sum(dim=0)

    def _tokens(self, trace: Trace, name: str) -> Tensor:
        return with_tag(trace, self.words[name]) if name in self.words else of_kind(trace, _SPECIAL.get(name, name))

    def compute(self) -> pd.DataFrame:
        names = {
            "attention": ATTENTIONS,
            "layer": self.layers,
            "statistic": STATISTICS,
            "head": range(self.context.heads),
            "token_type": self.types,
        }
        table = tidy(mean_over(self.total, self.count), names, count=self.count.long())
        return table[(table["count"] > 0) | ~table["token_type"].isin(_SPECIAL)].reset_index(drop=True)
