"""The table of ``faithfulness``: its schema, which numbers each example has, and their means and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.common import schema
from effective_attention.analyses.common.protocol import PROTOCOL_COLUMNS
from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.analyses.faithfulness.measures import MEASURES
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions.ranking import bootstrap

COST = "milliseconds"
_NAMES = tuple(measure.name for measure in MEASURES)
SCHEMA = schema.Schema(
    (
        replace(schema.attention_column(*ATTENTIONS), missing=True),
        schema.Column("method", "the explanation", "name", key=True),
        replace(schema.LAYER, missing=True),
        schema.Column("measure", "what is measured", "name", (*_NAMES, COST), key=True),
        schema.Column("value", "mean over examples; milliseconds: per example"),
        schema.Column("std", "standard deviation over examples", low=0, missing=True),
        schema.Column("low", "lower end of the mean's 95 % bootstrap interval", missing=True),
        schema.Column("high", "upper end of the mean's 95 % bootstrap interval", missing=True),
        schema.count_column("examples"),
        schema.RECEPTIVE_FIELD,
        *PROTOCOL_COLUMNS,
        schema.Column("examples", "how many examples were explained: the sample", "whole", low=0),
    ),
    blocks=(
        schema.Block({"measure": _NAMES}, ("attention", "method", "layer")),  # some in the last layer only
        schema.Block({"measure": COST}, ("attention", "method"), numbers=("value",)),
        schema.Block({"measure": _NAMES}, ("method",)),  # methods that do not read attention
        schema.Block({"measure": COST}, ("method",), numbers=("value",)),
    ),
)


class Place(NamedTuple):
    """One number per example."""

    attention: str | None
    method: str
    layer: int | None
    measure: str


def places(league: Sequence[tuple[str | None, str]], layers: int) -> list[Place]:
    """List all numbers that an example may have."""
    found = []
    for attention, method in league:
        every: list[int | None] = [None] if attention is None else list(range(layers))
        for measure in MEASURES:
            shown = every if measure.layers == "each" else every[-1:]
            found += [Place(attention, method, layer, measure.name) for layer in shown]
    return found


def measured(asked: Asked) -> dict[Place, Tensor]:
    """Measure a batch, (batch,) for each place; a measure that needs what is not known has none."""
    found = {}
    for measure in (one for one in MEASURES if set(one.needs) <= set(asked.trace.tokens)):
        for one, values in zip(asked.attributions, measure.function(asked), strict=True):
            first = len(asked.trace.layers) - values.shape[1]  # the last layer only: that one
            for layer in range(values.shape[1]):
                number = None if one.attention is None else first + layer
                found[Place(one.attention, one.method, number, measure.name)] = values[:, layer]
    return found


def summary(values: Float[Tensor, "example place"], seed: int) -> pd.DataFrame:
    """Return mean, standard deviation, interval and count over examples of each place; NaN is left out."""
    count = (~values.isnan()).sum(dim=0)
    low, high = bootstrap(values, seed=seed) if len(values) else (torch.nan * count, torch.nan * count)
    mean = values.nanmean(dim=0)
    spread = ((values - mean).square().nansum(dim=0) / (count - 1).clamp_min(1)).sqrt()
    return pd.DataFrame({"value": mean, "std": spread, "low": low, "high": high, "count": count})


def costs(league: Sequence[tuple[str | None, str]], seconds: Sequence[float], examples: int) -> pd.DataFrame:
    """Return what each method took, in milliseconds an example."""
    rows = [
        {"attention": attention, "method": method, "layer": None, "measure": COST, "value": 1000 * spent}
        for (attention, method), spent in zip(league, (one / max(examples, 1) for one in seconds), strict=True)
    ]
    return pd.DataFrame(rows).assign(std=float("nan"), low=float("nan"), high=float("nan"), count=examples)
