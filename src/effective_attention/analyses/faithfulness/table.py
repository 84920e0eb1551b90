"""The table of ``faithfulness``: its schema, which numbers each example has, and their means and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.common import schema
from effective_attention.analyses.common.protocol import PROTOCOL_COLUMNS
from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.analyses.faithfulness.measures import MEASURES
from effective_attention.analyses.faithfulness.pairs import CHANGE, DIFFERENCE, RANK, changed, compared
from effective_attention.analyses.faithfulness.ways import ERASES, UNITS, Way
from effective_attention.attention.variants import ATTENTIONS

COST = "milliseconds"
_NAMES = tuple(measure.name for measure in MEASURES)
_PLAIN = tuple(measure.name for measure in MEASURES if not measure.ways)
_ERASED = tuple(measure.name for measure in MEASURES if measure.ways)
_MEAN = ("value", "std", "low", "high")
_CHANGED: dict[str, str | tuple[str, ...]] = {"measure": CHANGE, "attention": "effective"}
SCHEMA = schema.Schema(
    (
        replace(schema.attention_column(*ATTENTIONS), missing=True),
        schema.Column("method", "the explanation", "name", key=True),
        replace(schema.LAYER, missing=True),
        schema.Column("measure", "what is measured", "name", (*_NAMES, RANK, DIFFERENCE, CHANGE, COST), key=True),
        schema.Column("unit", "what is erased: tokens or words", "name", UNITS, key=True, missing=True),
        schema.Column("erase", "what becomes of erased tokens", "name", ERASES, key=True, missing=True),
        schema.Column("compared", "measure that methods are compared on", "name", _NAMES, key=True, missing=True),
        schema.Column("other_attention", "of a pair, what is subtracted", "name", ATTENTIONS, key=True, missing=True),
        schema.Column("other_method", "of a pair, what is subtracted", "name", key=True, missing=True),
        schema.Column("value", "mean over examples (of a pair: the difference); milliseconds: per example"),
        schema.Column("std", "standard deviation over examples", low=0, missing=True),
        schema.Column("low", "lower end of the mean's 95 % bootstrap interval", missing=True),
        schema.Column("high", "upper end of the mean's 95 % bootstrap interval", missing=True),
        schema.Column(
            "beyond",
            "share of draws whose difference has the other sign, or none",
            "number",
            low=0,
            high=1,
            missing=True,
        ),
        schema.Column(
            "p",
            "of a difference, two-sided, corrected (Holm) for all pairs, or for all methods that read attention",
            "number",
            low=0,
            high=1,
            missing=True,
        ),
        schema.count_column("examples"),
        schema.RECEPTIVE_FIELD,
        *PROTOCOL_COLUMNS,
        schema.Column("examples", "how many examples were explained: the sample", "whole", low=0),
    ),
    blocks=(
        schema.Block({"measure": _PLAIN}, ("attention", "method", "layer"), numbers=_MEAN),
        schema.Block({"measure": _ERASED}, ("attention", "method", "layer", "unit", "erase"), numbers=_MEAN),
        schema.Block({"measure": COST}, ("attention", "method"), numbers=("value",)),
        schema.Block({"measure": _PLAIN}, ("method",), numbers=_MEAN),  # methods that do not read attention
        schema.Block({"measure": _ERASED}, ("method", "unit", "erase"), numbers=_MEAN),
        schema.Block({"measure": COST}, ("method",), numbers=("value",)),
        schema.Block({"measure": RANK}, ("attention", "method", "compared"), numbers=("value",)),
        schema.Block({"measure": RANK}, ("method", "compared"), numbers=("value",)),
        schema.Block({"measure": DIFFERENCE}, ("attention", "method", "compared", "other_attention", "other_method")),
        schema.Block({"measure": DIFFERENCE}, ("attention", "method", "compared", "other_method")),
        schema.Block({"measure": DIFFERENCE}, ("method", "compared", "other_method")),
        schema.Block(_CHANGED | {"compared": _PLAIN}, ("method",)),
        schema.Block(_CHANGED | {"compared": _ERASED}, ("method", "unit", "erase")),
    ),
)


class Place(NamedTuple):
    """One number per example."""

    attention: str | None
    method: str
    layer: int | None
    measure: str
    unit: str | None = None
    erase: str | None = None


def places(league: Sequence[tuple[str | None, str]], layers: int, ways: Sequence[Way]) -> list[Place]:
    """List all numbers that an example may have."""
    found = []
    for attention, method in league:
        every: list[int | None] = [None] if attention is None else list(range(layers))
        for measure in MEASURES:
            shown = every if measure.layers == "each" else every[-1:]
            erased: Sequence[tuple[str | None, str | None]] = ways if measure.ways else [(None, None)]
            found += [Place(attention, method, layer, measure.name, *way) for way in erased for layer in shown]
    return found


def measured(asked: Asked) -> dict[Place, Tensor]:
    """Measure a batch, (batch,) for each place; a measure that needs what is not known has none."""
    found = {}
    for measure in (one for one in MEASURES if set(one.needs) <= set(asked.trace.tokens)):
        for way, results in measure.of(asked).items():
            for one, values in zip(asked.attributions, results, strict=True):
                first = len(asked.trace.layers) - values.shape[1]  # the last layer only: that one
                for layer in range(values.shape[1]):
                    number = None if one.attention is None else first + layer
                    found[Place(one.attention, one.method, number, measure.name, *(way or ()))] = values[:, layer]
    return found


def comparison(
    values: Float[Tensor, "example place"], known: Sequence[Place], name: str | None, way: Way, seed: int
) -> pd.DataFrame:
    """Compare all methods on one measure in the last layer, erased in one way; see ``pairs``. None: no rows."""
    if name is None:
        return pd.DataFrame()
    (measure,) = (one for one in MEASURES if one.name == name)
    mine = _in_last_layer(known, name, way if measure.ways else None)
    return compared(values[:, mine], _entries(known, mine), measure, seed)


def changes(
    values: Float[Tensor, "example place"], known: Sequence[Place], ways: Sequence[Way], seed: int
) -> pd.DataFrame:
    """Compare effective with standard attention, on each measure in the last layer and in each way to erase."""
    rows = []
    for measure in MEASURES:
        every: Sequence[Way | None] = ways if measure.ways else [None]
        for way in every:
            mine = _in_last_layer(known, measure.name, way)
            unit, erase = way or (None, None)
            found = changed(values[:, mine], _entries(known, mine), measure, seed)
            rows.append(found.assign(unit=unit, erase=erase))
    return pd.concat([one for one in rows if len(one)]) if any(map(len, rows)) else pd.DataFrame()


def _in_last_layer(known: Sequence[Place], name: str, way: Way | None) -> list[int]:
    """Return the places of a measure in the last layer, erased in one way; None: it is not about erasing."""
    last = max((place.layer for place in known if place.layer is not None), default=None)
    return [
        number
        for number, place in enumerate(known)
        if place.measure == name and (place.unit, place.erase) == (way or (None, None)) and place.layer in (None, last)
    ]


def _entries(known: Sequence[Place], mine: Sequence[int]) -> list[tuple[str | None, str]]:
    return [(known[number].attention, known[number].method) for number in mine]


def costs(league: Sequence[tuple[str | None, str]], seconds: Sequence[float], examples: int) -> pd.DataFrame:
    """Return what each method took, in milliseconds an example."""
    rows = [
        {"attention": attention, "method": method, "layer": None, "measure": COST, "value": 1000 * spent}
        for (attention, method), spent in zip(league, (one / max(examples, 1) for one in seconds), strict=True)
    ]
    return pd.DataFrame(rows).assign(std=float("nan"), low=float("nan"), high=float("nan"), count=examples)


def joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Put rows below each other, in the columns of the schema; what a row has not is empty."""
    table = pd.concat([part.reindex(columns=SCHEMA.names).astype(object) for part in parts], ignore_index=True)
    numbers = {column.name: "float64" for column in SCHEMA.columns if column.kind == "number"}
    return table.astype({**numbers, "layer": "Int64", "count": "int64"})
