"""Made-up tables of explanations and of identifiable attention, each checked against its schema when it is made."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from effective_attention.analyses.alternative_attention import SCHEMA as ALTERNATIVE_ATTENTION
from effective_attention.analyses.attention_graph import SCHEMA as ATTENTION_GRAPH
from effective_attention.analyses.common.protocol import PRESETS, protocol_facts
from effective_attention.analyses.faithfulness import DIFFERENCE, MEASURES, RANK
from effective_attention.analyses.faithfulness import SCHEMA as FAITHFULNESS
from effective_attention.analyses.identified import SCHEMA as IDENTIFIED
from effective_attention.analyses.number_flip import SCHEMA as NUMBER_FLIP
from effective_attention.analyses.pronouns import SCHEMA as PRONOUNS
from effective_attention.analyses.protocols import SCHEMA as PROTOCOLS
from effective_attention.analyses.sinks import SCHEMA as SINKS
from effective_attention.analyses.token_type_profile import SCHEMA as TOKEN_TYPE_PROFILE

COMPARED_SINKS = ("standard", "effective", "affine", "norm", "leverage", "value_norm")
TOKENS = ("[CLS]", "new", "anti", "##biotics", "cost", "$5", "[SEP]", "<script>alert(1)</script>", "[SEP]")
PRONOUN_TEXT = "The author talked to Sara about [MASK] $5 book ."
CANDIDATES = {"his": 0.06, "her": 0.18}
REFERENTS = ("author", "Sara")
WITH_ATTENTION = ("raw", "rollout", "flow", "gradient_attention", "gradient_rollout", "norm", "norm_rollout")
WITHOUT_ATTENTION = ("input_gradient", "gradient_x_input", "integrated_gradients", "blank_out", "random")
EVEN = {"cls": 0.02, "sep": 0.04, "punctuation": 0.08, "other": 0.86}


@cache
def fake_b(task: str, seed: int, layers: int, heads: int) -> dict[str, pd.DataFrame]:
    """Make all tables of this part, without the columns in front, once for a size: do not change them."""
    random = np.random.default_rng([seed, *task.encode()])
    return {
        "attention_graph": attention_graph(random, layers),
        "pronouns": pronouns(random, layers),
        "number_flip": number_flip(random, layers),
        "faithfulness": faithfulness(random, layers),
        "protocols": protocols(random, layers),
        "alternative_attention": alternative_attention(random, layers, heads),
        "token_type_profile": token_type_profile(random, layers, heads),
        "identified": identified(random, layers, heads),
        "sinks": sinks(random, layers, heads),
    }


def distributions(table: pd.DataFrame, random: np.random.Generator, keys: list[str], *, evenness: float) -> pd.Series:
    """Draw a weight for each row; those of rows with the same keys sum to 1. The less even, the more stand out."""
    weights = pd.Series(random.gamma(evenness, size=len(table)), index=table.index)
    return weights / weights.groupby([table[key] for key in keys]).transform("sum")


def attention_graph(
    random: np.random.Generator, layers: int, *, tokens: tuple[str, ...] = TOKENS, chosen: int = 1
) -> pd.DataFrame:
    """Make up raw attention of all tokens, and rollout and flow of the chosen one."""
    places = range(len(tokens))
    axes = {"layer": range(layers), "query": places, "key": places, "convention": ["absolute"]}
    table = ATTENTION_GRAPH.fake(random, axes)
    table = table[(table["method"] == "raw") | (table["query"] == chosen)].reset_index(drop=True)
    table["value"] = distributions(table, random, ["attention", "method", "layer", "query"], evenness=0.4)
    for axis in ("query", "key"):
        table[f"{axis}_token"] = table[axis].map(dict(enumerate(tokens)))
    ATTENTION_GRAPH.check(table, "attention_graph")
    return table


def number_flip(random: np.random.Generator, layers: int) -> pd.DataFrame:
    """Make up shares and correlations with their intervals, and a few misclassified texts."""
    axes = {"layer": range(layers), "example": [3, 17, 4], "gold": ["plural"], "sentence": ["the key to the cabinets"]}
    table = NUMBER_FLIP.fake(random, {**axes, "convention": ["absolute"]})
    value = table["value"].where(table["quantity"] == "spearman", table["value"].abs())
    table = table.assign(value=value, low=value - 0.04, high=value + 0.05, even=0.1, count=90, examples=100)
    listed = table["quantity"] == "probability"
    table[["gold", "sentence"]] = table[["gold", "sentence"]].where(listed)
    NUMBER_FLIP.check(table, "number_flip")
    return table


def pronouns(random: np.random.Generator, layers: int) -> pd.DataFrame:
    names = [*CANDIDATES, *REFERENTS]
    axes = {"layer": range(layers), "name": names, "text": [PRONOUN_TEXT], "convention": ["absolute"]}
    table = PRONOUNS.fake(random, axes)
    is_attention = table["quantity"] == "attention"
    table = table[is_attention == table["name"].isin(REFERENTS)].reset_index(drop=True)
    chances = table["name"].map(CANDIDATES)
    chances = chances.where(table["quantity"] == "probability", chances / sum(CANDIDATES.values()))
    table["value"] = (table["value"] / len(REFERENTS)).where(table["quantity"] == "attention", chances)
    PRONOUNS.check(table, "pronouns")
    return table


def _is_pair(table: pd.DataFrame) -> pd.Series:
    """Tell which rows compare a method with one behind it in a list that has each method on each attention."""
    league = [(kind, name) for kind in ("standard", "effective") for name in WITH_ATTENTION]
    place = {entry: number for number, entry in enumerate([*league, *((None, name) for name in WITHOUT_ATTENTION)])}

    def places(attention: str, method: str) -> list[float]:
        kinds = table[attention].astype(object).where(table[attention].notna(), None)
        return [place.get(entry, np.nan) for entry in zip(kinds, table[method], strict=True)]

    return pd.Series(places("attention", "method")) < pd.Series(places("other_attention", "other_method"))


def faithfulness(random: np.random.Generator, layers: int, protocol: str = "ours") -> pd.DataFrame:
    """Make up scores: nothing is compared with itself, and tokens are erased by the last layer's scores only."""
    every = (*WITH_ATTENTION, *WITHOUT_ATTENTION)
    one_way = {"unit": ["token"], "erase": ["delete"], "compared": ["comprehensiveness"]}
    table = FAITHFULNESS.fake(random, {"layer": range(layers), "method": every, "other_method": every, **one_way})
    table = table[~table["measure"].isin([DIFFERENCE]) | _is_pair(table)].reset_index(drop=True)
    reads_attention = table["method"].isin(WITH_ATTENTION)
    itself = (table["method"] + table["measure"]).isin(
        ["input_gradientspearman_gradients", "blank_outspearman_blank_out"]
    )
    last = [measure.name for measure in MEASURES if measure.layers == "last"]
    below = table["measure"].isin(last) & (table["layer"] < layers - 1).fillna(False)
    table = table[(table["attention"].notna() == reads_attention) & ~itself & ~below].reset_index(drop=True)
    cost, rank = table["measure"] == "milliseconds", table["measure"] == RANK
    table["value"] = table["value"].where(~cost, 10 ** (4 * table["value"] - 1))
    spread = {"std": 0.2, "low": table["value"] - 0.04, "high": table["value"] + 0.05}
    for name, values in spread.items():
        table[name] = pd.Series(values, index=table.index).where(~cost & ~rank)
    table.loc[rank, "value"] = table.loc[rank, "value"].rank()
    table = table.assign(count=100, examples=100, **protocol_facts(protocol, PRESETS[protocol]))
    FAITHFULNESS.check(table, "faithfulness")
    return table


