"""Does a head go by position or by content: how much do its weights differ from input to input?

Vig & Belinkov (2019), variability: ``sum of |a_ij(x) - mean_ij| / (2 sum of a_ij(x))`` over examples x and positions i,
j among the first ``positions`` tokens (theirs: 10, so that enough examples have every position), where ``mean_ij`` is
the mean over the examples that have both. 0: the same weights whatever the input, so the head goes by position alone;
towards 1: by content alone.

A mean absolute deviation cannot be added up batch by batch. So the corner of the matrices is kept for a random sample
of ``examples``, in single precision, and compared at the end.

Deviations. Their model is causal, so that the row of an early query ends at an early key; an encoder's query sees later
keys too, of which only the first ``positions`` count. **Effective attention** is compared as it is, with its signs, and
divided by the sum of its weights' sizes; the value is from 0 to 1 all the same, and no convention is needed. Pairs with
a special token are left out (``special_tokens``, see ``analyses.pairs``). So is a pair of positions that only one
example has, which cannot differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_limit, check_pair_options, is_whole_number
from effective_attention.analyses.common.pairs import counted_tokens, counts_first
from effective_attention.analyses.common.samples import in_sample, sample
from effective_attention.analyses.common.schema import (
    FIRST_TOKEN,
    HEAD,
    LAYER,
    SPECIAL_TOKENS,
    Column,
    Schema,
    attention_column,
)
from effective_attention.analyses.common.tables import tidy
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.errors import UserError

_LARGEST = 2 * 1024**3  # bytes of state
SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        LAYER,
        HEAD,
        Column("value", "how much the weights differ from text to text; 0: not at all", low=0, high=1),
        Column("examples", "how many examples of the sample were compared", "whole", low=0),
        Column("positions", "how many tokens from the start of a text were looked at", "whole", low=2),
        SPECIAL_TOKENS,
        FIRST_TOKEN,
    )
)


def variability(
    weights: Float[Tensor, "example *any query key"],
    there: Bool[Tensor, "example query"],
    *,
    first_token: bool = True,
) -> Float[Tensor, "*any"]:
    """How much weights differ from example to example, from 0 to 1; NaN where nothing can be compared.

    Args:
        weights: Of any sign.
        there: Which positions an example has; pairs with another are left out.
        first_token: Whether pairs count whose key is at the first position.

    >>> one, other = torch.eye(2), 1 - torch.eye(2)
    >>> variability(torch.stack([one, other]), torch.ones(2, 2, dtype=torch.bool))
    tensor(0.5000, dtype=torch.float64)
    """
    pairs = there[:, :, None] & there[:, None, :]  # (example, query, key)
    pairs[..., 0] &= first_token
    pairs = pairs & (pairs.sum(dim=0) >= 2)
    pairs = pairs.view(len(pairs), *(1,) * (weights.ndim - 3), *pairs.shape[1:]).double()
    weights = weights * pairs
    mean = weights.sum(dim=0) / pairs.sum(dim=0).clamp_min(1)
    deviation = ((weights - mean).abs() * pairs).sum(dim=(0, -2, -1))
    return deviation / (2 * weights.abs().sum(dim=(0, -2, -1)))


class Variability(SplitAnalysis):
    """Table: attention, layer, head, value, examples, positions, special_tokens, first_token.

    ``value`` is from 0 to 1, NaN where no two examples have the same pair; ``examples`` is how many were compared.

    Args:
        examples: Size of the random sample of the split that is compared; None: all.
        positions: How many tokens from the start of an example are looked at.
        special_tokens: Whether pairs with [CLS], [SEP] or another special token count.
        first_token: Whether attention to the first token of a text counts; None: unless the model is causal.
    """

    schema = SCHEMA
    resampled = False  # keeps whole maps of a few examples
    stacks = ("decoder",)

    weights: Tensor
    there: Tensor

    def __init__(
        self,
        *,
        examples: int | None = 1000,
        positions: int = 10,
        special_tokens: bool = False,
        first_token: bool | None = None,
    ) -> None:
        super().__init__()
        check_pair_options("variability", special_tokens, first_token=first_token)
        self.first_token = first_token
        check_limit("analysis.variability.examples", examples)
        if not is_whole_number(positions, 2):
            raise UserError(f"analysis.variability.positions must be a whole number, at least 2, got {positions!r}")
        self.examples = examples
        self.positions = positions
        self.special_tokens = special_tokens

    def setup(self, context: Context) -> Analysis:
        """Draw the sample, and make room for the corners of its matrices."""
        super().setup(context)
        self.counts_first = counts_first(self.first_token, context)
        self.chosen = sample(context, self.examples)
        self.slot = self.chosen.cumsum(dim=0) - 1  # where each chosen example is kept
        size = min(self.positions, context.max_length)
        kept = int(self.chosen.sum())
        shape = (kept, len(ATTENTIONS), context.layers, context.heads, size, size)
        _check_size(shape)
        self.add_state("weights", torch.zeros(shape), dist_reduce_fx="sum")
        self.add_state("there", torch.zeros(kept, size), dist_reduce_fx="sum")
        return self

    def wants(self, indices: Sequence[int]) -> bool:
        return bool(self.chosen[list(indices)].any())

    def update(self, trace: Trace) -> None:
        mine = in_sample(self.chosen, trace)
        slot = self.slot.to(mine.device)[trace.inputs["index"][mine]]
        size = min(self.there.shape[-1], trace.mask.shape[-1])
        tokens = counted_tokens(trace, special_tokens=self.special_tokens)
        self.there[slot, :size] = tokens[mine, :size].to(self.there.dtype)
        for number, layer in enumerate(trace.layers):
            for variant, attention in enumerate(ATTENTIONS):
                corner = layer.rows(attention, slice(0, size))[mine, :, :, :size]
                self.weights[slot, variant, number, :, :size, :size] = corner.to(self.weights.dtype)

    def compute(self) -> pd.DataFrame:
        there = self.there > 0
        found = [
            [
                variability(self.weights[:, variant, number], there, first_token=self.counts_first)
                for number in range(self.context.layers)
            ]
            for variant in range(len(ATTENTIONS))
        ]
        names = {"attention": ATTENTIONS, "layer": range(self.context.layers), "head": range(self.context.heads)}
        table = tidy(torch.stack([torch.stack(layers) for layers in found]), names)
        compared = int(there.any(dim=-1).sum())
        said = {"special_tokens": self.special_tokens, "first_token": self.counts_first}
        return table.assign(examples=compared, positions=self.positions, **said)


def _check_size(shape: tuple[int, ...]) -> None:
    size = math.prod(shape) * torch.float32.itemsize
    if size > _LARGEST:
        raise UserError(
            f"analysis.variability.examples must leave at most {_LARGEST / 1024**3:.0f} GB of weights to keep, but "
            f"{shape[0]} examples with {shape[-1]} positions make {size / 1024**3:.1f} GB; take fewer of them, or of "
            "analysis.variability.positions"
        )
