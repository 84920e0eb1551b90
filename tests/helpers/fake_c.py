"""Made-up tables in which rows hang together.

Those of token identity and mixing, parts of speech, dependencies, exemplars and explanations.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from effective_attention.analyses.common.schema import Block, Schema
from effective_attention.analyses.token_mixing.analysis import SCHEMA as MIXING
from helpers.fakes import with_facts
from helpers.schema_tables import axes_of, random_for, schema_of

EVEN = {
    "NOUN": 0.19, "PUNCT": 0.12, "VERB": 0.11, "PRON": 0.09, "ADP": 0.09, "DET": 0.08, "PROPN": 0.08, "ADJ": 0.07,
    "AUX": 0.06, "ADV": 0.05, "CCONJ": 0.03, "PART": 0.02, "NUM": 0.01, "INTJ": 0.002,
}  # fmt: skip
RELATIONS = {
    "punct": 3100, "case": 2100, "det": 1900, "nsubj": 1800, "advmod": 1200, "obj": 1100, "obl": 1000, "conj": 900,
    "amod": 900, "aux": 800, "cc": 750, "nmod": 700, "mark": 650, "compound": 600, "cop": 500, "advcl": 400,
    "xcomp": 300, "nummod": 250, "ccomp": 240, "acl": 230, "flat": 200, "appos": 120, "discourse": 60,
}  # fmt: skip
RULES = ["previous", "next", "random", "fixed"]
TEXT = (
    "[CLS]", "the", "new", "anti", "##biotics", "cost", "$5", "in", "<script>alert(1)</script>", ",", "he", "said", ".",
    "[SEP]", "a", "second", "sentence", "says", "much", "the", "same", "of", "these", "drugs", ".", "[SEP]",
)  # fmt: skip
TOKENS = ("[CLS]", "new", "anti", "##biotics", "cost", "$5", "[SEP]", "<script>alert(1)</script>", "[SEP]")
SOLVERS = {"naive": ["none"], "linear": ["adam", "ridge"], "mlp": ["adam"]}
Rows = list[dict[str, Any]]


def fake_tables_c(front: dict[str, Any], task: str, *, seed: int, layers: int, heads: int) -> dict[str, pd.DataFrame]:
    """Return all six tables, with the columns in front."""
    return {name: with_facts(body, front) for name, body in _bodies(task, seed, layers, heads).items()}


@cache
def _bodies(task: str, seed: int, layers: int, heads: int) -> dict[str, pd.DataFrame]:
    """Make the tables once for a size: a large one has tens of thousands of rows."""
    axes = axes_of(layers, heads)
    makers = {
        "token_identity": token_identity,
        "token_mixing": token_mixing,
        "pos_attention": pos_attention,
        "dependency_alignment": dependency_alignment,
        "exemplars": exemplars,
        "explain": explained,
    }
    found = {name: make(random_for(name, task, seed), axes) for name, make in makers.items()}
    for name, body in found.items():
        schema_of(name).check(body, name)
    return found


def explained(random: np.random.Generator, axes: dict[str, Any], words: tuple[str, ...] = TEXT[1:13]) -> pd.DataFrame:
    """Make up a prediction and its words, some of which speak against it; both checks beat all random rankings."""
    table = schema_of("explain").fake(random, {"position": list(range(len(words)))})
    same = {"attention": None, "layer": None, "method": "integrated_gradients", "gold": "yes", "special": False}
    same |= {"predicted": "yes", "target": "yes", "probability": 0.875, "target_probability": 0.875, "segment": 0}
    same |= {"comprehensiveness": 0.5, "comprehensiveness_random": 0.1, "comprehensiveness_beaten": 20}
    same |= {"sufficiency": 0.01, "sufficiency_random": 0.3, "sufficiency_beaten": 20, "rankings": 20}
    before = ["", *[" "] * (len(words) - 1)]
    return table.assign(**same, word=words, before=before, score=random.normal(size=len(words)))


def pos_attention(random: np.random.Generator, axes: dict[str, Any]) -> pd.DataFrame:
    """Make up weights of up to twice what even attention gives, which is the same for all heads."""
    table = schema_of("pos_attention").fake(random, {**axes, "tag": list(EVEN)})
    even = table["tag"].map(EVEN)
    return table.assign(even=even, value=2 * even * table["value"])


def dependency_alignment(random: np.random.Generator, axes: dict[str, Any]) -> pd.DataFrame:
    """Make up alignment: fixed rules reach the same beside all heads, and a relation is as frequent in all rows."""
    table = schema_of("dependency_alignment").fake(random, {**axes, "relation": ["all", *RELATIONS]})
    rules = 0.4 * table.groupby(["relation", "direction", "statistic", "sentences"])[RULES].transform("first")
    count = table["relation"].map({"all": sum(RELATIONS.values()), **RELATIONS}).astype("Int64")
    count = count.where(table["sentences"] == "all", count // 2)
    return table.assign(count=count, offset=-2, **rules)


def exemplars(
    random: np.random.Generator, axes: dict[str, Any], *, tokens: tuple[str, ...] = TEXT, top: int = 2
) -> pd.DataFrame:
    """Make up exemplars: each is the same text, its key has the score, and the other tokens share the rest."""
    rows: Rows = []
    special = [token in ("[CLS]", "[SEP]") for token in tokens]
    words = [place for place, is_special in enumerate(special) if not is_special]
    for kind, layer, head in product(("standard", "effective"), axes["layer"], axes["head"]):
        scores = sorted(random.uniform(0.3, 1.0, top), reverse=True)
        for rank, score in enumerate(scores):
            query, key = (int(place) for place in random.choice(words, 2, replace=False))
            values = random.dirichlet([0.2] * len(tokens)) * (1 - score)
            values[key] = score
            values[words[0]] *= -1 if kind == "effective" and words[0] != key else 1
            place = {"attention": kind, "layer": layer, "head": head, "rank": rank, "example": 7 + rank, "query": query}
            place |= {"key": key, "query_token": tokens[query], "key_token": tokens[key], "score": float(score)}
            rows += [
                {**place, "position": spot, "token": token, "value": float(values[spot]), "special": special[spot]}
                for spot, token in enumerate(tokens)
            ]
    return pd.DataFrame(rows).assign(first_token=True)


def token_identity(random: np.random.Generator, axes: dict[str, Any]) -> pd.DataFrame:
    """Make up three folds of ``input`` and one of the rest; a map is tested on its own layer, but for ``transfer``."""
    schema = schema_of("token_identity")
    keys = schema.blocks[0].keys
    parts = []
    for name, solvers in SOLVERS.items():
        shared = {**axes, "map": [name], "solver": solvers[:1], "tested_layer": [0], "offset": [0], "fold": [0]}
        shared |= {"part": ["test"], "share": [1.0]}
        for experiment, more in {
            "input": {"solver": solvers, "fold": [0, 1, 2], "part": ["train", "test"]},
            "transfer": {"tested_layer": axes["layer"]},
            "previous": {},
            "neighbours": {"offset": [-3, -2, -1, 1, 2, 3]},
            "size": {"share": [0.5, 1.0], "part": ["train", "test"], "layer": axes["layer"][-1:]},
        }.items():
            one = Schema(schema.columns, (Block({"experiment": experiment}, keys),))
            parts.append(one.fake(random, {**shared, **more}))
    table = pd.concat(parts, ignore_index=True).assign(baseline=0.019, examples=408)
    table["tested_layer"] = table["tested_layer"].where(table["experiment"] == "transfer", table["layer"])
    return table


GROUPS = ("1", "2", "3", "4-5", "6-10", "11+")
TAGS = (*EVEN, "SCONJ", "SYM", "[CLS]", "[SEP]")
BOX = {"whisker_low": 0.4, "quartile_1": 0.8, "median": 1.0, "quartile_3": 1.2, "whisker_high": 1.7, "mean": 1.02}


def token_mixing(
    random: np.random.Generator, axes: dict[str, Any], *, tokens: tuple[str, ...] = TOKENS, tags: bool = True
) -> pd.DataFrame:
    """Make up contributions: boxes have their numbers in order, and what belongs together sums to 1."""
    rows: Rows = []
    layers = len(axes["layer"])
    for layer in axes["layer"]:
        level = 0.31 * 0.9**layer
        rows += [{"layer": layer, **row} for row in _own(random, level, tags=tags)]
        rows += [
            {"quantity": "not_largest", "layer": layer, "statistic": "share", "value": max(0.0, 0.06 * (layer - 2))},
            {"quantity": "error", "layer": layer, "statistic": "standard_error", "value": 0.021},
        ]
        rows += [{"quantity": "neighbour", "layer": layer, **row} for row in _neighbours(level, layer, layers)]
        rows += [{"layer": layer, **row} for row in _positions(layer)]
        shares = random.dirichlet([8 if key == 1 else 0.5 for key in range(len(tokens))])
        rows += [
            {"quantity": "word", "layer": layer, "query": 1, "key": key, "token": tokens[key], "value": value}
            for key, value in enumerate(shares)
        ]
    table = (
        pd.DataFrame(rows)
        .reindex(columns=MIXING.names)
        .assign(examples=408, embeddings="normalised", tagset="universal")
    )
    table["count"] = np.where(table["quantity"] == "word", np.nan, 2000)
    return table.astype(dict.fromkeys(("layer", "offset", "query", "key", "count"), "Int64"))


def _own(random: np.random.Generator, level: float, *, tags: bool) -> Rows:
    rows = []
    for tag in ("", *TAGS) if tags else ("",):
        middle = level * (1 if tag == "" else random.uniform(0.7, 1.3))
        rows += [
            {"quantity": "own", "tag": tag, "statistic": statistic, "value": middle * factor}
            for statistic, factor in BOX.items()
        ]
    return rows


def _neighbours(level: float, layer: int, layers: int) -> Rows:
    rows = []
    for place, group in enumerate(GROUPS):
        weights = 1 + (place - 2) * np.arange(layers) * 0.03
        relative = float(weights[layer] / weights.sum())
        rows.append({"statistic": "mean", "group": group, "value": level / (place + 1)})
        rows.append({"statistic": "relative", "group": group, "value": relative})
    return rows


def _positions(layer: int) -> Rows:
    """Make up where contributions come from: to any token, and to [CLS]."""
    rows = []
    spread = np.array([1 / (1 + abs(offset)) ** (1.6 - 0.08 * layer) for offset in range(-30, 31)])
    for offset, value in zip(range(-30, 31), spread / spread.sum(), strict=True):
        rows.append({"quantity": "offset", "statistic": "mean", "offset": offset, "value": 0.5 * value})
        rows.append({"quantity": "offset", "statistic": "total", "offset": offset, "value": value})
    for centre, offsets, peak in (("cls", range(0, 70), 30), ("sep", range(-35, 36), 1)):
        values = np.array([np.exp(-(((offset - peak) / (10 + layer)) ** 2)) + 0.1 for offset in offsets])
        rows += [
            {"quantity": "cls", "statistic": "total", "centre": centre, "offset": offset, "value": value}
            for offset, value in zip(offsets, values / values.sum(), strict=True)
        ]
    return rows
