"""Which heads did finetuning change?

Sun & Marasovic (2021), section 3.3 and Fig. 3, after Kovaleva et al. (2019): cosine similarity of a head's flattened
attention matrix before and after finetuning, averaged over examples; 1: unchanged. Padding is left out: rows and
columns are those of real tokens.

The naive equivalent, per example and head: ``cosine_similarity(pretrained[:n, :n].flatten(), finetuned[:n,
:n].flatten(), 0)``.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.schema import HEAD, LAYER, Column, Schema, attention_column, count_column
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS

SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        LAYER,
        HEAD,
        Column(
            "value",
            "cosine of attention before and after finetuning, mean over examples; 1: unchanged",
            low=-1,
            high=1,
        ),
        count_column("examples"),
    )
)


def matrix_cosine(
    one: Float[Tensor, "batch head query key"],
    other: Float[Tensor, "batch head query key"],
    queries: Bool[Tensor, "batch query"],
) -> Float[Tensor, "batch head"]:
    """Return the cosine of flattened attention matrices, over the chosen queries; hidden keys must be 0 in both."""
    real = queries[:, None].double()
    dot, first, second = (
        (torch.linalg.vecdot(a, b).double() * real).sum(dim=-1) for a, b in ((one, other), (one, one), (other, other))
    )
    return dot / (first * second).sqrt().clamp_min(torch.finfo(torch.float64).tiny)


class FinetuningShift(SplitAnalysis):
    """Fig. 3. Table: attention, layer, head, value, count."""

    schema = SCHEMA

    needs_reference = True

    def setup(self, context: Context) -> Analysis:
        """Start sums of cosines for each head."""
        super().setup(context)
        self.add_sum("total", len(ATTENTIONS), context.layers, context.heads)
        self.add_sum("count")
        return self

    def update(self, trace: Trace) -> None:
        if trace.reference is None:
            raise ValueError(
                "finetuning_shift needs the trace of the pretrained model beside that of the finetuned one"
            )
        for number, (after, before) in enumerate(zip(trace.layers, trace.reference.layers, strict=True)):
            for variant, attention in enumerate(ATTENTIONS):
                pair = after.part(attention), before.part(attention)
                self.total[variant, number] += matrix_cosine(*pair, trace.mask).sum(dim=0)
        self.count += len(trace.mask)

    def compute(self) -> pd.DataFrame:
        names = {"attention": ATTENTIONS, "layer": range(self.context.layers), "head": range(self.context.heads)}
        return tidy(mean_over(self.total, self.count), names, count=self.count.long())