def protocols(random: np.random.Generator, layers: int) -> pd.DataFrame:
    """Make up correlations of which rollout is surely above raw attention, and flow neither above nor below it."""
    table = PROTOCOLS.fake(random, {"layer": range(layers), "delimiters": [False, True], "convention": ["absolute"]})
    levels = {"raw": 0.1, "rollout": 0.4, "flow": 0.15, "rollout - raw": 0.3, "flow - raw": 0.05}
    value = table["method"].map({**levels, "flow - rollout": -0.25}) + 0.004 * table["value"]
    spread = {"std": 0.3, "low": value - 0.08, "high": value + 0.08}
    table = table.assign(value=value, **spread, target="predicted", count=100, examples=100)
    PROTOCOLS.check(table, "protocols")
    return table


def token_type_profile(random: np.random.Generator, layers: int, heads: int) -> pd.DataFrame:
    table = TOKEN_TYPE_PROFILE.fake(random, {"layer": range(layers), "head": range(heads)})
    weights = distributions(table, random, ["attention", "layer", "head", "source"], evenness=2.0)
    scale = table["attention"].map({"standard": 1.0, "effective": 0.7})
    table = table.assign(value=weights * scale, even=table["target"].map(EVEN), count=408)
    TOKEN_TYPE_PROFILE.check(table, "token_type_profile")
    return table


def identified(random: np.random.Generator, layers: int, heads: int) -> pd.DataFrame:
    """Make up intervals: of an encoder's types of token, and of a row of which two tokens are necessary."""
    places = {"layer": range(layers), "head": range(heads), "query": [0], "key": range(len(TOKENS))}
    table = IDENTIFIED.fake(random, places)
    row = table["quantity"] == "row"
    table = table[(table["target"] != "first") & (~row | ((table["layer"] == 0) & (table["head"] == 1)))]
    table = table.reset_index(drop=True)
    row = table["quantity"] == "row"
    weight = distributions(table, random, ["quantity", "layer", "head"], evenness=0.5)
    table["value"] = weight.where(table["quantity"].isin(["weight", "row"]), 2e-7)
    table.loc[table["quantity"] == "control_change", "value"] = 0.07
    every = table["target"] == "all"
    table["value"] = table["value"].where(~every, 1.0)
    needed = table["key"].isin([0, 3]) | ~row
    table["low"] = (0.8 * table["value"]).where(needed, 0.0).where(~every, 1.0)
    table["high"] = (1.5 * table["value"]).where(~every, 1.0)
    table["identified"] = table["target"].map({"cls": 0.9, "sep": 0.2, "punctuation": 0.3, "other": 0.4, "all": 0.6})
    table["necessary"] = table["identified"] / 2
    table.loc[table["quantity"].str.endswith("_change"), ["low", "high"]] = np.nan
    for axis in ("query", "key"):
        table[f"{axis}_token"] = table[axis].map(dict(enumerate(TOKENS)))
    table = table.assign(count=32)
    IDENTIFIED.check(table, "identified")
    return table


