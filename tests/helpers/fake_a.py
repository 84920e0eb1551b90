"""Made-up tables of timing, patterns, token_types, delimiters, finetuning_shift, null_space, head_ablation and heatmap.

Rows are generated from the schemas; values are made plausible where a figure or a small table needs that. Every table
is checked against its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from effective_attention.analyses import (
    delimiters,
    finetuning_shift,
    head_ablation,
    heatmap,
    null_space,
    patterns,
    timing,
    token_types,
)
from helpers.fakes import with_facts

TOKENS = ("[CLS]", "new", "anti", "##biotics", "cost", "$5", "[SEP]", "<script>alert(1)</script>", "[SEP]")
_METRICS = {"stsb": "pearson"}
_TYPE_LEVELS = {"noun": 0.1, "pronoun": 0.04, "verb": 0.06, "sep": 0.45, "cls": 0.2, "punctuation": 0.25}
_STATISTIC_LEVELS = {"largest": 1.0, "mean": 0.6, "lift": 8.0}
_PATTERN_LEVELS = {"vertical": 4, "diagonal": 2, "vertical+diagonal": 1.4, "block": 2, "heterogeneous": 6}
_HEAD_WIDTH = 32


def fake_tables_a(
    facts: Mapping[str, Any], task: str, *, seed: int = 0, layers: int = 2, heads: int = 3
) -> dict[str, pd.DataFrame]:
    """Make all eight tables for one task, with ``facts`` in front of every row, as a command writes them."""
    random = np.random.default_rng([seed, *task.encode()])
    axes = {"layer": range(layers), "head": range(heads)}
    made = {
        "timing": (timing.SCHEMA, fake_timing(random)),
        "patterns": (patterns.SCHEMA, fake_patterns(random, axes)),
        "token_types": (token_types.SCHEMA, fake_token_types(random, axes)),
        "delimiters": (delimiters.SCHEMA, fake_delimiters(random, axes)),
        "finetuning_shift": (finetuning_shift.SCHEMA, fake_finetuning_shift(random, axes)),
        "null_space": (null_space.SCHEMA, fake_null_space(random, axes)),
        "head_ablation": (head_ablation.SCHEMA, fake_head_ablation(random, axes, _METRICS.get(task, "accuracy"))),
        "heatmap": (heatmap.SCHEMA, fake_heatmap(random)),
    }
    tables = {}
    for name, (schema, table) in made.items():
        tables[name] = with_facts(table, facts)
        schema.check(tables[name], name)
    return tables


def fake_timing(random: np.random.Generator) -> pd.DataFrame:
    """Make up times: effective attention takes 1.31 times as long as standard, the published protocol 2.47 times."""
    table = timing.SCHEMA.fake(random, {})
    ratio = table["attention"].map({"standard": 1.0, "effective": 1.31, "padded": 2.47})
    reading = table["attention"].where(table["attention"] == "padded", "exact")
    quartiles = {"ratio_low": ratio - 0.05 * (ratio > 1), "ratio_high": ratio + 0.1 * (ratio > 1)}
    times = {"seconds": 3 * ratio, "examples_per_second": 136 / ratio, "ratio": ratio}
    return table.assign(reading=reading, **times, **quartiles, batches=51)


def fake_patterns(random: np.random.Generator, axes: Mapping[str, Any]) -> pd.DataFrame:
    """Make up shares of patterns, which add up to 1 for one layer and attention."""
    table = patterns.SCHEMA.fake(random, axes)
    value = (0.5 + table["value"]) * table["pattern"].map(_PATTERN_LEVELS)
    total = value.groupby([table["attention"], table["layer"]], dropna=False).transform("sum")
    share = value / total
    return table.assign(value=share, corrected=0.9 * share + 0.1 / len(_PATTERN_LEVELS), count=1000)


def fake_token_types(random: np.random.Generator, axes: Mapping[str, Any]) -> pd.DataFrame:
    """Make up weights on token types in the last layer, as by default; effective attention gives less to [SEP]."""
    types = {"layer": [max(axes["layer"])], "head": axes["head"], "token_type": list(_TYPE_LEVELS)}
    table = token_types.SCHEMA.fake(random, types)
    level = table["statistic"].map(_STATISTIC_LEVELS) * table["token_type"].map(_TYPE_LEVELS)
    disregarded = (table["attention"] == "effective") & (table["token_type"] == "sep")
    return table.assign(value=(0.2 + 1.4 * table["value"]) * level * np.where(disregarded, 0.6, 1.0), count=300)


def fake_delimiters(random: np.random.Generator, axes: Mapping[str, Any]) -> pd.DataFrame:
    """Make up weights on delimiters; effective attention's smallest weight is another one for each task."""
    table = delimiters.SCHEMA.fake(random, axes)
    is_effective = table["attention"] == "effective"
    scale = {"scale_min": np.where(is_effective, -random.uniform(0.3, 0.6), 0.0)}
    return table.assign(value=0.7 * table["value"], scale_max=np.where(is_effective, 1.32, 1.0), count=408, **scale)


