"""What does the task's score lose when a head only averages?

Kovaleva et al. (2019), section 4.6: a head's attention is replaced by uniform attention over the tokens it may see, one
head at a time, then a whole layer at a time, and the task's metric is measured again. A negative ``change`` means the
head was of use.

Every variant is a forward pass of its own, layers x (heads + 1) of them, so by default a random subset of the examples
is used; ``examples`` and ``count`` in the table are the size of the subset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_limit
from effective_attention.analyses.common.samples import in_sample, sample
from effective_attention.analyses.common.schema import (
    HEAD,
    LAYER,
    Block,
    Column,
    Schema,
    attention_column,
    count_column,
)
from effective_attention.attention.call import AttentionCall
from effective_attention.attention.replacement import logits_with
from effective_attention.attention.trace import Trace
from effective_attention.errors import UserError

_ROWS = 32
SCHEMA = Schema(
    (
        Column("examples", "how many random examples of the split were used", "whole", low=0),
        attention_column("standard"),
        LAYER,
        replace(HEAD, meaning="counted from 0; missing: all heads of the layer at once", missing=True),
        Column("metric", "the task's score, such as accuracy", "name", key=True),
        Column("value", "the score with this head, or layer, averaging over all tokens"),
        Column("change", "value minus the score of the untouched model; below 0: the head was of use"),
        count_column("examples"),
    ),
    blocks=(Block(keys=("attention", "layer", "head", "metric")), Block(keys=("attention", "layer", "metric"))),
)


def ablated_logits(model: nn.Module, inputs: Mapping[str, Tensor], layer: int, heads: Tensor) -> Tensor:
    """Return logits (batch, classes) with the chosen heads (batch, head) of one layer averaging over what they see."""

    def average(call: AttentionCall, weights: Tensor) -> Tensor:
        if call.number != layer:
            return weights
        visible = call.visible()
        seen = torch.ones_like(weights) if visible is None else visible.expand_as(weights).to(weights.dtype)
        return torch.where(heads[:, :, None, None], seen / seen.sum(dim=-1, keepdim=True), weights)

    return logits_with(model, inputs, average)


class HeadAblation(SplitAnalysis):
    """Table: examples, layer, head (missing: the whole layer), metric, value, change, count.

    Args:
        limit: How many random examples to use; None: all.
    """

    schema = SCHEMA
    resampled = False  # an example would be run again for each head, alone

    needs_labels = True

    def __init__(self, *, limit: int | None = 64) -> None:
        super().__init__()
        check_limit("analysis.head_ablation.limit", limit)
        self.limit = limit

    def setup(self, context: Context) -> Analysis:
        """Draw the sample, and make the task's metrics for every variant."""
        super().setup(context)
        if context.task is None:
            raise UserError("analysis head_ablation needs a task, whose metric it measures")
        self.task = context.task
        self.used = sample(context, self.limit)
        variants = context.layers * (context.heads + 1)
        self.scores: Any = nn.ModuleList(self.task.build_metrics() for _ in range(variants))
        self.untouched = self.task.build_metrics()
        self.add_sum("count")
        return self

    def wants(self, indices: Sequence[int]) -> bool:
        return bool(self.used[list(indices)].any())

    def update(self, trace: Trace) -> None:
        chosen = in_sample(self.used, trace)
        if not bool(chosen.any()):
            return
        self.count += chosen.sum()
        labels = trace.inputs["labels"][chosen]
        self.untouched.update(self._predictions(trace.logits[chosen]), labels)
        for layer in range(self.context.layers):
            for variant, logits in enumerate(self._variants(trace, chosen, layer)):
                self.scores[layer * (self.context.heads + 1) + variant].update(self._predictions(logits), labels)

    def _variants(self, trace: Trace, chosen: Tensor, layer: int) -> Tensor:
        """Return logits (head + 1, example, class) with each head, then with all heads, of a layer ablated."""
        count = int(chosen.sum())
        heads = self.context.heads
        patterns = torch.cat([torch.eye(heads, dtype=torch.bool), torch.ones(1, heads, dtype=torch.bool)]).to(
            chosen.device
        )
        inputs = {
            name: value[chosen].repeat(len(patterns), *[1] * (value.ndim - 1)) for name, value in trace.inputs.items()
        }
        rows = patterns.repeat_interleave(count, dim=0)  # (variant * example, head)
        logits = [
            ablated_logits(
                trace.model, {name: value[start:stop] for name, value in inputs.items()}, layer, rows[start:stop]
            )
            for start, stop in ((start, start + _ROWS) for start in range(0, len(rows), _ROWS))
        ]
        return torch.cat(logits).view(len(patterns), count, -1)

    def _predictions(self, logits: Tensor) -> Tensor:
        return logits[:, 0].float() if self.task.is_regression else logits.argmax(dim=-1)

    def reset(self) -> None:
        super().reset()
        for metrics in (*self.scores, self.untouched):
            metrics.reset()

    def compute(self) -> pd.DataFrame:
        before = {name: float(value) for name, value in self.untouched.compute().items()}
        rows = []
        for number, metrics in enumerate(self.scores):
            layer, head = divmod(number, self.context.heads + 1)
            place = {"attention": "standard", "layer": layer, "head": head if head < self.context.heads else pd.NA}
            for name, value in metrics.compute().items():
                rows.append({**place, "metric": name, "value": float(value), "change": float(value) - before[name]})
        table = pd.DataFrame(rows)
        table["head"] = table["head"].astype("Int64")
        table.insert(0, "examples", int(self.count))
        table["count"] = int(self.count)
        return table