def sinks(random: np.random.Generator, layers: int, heads: int) -> pd.DataFrame:
    """Make up heads that rest on [CLS], whose value is short; effective attention leaves little of that."""
    table = SINKS.fake(random, {"layer": range(layers), "head": range(heads)})
    order = pd.Series(COMPARED_SINKS).to_dict()
    places = {name: place for place, name in order.items()}
    pairs = table["measure"].map(places) < table["other"].map(places)
    table = table[(table["quantity"] != "correlation") | pairs].reset_index(drop=True)
    strongest = table["place"] == "strongest"
    received = table["attention"].map({"standard": 0.5, "effective": 0.04, "affine": 0.3})
    table["value"] = received.where(strongest, received / 20).where(table["quantity"] == "received", table["value"])
    leverage = table["quantity"].isin(["leverage", "affine_leverage"])
    table["value"] = table["value"].where(~leverage, np.where(strongest, 0.1, 0.6))
    shares = {"cls": 0.9, "sep": 0.1, "first": 0.0, "punctuation": 0.0, "other": 0.0}
    table["value"] = table["kind"].map(shares).astype(float).fillna(table["value"])
    table.loc[table["quantity"] == "excess", "value"] = -0.01
    table.loc[table["quantity"] == "sink", "value"] = 0.75
    table.loc[table["quantity"] == "interval", ["value", "low", "high"]] = 0.5, 0.45, 0.55
    agreement = table["measure"].map({"standard": 0.9, "effective": 0.6, "affine": 0.4})
    table["value"] = table["value"].where(table["other"] != "norm", agreement)
    table["low"] = table["low"].where(table["quantity"] != "correlation", table["value"] - 0.05)
    table["high"] = table["high"].where(table["quantity"] != "correlation", table["value"] + 0.05)
    SINKS.check(table, "sinks")
    return table


def alternative_attention(
    random: np.random.Generator, layers: int, heads: int, *, tokens: tuple[str, ...] = TOKENS, free: bool = True
) -> pd.DataFrame:
    """Make up another map for head 1 of layer 0, with the distances between its maps.

    ``free`` tells whether there is another map at all.
    """
    size = len(tokens)
    rows: list[dict[str, Any]] = []

    def add(quantity: str, value: float, **where: Any) -> None:
        names = {f"{axis}_token": tokens[where[axis]] for axis in ("query", "key") if axis in where}
        empty = dict.fromkeys(ALTERNATIVE_ATTENTION.names)
        rows.append({**empty, **where, **names, "quantity": quantity, "value": value, "examples": 1})

    standard = random.dirichlet([0.3] * size, size=size)
    other = random.dirichlet([0.3] * size, size=size) if free else standard
    for kind, values in (("standard", standard), ("alternative", other), ("effective", standard - 0.01)):
        for query, key in product(range(size), repeat=2):
            add("weight", float(values[query, key]), attention=kind, layer=0, head=1, query=query, key=key)
    moved = random.uniform(0.2, 0.9, (layers, heads, size)) * free
    moved[0, 1] = 0.5 * np.abs(other - standard).sum(axis=1)
    for layer, head in product(range(layers), range(heads)):
        add("freedom", (size - 5 + layer) * free, layer=layer, head=head)
        for query, (method, scale) in product(range(size), (("step", 0.4), ("program", 1.0))):
            place = {"layer": layer, "head": head, "query": query, "method": method}
            add("distance", scale * float(moved[layer, head, query]), attention="alternative", **place)
    for query, distance in enumerate(moved[0, 1]):
        add("bound", min(1.0, float(distance) + 0.05), attention="alternative", layer=0, head=1, query=query)
    _add_answers(add)
    table = pd.DataFrame(rows).astype(dict.fromkeys(("layer", "head", "query", "key"), "Int64"))
    ALTERNATIVE_ATTENTION.check(table, "alternative_attention")
    return table


def _add_answers(add: Any) -> None:
    """Add what the model answers with the other map, and with as much weight moved at random."""
    for kind, change, output in (("alternative", 3.1e-6, 2e-7), ("control", 0.41, 0.7)):
        add("output_change", output, attention=kind, layer=0, head=1)
        for scope, scale in (("head", 0.1), ("all", 1.0)):
            add("logit_change", change * scale, attention=kind, scope=scope)
    for kind, scope in product(("standard", "alternative", "control"), ("head", "all")):
        add("probability", 0.6 if (kind, scope) == ("control", "all") else 0.93, attention=kind, scope=scope)
