"""Made-up tables of the analyses of identifiability, in the shape these write, and what their figures' tests share."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from helpers.figures import Make

TOKENS = ("[CLS]", "new", "anti", "##biotics", "cost", "$5", "[SEP]", "<script>alert(1)</script>", "[SEP]")
TAGS = (
    "NOUN",
    "PROPN",
    "VERB",
    "ADJ",
    "ADV",
    "AUX",
    "PRON",
    "DET",
    "ADP",
    "CCONJ",
    "SCONJ",
    "PART",
    "NUM",
    "PUNCT",
    "SYM",
)
GROUPS = ("1", "2", "3", "4-5", "6-10", "11+")
STATISTICS = ("whisker_low", "quartile_1", "median", "quartile_3", "whisker_high")
Rows = list[dict[str, Any]]


def type_profile(random: np.random.Generator, layers: int, heads: int) -> Rows:
    shares = {"cls": 0.02, "sep": 0.04, "punctuation": 0.08, "other": 0.86}
    rows = []
    for kind, layer, head, source in product(
        ("standard", "effective"), range(layers), range(heads), ("all", "cls", "sep", "punctuation", "other")
    ):
        given = random.dirichlet([1, 2, 1, 4]) * (1.0 if kind == "standard" else 0.7)
        place = {"attention": kind, "layer": layer, "head": head, "source": source, "count": 408}
        rows += [
            {**place, "target": name, "value": value, "share": shares[name]}
            for name, value in zip(shares, given, strict=True)
        ]
    return rows


def alternative(
    random: np.random.Generator, layers: int, heads: int, *, tokens: tuple[str, ...] = TOKENS, free: bool = True
) -> Rows:
    """Make up the rows of ``alternative_attention``, showing head 1 of layer 0.

    ``free`` tells whether there is another map with the same output at all.
    """
    size = len(tokens)
    empty = dict.fromkeys(("attention", "layer", "head", "query", "key", "query_token", "key_token"))
    rows: Rows = []

    def add(quantity: str, value: float, **where: Any) -> None:
        rows.append({**empty, "method": None, "scope": None, **where, "quantity": quantity, "value": value})

    standard = random.dirichlet([0.3] * size, size=size)
    other = random.dirichlet([0.3] * size, size=size) if free else standard
    for kind, values in (("standard", standard), ("alternative", other), ("effective", standard - 0.01)):
        for i, j in product(range(size), repeat=2):
            names = {"query_token": tokens[i], "key_token": tokens[j]}
            add("weight", float(values[i, j]), attention=kind, layer=0, head=1, query=i, key=j, **names)
    moved = random.uniform(0.2, 0.9, (layers, heads, size)) * free
    moved[0, 1] = 0.5 * np.abs(other - standard).sum(axis=1)
    for layer, head in product(range(layers), range(heads)):
        add("freedom", (size - 5 + layer) * free, layer=layer, head=head)
        for query, (method, scale) in product(range(size), (("step", 0.4), ("program", 1.0))):
            where = {"layer": layer, "head": head, "query": query, "query_token": tokens[query], "method": method}
            add("distance", scale * float(moved[layer, head, query]), attention="alternative", **where)
    for query, distance in enumerate(moved[0, 1]):
        where = {"layer": 0, "head": 1, "query": query, "query_token": tokens[query]}
        add("bound", min(1.0, float(distance) + 0.05), attention="alternative", **where)
    _answers(add)
    return rows


def _answers(add: Any) -> None:
    """Add what the model answers with the other map, and with as much weight moved at random."""
    for kind, change, output in (("alternative", 3.1e-6, 2e-7), ("control", 0.41, 0.7)):
        add("output_change", output, attention=kind, layer=0, head=1)
        for scope, scale in (("head", 0.1), ("all", 1.0)):
            add("logit_change", change * scale, attention=kind, scope=scope)
    for kind, scope in product(("standard", "alternative", "control"), ("head", "all")):
        add("probability", 0.6 if (kind, scope) == ("control", "all") else 0.93, attention=kind, scope=scope)


def identity(random: np.random.Generator, layers: int, *, folds: int = 3) -> Rows:
    solvers = {"naive": ("none",), "linear": ("adam", "ridge"), "mlp": ("adam",)}
    fall = {"naive": 0.6, "linear": 0.07, "mlp": 0.1}
    rows: Rows = []

    def add(experiment: str, layer: int, rate: float, **more: Any) -> None:
        place = {
            "experiment": experiment,
            "layer": layer,
            "tested_layer": layer,
            "offset": 0,
            "fold": 0,
            "part": "test",
        }
        rest = {"value": float(np.clip(rate, 0, 1)), "baseline": 0.019, "tokens": 3250, "epochs": 80, "seconds": 2.5}
        rows.append({**place, **rest, **more})

    for name, distance in product(solvers, ("cosine", "l2")):
        for layer, fold in product(range(layers), range(folds)):
            rate = 1 - fall[name] * (1.6 if distance == "l2" else 1) * (layer + 1) / layers + random.normal(0, 0.01)
            for solver, part in product(solvers[name], ("train", "test")):
                value = rate + 0.04 * (part == "train") - 0.01 * (solver == "ridge")
                add("input", layer, value, map=name, distance=distance, solver=solver, fold=fold, part=part)
        first = {"map": name, "distance": distance, "solver": solvers[name][0]}
        for layer, tested in product(range(layers), range(layers)):
            gap = tested - layer
            dip = random.uniform(0.9, 1.1)
            add("transfer", layer, 0.95 - (0.05 if gap > 0 else 0.01) * abs(gap) * dip, tested_layer=tested, **first)
        for layer in range(layers):
            add("previous", layer, 1 - 0.3 * fall[name] * (layer + 1) / layers + random.normal(0, 0.005), **first)
            for offset in (-3, -2, -1, 1, 2, 3):
                add("neighbours", layer, 0.9 / abs(offset) - 0.02 * layer - 0.05 * (offset > 0), offset=offset, **first)
    return rows


def mixing(random: np.random.Generator, layers: int, *, tokens: tuple[str, ...] = TOKENS, tags: bool = True) -> Rows:
    names = ("statistic", "tag", "group", "offset", "centre", "query", "key", "token", "count")
    rows: Rows = []

    def add(quantity: str, layer: int, value: float, **where: Any) -> None:
        rows.append({**dict.fromkeys(names), "quantity": quantity, "layer": layer, **where, "value": value})

    for layer in range(layers):
        level = 0.31 * 0.9**layer
        for place, tag in enumerate(("", *TAGS, "[CLS]", "[SEP]") if tags else ("",)):
            middle = level * (1 if tag == "" else random.uniform(0.7, 1.3))
            for statistic, factor in zip(STATISTICS, (0.4, 0.8, 1.0, 1.2, 1.7), strict=True):
                add("own", layer, middle * factor, statistic=statistic, tag=tag, count=2000 - 100 * place)
            add("own", layer, middle * 1.02, statistic="mean", tag=tag, count=2000 - 100 * place)
        add("not_largest", layer, max(0.0, 0.06 * (layer - 2)), count=2000)
        add("error", layer, 0.021, statistic="standard_error", count=2000)
        for place, group in enumerate(GROUPS):
            add("neighbour", layer, level / (place + 1), statistic="mean", group=group, count=2000)
            weights = 1 + (place - 2) * np.arange(layers) * 0.03
            add(
                "neighbour", layer, float(weights[layer] / weights.sum()), statistic="relative", group=group, count=2000
            )
        spread = np.array([1 / (1 + abs(offset)) ** (1.6 - 0.08 * layer) for offset in range(-30, 31)])
        for offset, value in zip(range(-30, 31), spread / spread.sum(), strict=True):
            add("offset", layer, 0.5 * value, statistic="mean", offset=offset, count=1500)
            add("offset", layer, value, statistic="total", offset=offset, count=1500)
        _cls(add, layer)
        for key, value in enumerate(random.dirichlet([8 if key == 1 else 0.5 for key in range(len(tokens))])):
            add("word", layer, value, query=1, key=key, token=tokens[key])
    return rows


def _cls(add: Any, layer: int) -> None:
    for centre, offsets, peak in (("cls", range(0, 70), 30), ("sep", range(-35, 36), 1)):
        values = np.array([np.exp(-(((offset - peak) / (10 + layer)) ** 2)) + 0.1 for offset in offsets])
        for offset, value in zip(offsets, values / values.sum(), strict=True):
            add("cls", layer, value, statistic="total", centre=centre, offset=offset, count=90)


WHOLE = ("layer", "head", "length", "query", "key", "tested_layer", "offset", "fold", "tokens", "epochs")
FRONT = {"task": "mrpc", "model": "m", "data": "local", "split": "validation", "checkpoint": "", "examples": 408}


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    table = pd.DataFrame([{**FRONT, **row} for row in rows])
    return table.astype({name: "Int64" for name in WHOLE if name in table})


def both_weights(make: Make, analysis: str, **options: Any) -> pd.DataFrame:
    """Make a table of both pretrained and finetuned weights, as a sweep over checkpoints leaves it."""
    return pd.concat(
        [make(checkpoint=name, seed=len(name), **options)[analysis] for name in ("", "runs/x")], ignore_index=True
    )


def line_of(axes: Any, label: str) -> Any:
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return line


def named(size: int) -> tuple[str, ...]:
    return tuple(f"a-rather-long-token{place}" for place in range(size))
