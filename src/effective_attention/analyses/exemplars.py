"""Which texts, and which two tokens in them, most strongly induce a head's attention?

Vig & Belinkov (2019), exemplars. Each text of the split stands for itself with its strongest pair, the query and the
key with the largest weight; a head's exemplars are the texts with the strongest ones. Pairs that count are those of
``analyses.pairs``, and whose tokens are far enough apart (``least_distance``: at 1, the default, no token looks at
itself).

Of effective attention the largest **positive** weight counts, so there is no convention for negative ones: a head's
output is pushed away from what has a negative weight. A text without a positive weight is nobody's exemplar.

Scores are rounded to six decimals before they are ranked, for the last digits of a weight depend on what else is in its
batch. Equal scores rank by example, then query, then key: the result is that of sorting everything, in the memory of a
few rows.

With each exemplar comes the whole row of its query, so that the text can be shown with what else the token looks at.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, Context, SplitAnalysis
from effective_attention.analyses.common.options import check_pair_options, is_whole_number, layer_numbers
from effective_attention.analyses.common.pairs import counted, counted_tokens, counts_first, distances
from effective_attention.analyses.common.schema import FIRST_TOKEN, HEAD, LAYER, Column, Schema, attention_column
from effective_attention.attention.trace import Trace
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.errors import UserError

DECIMALS = 6
_NOTHING = -1  # in the place of a token, a position or an example that is not there
SCHEMA = Schema(
    (
        attention_column(*ATTENTIONS),
        LAYER,
        HEAD,
        Column("rank", "place among the head's exemplars, 0: the strongest", "whole", low=0, key=True),
        Column("example", "which text of the split, counted from 0", "whole", low=0),
        Column("query", "position of the token that looks, in the text's strongest pair", "whole", low=0),
        Column("key", "position of the token that is looked at, in the text's strongest pair", "whole", low=0),
        Column("query_token", "what stands at query", "name"),
        Column("key_token", "what stands at key", "name"),
        Column("score", "weight from query to key, rounded to six decimals", low=0),
        Column("position", "of the token this row is about", "whole", low=0, key=True),
        Column("token", "what stands at position", "name"),
        Column("value", "weight from query to the token at position"),
        Column("special", "whether the token at position is [CLS], [SEP] or another special token", "flag"),
        FIRST_TOKEN,
    )
)


def strongest_pairs(
    weights: Float[Tensor, "batch head query key"], pairs: Bool[Tensor, "batch query key"]
) -> tuple[Float[Tensor, "batch head"], Int[Tensor, "batch head"], Int[Tensor, "batch head"]]:
    """Find each text's largest rounded weight, its query and its key (the first of equals); -inf: none is positive."""
    steps = (weights.float() * 10**DECIMALS).round_().masked_fill_(~pairs[:, None], -torch.inf)
    largest, place = steps.flatten(start_dim=2).max(dim=-1)
    score = largest.double().where(largest > 0, -torch.inf) / 10**DECIMALS
    return score, place // weights.shape[-1], place % weights.shape[-1]


def best(found: Mapping[str, Tensor], top: int) -> dict[str, Tensor]:
    """Return the ``top`` exemplars by score, of equal ones those of the first examples.

    Args:
        found: ``score`` and ``example``, (..., exemplar), and whatever else is known of exemplars, (..., exemplar) or
            with one axis more.
        top: How many to keep.
    """
    order = found["example"].argsort(dim=-1, stable=True)
    by_score = found["score"].gather(-1, order).argsort(dim=-1, descending=True, stable=True)
    order = order.gather(-1, by_score)[..., :top]
    return {name: _take(value, order) for name, value in found.items()}


def _take(value: Tensor, order: Tensor) -> Tensor:
    """Exemplars in a new order; what stands at each may be a row."""
    if value.ndim == order.ndim:
        return value.gather(-1, order)
    return value.gather(-2, order[..., None].expand(*order.shape, value.shape[-1]))


