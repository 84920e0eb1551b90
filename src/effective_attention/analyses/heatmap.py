"""One head, one example: standard, effective and null attention as matrices, with the tokens on both axes.

Sun & Marasovic (2021), Fig. 2 and 7; Brunner et al. (2020), Fig. 6. The example is one of the split, or a text of the
user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pandas as pd
import torch
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, check_example, layer_numbers, name_tokens, tidy
from effective_attention.analyses.common.schema import HEAD, LAYER, Column, Schema, attention_column
from effective_attention.attention.trace import Part, Trace
from effective_attention.errors import UserError

PARTS: tuple[Part, ...] = get_args(Part)
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


class Heatmap(Analysis):
    """Table: examples, attention, layer, head, query, key, value, query_token, key_token.

    Args:
        context: The model and the split; with ``context.text`` that text is shown and the split not read.
        example: Which example of the split, counted from 0.
        layer: ``last``, ``all`` or a number.
        head: Which head, counted from 0.
    """

    def __init__(self, context: Context, *, example: int = 0, layer: str | int = "last", head: int = 0) -> None:
        super().__init__(context)
        if not isinstance(head, int) or not 0 <= head < context.heads:
            raise UserError(f"analysis.heatmap.head must be from 0 to {context.heads - 1}, got {head!r}")
        check_example("analysis.heatmap.example", example, context)
        self.example, self.head = example, head
        self.layers = layer_numbers(layer, context.layers, "analysis.heatmap.layer")
        self.add_sum("weights", len(PARTS), len(self.layers), context.max_length, context.max_length)
        self.add_state("ids", torch.zeros(context.max_length, dtype=torch.long), dist_reduce_fx="sum")
        self.add_state("length", torch.tensor(0), dist_reduce_fx="sum")

    def wants(self, indices: Sequence[int]) -> bool:
        return self.context.text is None and self.example in indices

    def update(self, trace: Trace) -> None:
        for row in (trace.inputs["index"] == self.example).nonzero()[:, 0].tolist():
            weights, ids = self._matrices(trace, row)
            size = len(ids)
            self.weights[:, :, :size, :size], self.ids[:size] = weights, ids
            self.length += size

    def _matrices(self, trace: Trace, row: int) -> tuple[Tensor, Tensor]:
        """Return weights (part, layer, query, key) and token ids of one example of the batch, without padding."""
        places = trace.mask[row].nonzero()[:, 0]
        matrices = [
            [trace.layers[layer].part(part)[row, self.head][places][:, places] for layer in self.layers]
            for part in PARTS
        ]
        return torch.stack([torch.stack(layers) for layers in matrices]).double(), trace.inputs["input_ids"][
            row, places
        ]

    def compute(self) -> pd.DataFrame:
        size = int(self.length)
        weights, ids = self.weights[:, :, :size, :size], self.ids[:size]
        if self.context.text is not None:
            weights, ids = self._matrices(self.context.text, 0)
        names = {"attention": PARTS, "layer": self.layers, "query": range(len(ids)), "key": range(len(ids))}
        table = tidy(weights, names)
        name_tokens(table, ids, self.context.tokenizer)
        table.insert(2, "head", self.head)
        table.insert(0, "examples", 1)
        return table
