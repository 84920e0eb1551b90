"""One head, one example: standard, effective and null attention as matrices, with the tokens on both axes.

Sun & Marasovic (2021), Fig. 2 and 7; Brunner et al. (2020), Fig. 6. The example is one of the split, or a text of the
user's.
"""

from __future__ import annotations

import pandas as pd
import torch

from effective_attention.analyses.common.base import Analysis, Context, TextAnalysis
from effective_attention.analyses.common.options import is_whole_number, layer_numbers
from effective_attention.analyses.common.schema import HEAD, LAYER, Column, Schema, attention_column
from effective_attention.analyses.common.tables import name_tokens, tidy
from effective_attention.attention.trace import Trace
from effective_attention.errors import UserError

PARTS = ("standard", "effective", "null")
SCHEMA = Schema(
    (
        Column("examples", "always 1: one example of the split, or the user's text", "whole", low=1, high=1),
        attention_column(*PARTS),
        LAYER,
        HEAD,
        Column("query", "place of the token that attends, counted from 0", "whole", low=0, key=True),
        Column("key", "place of the token attended to, counted from 0", "whole", low=0, key=True),
        Column("value", "weight; standard is the sum of effective and null"),
        Column("query_token", "the token that attends", "name"),
        Column("key_token", "the token attended to", "name"),
    )
)


class Heatmap(TextAnalysis):
    """Table: examples, attention, layer, head, query, key, value, query_token, key_token.

    Args:
        example: Which example of the split, counted from 0; not read where the user wrote a text.
        layer: ``last``, ``all`` or a number.
        head: Which head, counted from 0.
    """

    schema = SCHEMA
    stacks = ("decoder", "cross")

    def __init__(self, *, example: int = 0, layer: str | int = "last", head: int = 0) -> None:
        super().__init__(example=example)
        self.layer = layer
        self.head = head

    def setup(self, context: Context) -> Analysis:
        """Check that the model has the head and the layer."""
        super().setup(context)
        if not is_whole_number(self.head, 0) or self.head >= context.heads:
            raise UserError(f"analysis.heatmap.head must be from 0 to {context.heads - 1}, got {self.head!r}")
        self.layers = layer_numbers(self.layer, context.layers, "analysis.heatmap.layer")
        return self

    def look(self, trace: Trace) -> pd.DataFrame:
        """Write the chosen head's matrices of each part as rows."""
        matrices = [[trace.layers[layer].part(part)[0, self.head] for layer in self.layers] for part in PARTS]
        weights = torch.stack([torch.stack(layers) for layers in matrices]).double()  # (part, layer, query, key)
        queries, keys = map(range, weights.shape[-2:])
        table = tidy(weights, {"attention": PARTS, "layer": self.layers, "query": queries, "key": keys})
        name_tokens(table, trace, self.context.tokenizer)
        table.insert(2, "head", self.head)
        table.insert(0, "examples", 1)
        return table
