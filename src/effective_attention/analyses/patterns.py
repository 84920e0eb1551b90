"""Which patterns does attention show: columns, diagonals, blocks, or none?

Sun & Marasovic (2021), Table 2 and Fig. 4, after Kovaleva et al. (2019): a ConvNet sorts random attention maps of a
task into five classes; the shares under standard and effective attention are compared. Deviations: the same maps are
drawn for both attentions, so that their difference is not one of sampling; the number drawn varies a little around
``maps`` (``count`` says what it was), because each map is drawn by itself, whatever the batches and processes; padding
is removed before the split and before the picture; beside the shares that the net finds stand those it would find if
it made no mistakes (``models.pattern_shares``). The net and what it was trained on: ``models.pattern_net``.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import is_whole_number
from effective_attention.analyses.common.samples import random_share
from effective_attention.analyses.common.schema import (
    HEAD,
    LAYER,
    Block,
    Column,
    Schema,
    attention_column,
    count_column,
)
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.errors import UserError
from effective_attention.models.pattern_net import PATTERNS, classify, load_pattern_net
from effective_attention.models.pattern_shares import corrected_shares, error_rates

SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        replace(LAYER, meaning="counted from 0; missing: all layers together", missing=True),
        replace(HEAD, meaning="always missing: maps of all heads are counted together", missing=True),
        Column("pattern", "what the map looks like", "name", PATTERNS, key=True),
        Column("value", "share of the maps that the net takes for the pattern", low=0, high=1),
        Column("corrected", "the share, corrected for the net's errors on held-out maps", low=0, high=1),
        count_column("maps"),
    ),
    blocks=(Block(keys=("attention", "pattern")), Block(keys=("attention", "layer", "pattern"))),
)


def draw_maps(index: Int[Tensor, " batch"], context: Context, maps: int) -> Bool[Tensor, "batch layer head"]:
    """Tell which heads of which examples belong to a random sample of about ``maps`` of the whole split."""
    total = context.examples * context.layers * context.heads
    layers, heads = (torch.arange(count, device=index.device) for count in (context.layers, context.heads))
    number = (index[:, None, None] * context.layers + layers[:, None]) * context.heads + heads
    return random_share(number, maps / max(1, total), context.seed)


class Patterns(SplitAnalysis):
    """Table 2, Fig. 4. Table: attention, layer (<NA>: all layers together), head (<NA>), pattern, and shares.

    ``value`` is the pattern's share of the ``count`` maps that were looked at, ``corrected`` the same after taking back
    the net's errors; each sums to 1 over the patterns.

    Args:
        maps: About how many random maps to sort, of each attention.
    """

    schema = SCHEMA
    stacks = ("decoder",)

    def __init__(self, *, maps: int = 1000) -> None:
        super().__init__()
        if not is_whole_number(maps):
            raise UserError(f"analysis.patterns.maps must be a whole number, at least 1, got {maps!r}")
        self.maps = maps
        self.net = load_pattern_net()

    def setup(self, context: Context) -> Analysis:
        """Start counts of patterns for each attention and layer."""
        super().setup(context)
        self.add_sum("found", len(ATTENTIONS), context.layers, len(PATTERNS))
        return self

    def update(self, trace: Trace) -> None:
        chosen = draw_maps(trace.inputs["index"], self.context, self.maps)
        chosen &= (trace.lengths >= 2)[:, None, None]  # a single token makes no pattern
        for number, layer in enumerate(trace.layers):
            example, head = chosen[:, number].nonzero(as_tuple=True)
            if len(example) == 0:
                continue
            for place, attention in enumerate(ATTENTIONS):
                maps = layer.part(attention)[example, head]
                label = classify(self.net, maps, trace.lengths[example])
                self.found[place, number] += torch.bincount(label, minlength=len(PATTERNS))

    def compute(self) -> pd.DataFrame:
        found = torch.cat([self.found.sum(dim=1, keepdim=True), self.found], dim=1)
        count = found.sum(dim=-1, keepdim=True)
        names = {"attention": ATTENTIONS, "layer": [pd.NA, *range(self.context.layers)], "pattern": PATTERNS}
        shares = mean_over(found, count)
        corrected = shares if self.values_only else corrected_shares(shares.cpu(), error_rates())
        table = tidy(shares, names, corrected=corrected, count=count.long())
        table["layer"] = table["layer"].astype("Int64")
        table.insert(2, "head", pd.array([pd.NA] * len(table), dtype="Int64"))
        return table
