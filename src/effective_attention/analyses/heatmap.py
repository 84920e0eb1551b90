"""One head, one example: standard, effective and null attention as matrices, with the tokens on both axes.

Sun & Marasovic (2021), Fig. 2 and 7; Brunner et al. (2020), Fig. 6. The example is one of the split, or a text of the
user's. Beside them stand other maps with the same output: effective attention whose rows sum to 1 (``affine``), and two
that lie inside the simplex, as the conclusion of Brunner et al. asks for (``attention.extra_maps``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from effective_attention.analyses.common.alone import head_rows, traced_alone
from effective_attention.analyses.common.base import Analysis, Context, TextAnalysis
from effective_attention.analyses.common.options import check_maps, is_whole_number, layer_numbers
from effective_attention.analyses.common.schema import HEAD, LAYER, Column, Schema, attention_column
from effective_attention.analyses.common.tables import name_tokens, tidy
from effective_attention.attention.extra_maps import EXTRA_MAPS, SIMPLEX
from effective_attention.attention.trace import Trace
from effective_attention.errors import UserError

PARTS = ("standard", "effective", "null")
ALL_PARTS = (*PARTS, *EXTRA_MAPS)
SCHEMA = Schema(
    (
        Column("examples", "always 1: one example of the split, or the user's text", "whole", low=1, high=1),
        attention_column(*ALL_PARTS),
        LAYER,
        HEAD,
        Column("query", "place of the token that attends, counted from 0", "whole", low=0, key=True),
        Column("key", "place of the token attended to, counted from 0", "whole", low=0, key=True),
        Column("value", "weight; standard is the sum of effective and null; all but null have the same output"),
        Column("query_token", "the token that attends", "name"),
        Column("key_token", "the token attended to", "name"),
    )
)


Matrix = NDArray[np.float64]


class Heatmap(TextAnalysis):
    """Table: examples, attention, layer, head, query, key, value, query_token, key_token.

    Args:
        example: Which example of the split, counted from 0; not read where the user wrote a text.
        layer: ``last``, ``all`` or a number.
        head: Which head, counted from 0.
        maps: Which of ``affine``, ``sparse`` and ``smallest`` stand beside standard, effective and null.
    """

    schema = SCHEMA
    stacks = ("decoder", "cross")

    def __init__(
        self, *, example: int = 0, layer: str | int = "last", head: int = 0, maps: Sequence[str] = EXTRA_MAPS
    ) -> None:
        super().__init__(example=example)
        self.layer = layer
        self.head = head
        self.maps = check_maps("analysis.heatmap.maps", maps)

    def setup(self, context: Context) -> Analysis:
        """Check that the model has the head and the layer."""
        super().setup(context)
        if not is_whole_number(self.head, 0) or self.head >= context.heads:
            raise UserError(f"analysis.heatmap.head must be from 0 to {context.heads - 1}, got {self.head!r}")
        self.layers = layer_numbers(self.layer, context.layers, "analysis.heatmap.layer")
        return self

    def look(self, trace: Trace) -> pd.DataFrame:
        """Write the chosen head's matrices of each part as rows."""
        read = (*PARTS, *(name for name in self.maps if name not in SIMPLEX))
        found = {name: [self._read(trace, name, layer) for layer in self.layers] for name in read}
        found |= self._inside_the_simplex(trace)
        weights = torch.from_numpy(np.array(list(found.values())))  # (part, layer, query, key)
        queries, keys = map(range, weights.shape[-2:])
        table = tidy(weights, {"attention": tuple(found), "layer": self.layers, "query": queries, "key": keys})
        name_tokens(table, trace, self.context.tokenizer)
        table.insert(2, "head", self.head)
        table.insert(0, "examples", 1)
        return table

    def _read(self, trace: Trace, name: str, layer: int) -> Matrix:
        matrix: Matrix = trace.layers[layer].part(name)[0, self.head].double().cpu().numpy()
        return matrix

    def _inside_the_simplex(self, trace: Trace) -> dict[str, list[Matrix]]:
        """Find the maps that are programs, of the text by itself."""
        names = [name for name in self.maps if name in SIMPLEX]
        if not names:
            return {}
        alone = traced_alone(trace) if trace.stack is None else trace.example(0)
        layers = [alone.layers[layer] for layer in self.layers]
        rows = [[part[self.head] for part in head_rows(layer, range(layer.shape[2]))] for layer in layers]
        return {name: [SIMPLEX[name](*one) for one in rows] for name in names}
