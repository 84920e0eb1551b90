"""Made-up tables of the analyses of attention's structure, in the shape these write."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

KINDS = ("standard", "effective")
TAGS = {
    "NOUN": 0.19, "PUNCT": 0.12, "VERB": 0.11, "PRON": 0.09, "ADP": 0.09, "DET": 0.08, "PROPN": 0.08, "ADJ": 0.07,
    "AUX": 0.06, "ADV": 0.05, "CCONJ": 0.03, "PART": 0.02, "NUM": 0.01, "INTJ": 0.002,
}  # fmt: skip
RELATIONS = {
    "punct": 3100, "case": 2100, "det": 1900, "nsubj": 1800, "advmod": 1200, "obj": 1100, "obl": 1000, "conj": 900,
    "amod": 900, "aux": 800, "cc": 750, "nmod": 700, "mark": 650, "compound": 600, "cop": 500, "advcl": 400,
    "xcomp": 300, "nummod": 250, "ccomp": 240, "acl": 230, "flat": 200, "appos": 120, "discourse": 60,
}  # fmt: skip
TEXT = [
    "[CLS]", "the", "new", "anti", "##biotics", "cost", "$5", "in", "<script>alert(1)</script>", ",", "he", "said",
    ".", "[SEP]", "a", "second", "sentence", "says", "much", "the", "same", "of", "these", "drugs", ".", "[SEP]",
]  # fmt: skip
Rows = list[dict[str, Any]]


def distance(random: np.random.Generator, layers: int, heads: int) -> Rows:
    """Make up distances: deeper layers look further; a few heads look at the neighbour."""
    shared = {"even": 13.7, "count": 90_000, "special_tokens": False, "convention": "absolute"}
    return [
        {
            "attention": kind,
            "layer": layer,
            "head": head,
            "value": random.gamma(6, (1 + 1.4 * layer / layers)) + 1,
            **shared,
        }
        for kind, layer, head in product(KINDS, range(layers), range(heads))
    ]


def entropy(random: np.random.Generator, layers: int, heads: int) -> Rows:
    rows = []
    for kind, layer, head in product(KINDS, range(layers), range(heads)):
        relative = random.beta(5, 3)
        shared = {"count": 21_000, "special_tokens": True, "convention": "absolute"}
        place = {"attention": kind, "layer": layer, "head": head}
        rows += [{**place, "statistic": "entropy", "value": 3.9 * relative, **shared}]
        rows += [{**place, "statistic": "relative", "value": relative, **shared}]
    return rows


def variability(random: np.random.Generator, layers: int, heads: int) -> Rows:
    return [
        {
            "attention": kind,
            "layer": layer,
            "head": head,
            "value": random.beta(2 + layer, 6),
            "examples": 408,
            "positions": 10,
        }
        for kind, layer, head in product(KINDS, range(layers), range(heads))
    ]


def pos_attention(random: np.random.Generator, layers: int, heads: int) -> Rows:
    rows = []
    even = np.array(list(TAGS.values()))
    for kind, direction, layer, head in product(KINDS, ("to", "from"), range(layers), range(heads)):
        values = random.dirichlet(40 * even)
        place = {"attention": kind, "layer": layer, "head": head, "direction": direction}
        for place_of_tag, (tag, value) in enumerate(zip(TAGS, values, strict=True)):
            shared = {"even": even[place_of_tag], "count": int(1e5 * even[place_of_tag]), "special_tokens": False}
            rows.append({**place, "tag": tag, "value": value, **shared, "convention": "absolute"})
    return rows


def alignment(random: np.random.Generator, layers: int, heads: int) -> Rows:
    """Make up alignment, strongest in the middle layers; baselines for every relation, direction and statistic."""
    rows: Rows = []
    asked = [("all", "either", "share")]
    asked += list(product(("all", *RELATIONS), ("to_head", "from_head"), ("share", "hits")))
    for relation, direction, statistic in asked:
        count = RELATIONS.get(relation, sum(RELATIONS.values()))
        what = {
            "relation": relation,
            "direction": direction,
            "statistic": statistic,
            "count": count,
            "convention": "absolute",
        }
        level = random.uniform(0.05, 0.3)
        for baseline, factor in (("previous", 1.0), ("next", 0.8), ("random", 0.4)):
            shared = {"layer": -1, "head": -1, "baseline": baseline, "value": level * factor}
            rows.append({"attention": "baseline", **shared, **what})
        for kind, layer, head in product(KINDS, range(layers), range(heads)):
            middle = np.exp(-(((layer - layers / 2) / layers) ** 2) * 6)
            value = min(1.0, level * (0.4 + middle * random.gamma(2, 0.6)))
            rows.append({"attention": kind, "layer": layer, "head": head, "baseline": "", "value": value, **what})
    return rows


def exemplars(random: np.random.Generator, layers: int, heads: int, *, tokens: list[str] = TEXT, top: int = 2) -> Rows:
    rows = []
    special = [token in ("[CLS]", "[SEP]") for token in tokens]
    words = [place for place, is_special in enumerate(special) if not is_special]
    for kind, layer, head in product(KINDS, range(layers), range(heads)):
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
    return rows


@cache
def _bodies(task: str, seed: int, layers: int, heads: int) -> dict[str, pd.DataFrame]:
    """Make the tables once for a size: a large one has tens of thousands of rows."""
    random = np.random.default_rng([seed, *task.encode()])
    makers = {
        "distance": distance, "entropy": entropy, "variability": variability, "pos_attention": pos_attention,
        "dependency_alignment": alignment, "exemplars": exemplars,
    }  # fmt: skip
    return {name: pd.DataFrame(make(random, layers, heads)) for name, make in makers.items()}


def structure_tables(front: dict[str, Any], seed: int, layers: int, heads: int) -> dict[str, pd.DataFrame]:
    """Return all six tables, with the columns in front."""
    return {name: signed(body, front) for name, body in _bodies(str(front["task"]), seed, layers, heads).items()}


def signed(body: pd.DataFrame, front: dict[str, Any]) -> pd.DataFrame:
    """Put the run's columns in front, as ``PlannedAnalyses`` does; those the table has itself are kept."""
    columns = pd.DataFrame({"reading": "exact", **front}, index=body.index)
    own = [name for name in columns if name in body]
    return pd.concat([columns.assign(**body[own]), body.drop(columns=own)], axis=1)
