"""The table of ``sinks``: its contract, and how its rows are named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pandas as pd
import torch
from torch import Tensor

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
from effective_attention.analyses.sinks.measures import COMPARED, LEVELS, MEASURED, OF_KEYS, PAIRS, RECEIVED

PLACES = ("strongest", "others")
KINDS = ("cls", "sep", "first", "punctuation", "other")
NAMED = ("attention", "place", "kind", "measure", "other", "level")
_SHARES = ("sink", "first_sink", "kind")
_DEVIATIONS = 1.96  # of the mean, on either side: 95 % of a normal distribution


def level_names() -> list[str]:
    """Name the classes of attention received, as multiples of even attention.

    >>> level_names()[0], level_names()[-1]
    ('0 to 0.25', '8 and more')
    """
    return [f"{low:g} to {high:g}" for low, high in pairwise(LEVELS)] + [f"{LEVELS[-1]:g} and more"]


SCHEMA = Schema(
    (
        Column(
            "quantity",
            "received: mean attention to a key from the queries that see it; leverage, affine_leverage: of the key in "
            "V and in [V, 1]; value_norm, vector_norm: length of its value, and of what the output projection makes of "
            "it, relative to the mean of the text; sink, first_sink: share of texts in which the strongest key, or the "
            "first token, receives more than the threshold; kind: share in which the strongest key is of that kind; "
            "excess: largest effective weight above its bound, not above 0 but for rounding; interval: weight on the "
            "strongest key; correlation: Spearman's, of two measures over the keys of a text; level: mean measure of "
            "keys that receive so much",
            "name",
            ("received", *OF_KEYS, *_SHARES, "excess", "interval", "correlation", "level"),
            key=True,
        ),
        replace(attention_column(*RECEIVED), missing=True),
        Column(
            "place",
            "the key that receives most in this head, or the mean of all others",
            "name",
            PLACES,
            key=True,
            missing=True,
        ),
        Column("kind", "of the strongest key: first is one that is not [CLS]", "name", KINDS, key=True, missing=True),
        Column(
            "measure",
            "what keys are measured by",
            "name",
            tuple(dict.fromkeys((*MEASURED, *COMPARED))),
            key=True,
            missing=True,
        ),
        Column("other", "the measure it is compared with", "name", COMPARED, key=True, missing=True),
        Column(
            "level",
            "attention received, as a multiple of even attention",
            "name",
            tuple(level_names()),
            key=True,
            missing=True,
        ),
        replace(LAYER, missing=True),
        replace(HEAD, missing=True),
        Column("value", "mean over texts, or over keys; of excess the largest"),
        Column(
            "low",
            "lower end: of the mean's 95 % interval over texts, or of what the weight could be with the same output",
            missing=True,
        ),
        Column("high", "upper end, likewise", missing=True),
        count_column("texts (or keys, or queries)"),
    ),
    blocks=(
        Block({"quantity": "received", "attention": RECEIVED}, ("layer", "head", "place")),
        Block({"quantity": OF_KEYS}, ("layer", "head", "place")),
        Block({"quantity": ("sink", "first_sink")}, ("layer", "head"), ("value",)),
        Block({"quantity": "kind"}, ("layer", "head", "kind"), ("value",)),
        Block({"quantity": "excess"}, ("layer", "head"), ("value",)),
        Block({"quantity": "interval"}, ("layer", "head")),
        Block({"quantity": "correlation", "measure": COMPARED}, ("other", "layer", "head")),
        Block({"quantity": "level", "measure": MEASURED}, ("level",), ("value",)),
    ),
)


def tidy_means(total: Tensor, squares: Tensor, count: Tensor, names: Mapping[str, Any]) -> pd.DataFrame:
    """Write means and their 95 % intervals from sums and sums of squares; no interval of fewer than two."""
    mean = mean_over(total, count)
    spread = (mean_over(squares, count) - mean.square()).clamp_min(0) * count / (count - 1).clamp_min(1)
    reach = torch.where(count > 1, _DEVIATIONS * (spread / count.clamp_min(1)).sqrt(), torch.nan)
    return tidy(mean, names, low=mean - reach, high=mean + reach, count=count.long())


def of_places(table: pd.DataFrame) -> pd.DataFrame:
    """Name rows by what they measure: an attention received, or a quantity of the key."""
    is_received = table["measure"].isin(RECEIVED)
    quantity = table["measure"].where(~is_received, "received")
    attention = table["measure"].where(is_received, None)
    return table.drop(columns="measure").assign(quantity=quantity, attention=attention)


def of_pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Name the two measures of each pair."""
    one, other = ([COMPARED[PAIRS[pair][side]] for pair in table["pair"]] for side in (0, 1))
    return table.drop(columns="pair").assign(quantity="correlation", measure=one, other=other)