class Exemplars(SplitAnalysis):
    """The texts, and two tokens in each, that most strongly induce a head's attention; ``SCHEMA`` describes the table.

    One row for each token of an exemplar: ``value`` is the weight from the exemplar's query to the token at
    ``position``, and ``score`` that to its key, rounded. Ranks count from 0.

    Args:
        layer: ``all``, ``last`` or a number.
        head: ``all`` or a number.
        top: How many exemplars a head has.
        least_distance: How many tokens query and key must be apart.
        special_tokens: Whether a query or key may be [CLS], [SEP] or another special token.
        first_token: Whether a key may be the first token of a text; None: unless the model is causal.
    """

    schema = SCHEMA
    stacks = ("decoder",)

    def __init__(
        self,
        *,
        layer: str | int = "all",
        head: str | int = "all",
        top: int = 3,
        least_distance: int = 1,
        special_tokens: bool = False,
        first_token: bool | None = None,
    ) -> None:
        super().__init__()
        check_pair_options("exemplars", special_tokens, first_token=first_token)
        self.first_token = first_token
        for option, number, least in (("top", top, 1), ("least_distance", least_distance, 0)):
            if not is_whole_number(number, least):
                raise UserError(f"analysis.exemplars.{option} must be a whole number, {least} or more, got {number!r}")
        self.layer = layer
        self.head = head
        self.most = top
        self.least_distance = least_distance
        self.special_tokens = special_tokens

    def setup(self, context: Context) -> Analysis:
        """Find the chosen layers and heads, and make room for their exemplars."""
        super().setup(context)
        self.counts_first = counts_first(self.first_token, context)
        head = self.head
        if head != "all" and (not is_whole_number(head, 0) or int(head) >= context.heads):
            raise UserError(
                f"analysis.exemplars.head must be all or a head from 0 to {context.heads - 1}, got {head!r}"
            )
        self.heads = list(range(context.heads)) if head == "all" else [int(head)]
        self.layers = layer_numbers(self.layer, context.layers, "analysis.exemplars.layer")
        self.top = min(self.most, context.examples)  # a head has no more than there are texts
        self._add_states((len(ATTENTIONS), len(self.layers), len(self.heads), self.top), context.max_length)
        return self

    def _add_states(self, shape: tuple[int, ...], size: int) -> None:
        """Make room for exemplars; those of all processes lie side by side until they are ranked.

        Args:
            shape: (attention, layer, head, exemplar).
            size: Of the axis of tokens, which some states have more.
        """
        defaults = {
            "score": torch.full(shape, -torch.inf, dtype=torch.float64),
            **{name: torch.full(shape, _NOTHING) for name in ("example", "query", "key")},
            "row": torch.zeros(*shape, size),
            "ids": torch.full((*shape, size), _NOTHING),
            "special": torch.zeros(*shape, size, dtype=torch.uint8),
        }
        self.names = tuple(defaults)
        for name, default in defaults.items():
            self.add_state(name, default, dist_reduce_fx=_side_by_side)

    def update(self, trace: Trace) -> None:
        apart = distances(trace.mask.shape[1], trace.mask.device) >= self.least_distance
        for place, number in enumerate(self.layers):
            layer = trace.layers[number]
            pairs = apart & counted(
                trace, special_tokens=self.special_tokens, first_token=self.counts_first, layer=layer
            )
            for variant, attention in enumerate(ATTENTIONS):
                found = self._candidates(trace, layer.part(attention)[:, self.heads], pairs)
                for name, value in best(self._joined(found, variant, place), self.top).items():
                    getattr(self, name)[variant, place] = value

    def _joined(self, found: Mapping[str, Tensor], variant: int, place: int) -> dict[str, Tensor]:
        """Join the exemplars so far and the candidates after them."""
        return {name: torch.cat([getattr(self, name)[variant, place], value], dim=1) for name, value in found.items()}

    def _candidates(self, trace: Trace, weights: Tensor, pairs: Tensor) -> dict[str, Tensor]:
        """Find each text's strongest pair, (head, batch), and its tokens, (head, batch, token); no padding counts."""
        score, query, key = strongest_pairs(weights, pairs)
        batch, heads, _, size = weights.shape
        row = weights.gather(2, query[..., None, None].expand(batch, heads, 1, size))[:, :, 0]  # (batch, head, key)
        place = trace.mask.cumsum(dim=-1) - 1  # among the real tokens, wherever padding is
        special = trace.mask & ~counted_tokens(trace, special_tokens=False)
        found = {
            "score": score,
            "example": trace.inputs["index"][:, None].expand(batch, heads),
            "query": place.gather(1, query),
            "key": place.gather(1, key),
            "row": self._real(row, trace.mask, 0),
            "ids": self._real(trace.inputs["input_ids"][:, None].expand(row.shape), trace.mask, _NOTHING),
            "special": self._real(special[:, None].expand(row.shape), trace.mask, 0),
        }
        return {name: value.transpose(0, 1).to(getattr(self, name).dtype) for name, value in found.items()}

    def _real(self, values: Tensor, mask: Tensor, fill: int) -> Tensor:
        """(batch, head, key) with the real tokens first and ``fill`` behind them, as wide as the states are."""
        order = (~mask).int().argsort(dim=-1, stable=True)[:, None].expand(values.shape)
        moved = values.masked_fill(~mask[:, None], fill).gather(-1, order)[..., : self.context.max_length]
        return torch.nn.functional.pad(moved, (0, self.context.max_length - moved.shape[-1]), value=fill)

    def compute(self) -> pd.DataFrame:
        found = best({name: getattr(self, name).cpu() for name in self.names}, self.top)
        there = (found["ids"] != _NOTHING) & (found["score"] > 0)[..., None]
        attention, layer, head, rank, position = places = there.nonzero(as_tuple=True)
        table = pd.DataFrame(
            {
                "attention": np.array(ATTENTIONS)[attention],
                "layer": np.array(self.layers)[layer],
                "head": np.array(self.heads)[head],
                "rank": rank.numpy(),
                **{name: found[name][places[:-1]].numpy() for name in ("example", "query", "key", "score")},
                "position": position.numpy(),
                "value": found["row"][places].double().numpy(),
                "special": found["special"][places].bool().numpy(),
            }
        )
        ids = {
            "token": places,
            **{f"{name}_token": (*places[:-1], found[name][places[:-1]]) for name in ("query", "key")},
        }
        for name, where in ids.items():
            table[name] = self.context.tokenizer.convert_ids_to_tokens(found["ids"][where].tolist())
        return table.assign(first_token=self.counts_first)[SCHEMA.names]


def _side_by_side(states: Tensor) -> Tensor:
    """(process, attention, layer, head, exemplar, ...) as (attention, layer, head, exemplar of any process, ...)."""
    return states.movedim(0, 3).flatten(start_dim=3, end_dim=4)