def fake_finetuning_shift(random: np.random.Generator, axes: Mapping[str, Any]) -> pd.DataFrame:
    """Make up similarities to the pretrained model: the later the layer, the more it changes."""
    table = finetuning_shift.SCHEMA.fake(random, axes)
    change = random.uniform(0.01, 0.5, len(table))
    depth = (table["layer"].astype(float) + 1) / len(axes["layer"])
    return table.assign(value=1 - change * depth**2, count=408)


def fake_null_space(random: np.random.Generator, axes: Mapping[str, Any]) -> pd.DataFrame:
    """Make up a null space for a head width of 32: longer texts have one, and padding enlarges it."""
    table = null_space.SCHEMA.fake(random, {**axes, "length": range(8, 120)})
    varied = 0.8 + 0.4 * table["value"]
    layer, length = (table[name].astype("Float64").to_numpy(float, na_value=np.nan) for name in ("layer", "length"))
    by_head = _of_heads(table["reading"], layer, varied)
    by_length = _of_lengths(length, varied)
    is_length = table["length"].notna().to_numpy(bool)
    value = table["value"].to_numpy(float).copy()
    for quantity in null_space.QUANTITIES:
        asked = (table["quantity"] == quantity).to_numpy(bool)
        for rows, values in ((asked & ~is_length, by_head), (asked & is_length, by_length)):
            value[rows] = np.broadcast_to(values.get(quantity, np.nan), value.shape)[rows]
    count = np.where(is_length, 1 + np.nan_to_num(length) % 5, 408)
    return table.assign(value=value, count=pd.array(count, dtype="Int64"))


def _of_heads(reading: pd.Series, layer: np.ndarray, varied: pd.Series) -> dict[str, Any]:
    """Make each quantity by layer and head."""
    scale = reading.map({"exact": 1.0, "exact_subset": 1.0, "padded": 2.5, "projected": 1.1}).to_numpy(float)
    return {
        "rank": np.where(reading == "projected", 31.2, 31.6),
        "nullity": 20 * scale,
        "nontrivial": 0.9,
        "null_mass": 0.1 * (layer + 1) ** 0.5 * scale * varied.to_numpy(float),
        "pearson": 1 - 0.08 * scale,
        "padding_shift": 0.23,
        "output_change": 0.07,
        "projection_rank": _HEAD_WIDTH,
        "effective_gap": 2e-7,
    }


def _of_lengths(length: np.ndarray, varied: pd.Series) -> dict[str, Any]:
    """Make each quantity by length: nothing is lost up to the head's width."""
    beyond = np.maximum(length - _HEAD_WIDTH, 0)
    return {
        "rank": np.minimum(length, _HEAD_WIDTH),
        "nullity": beyond,
        "nontrivial": beyond > 0,
        "null_mass": 0.006 * beyond,
        "pearson": 1 - 0.002 * beyond * varied.to_numpy(float),
    }


def fake_head_ablation(random: np.random.Generator, axes: Mapping[str, Any], metric: str) -> pd.DataFrame:
    """Make up scores without heads: the untouched score is 0.8; a whole layer costs twice as much."""
    table = head_ablation.SCHEMA.fake(random, {**axes, "metric": [metric]})
    change = random.uniform(-0.04, 0.015, len(table)) * np.where(table["head"].isna(), 2, 1)
    return table.assign(value=0.8 + change, change=change, count=64, examples=64)


def fake_heatmap(random: np.random.Generator, tokens: tuple[str, ...] = TOKENS) -> pd.DataFrame:
    """Make up head 2 of layer 1; standard attention is the sum of effective and null, and no map is another."""
    places = range(len(tokens))
    table = heatmap.SCHEMA.fake(random, {"layer": [1], "head": [2], "query": places, "key": places})
    standard = random.dirichlet([0.3] * len(tokens), size=len(tokens))
    null = random.normal(0, 0.05, standard.shape)
    largest = np.eye(len(tokens))[standard.argmax(axis=1)]
    parts = {"standard": standard, "effective": standard - null, "null": null, "affine": standard - 0.5 * null}
    parts |= {"sparse": 0.5 * (largest + np.eye(len(tokens))), "smallest": 0.5 * standard + 0.5 / len(tokens)}
    value = np.concatenate([parts[name].ravel() for name in heatmap.ALL_PARTS])  # in the order of the rows
    named = {f"{axis}_token": [tokens[place] for place in table[axis]] for axis in ("query", "key")}
    return table.assign(value=value, **named)
