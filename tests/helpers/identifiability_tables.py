"""Made-up tables of token identity and token mixing, in the shape these analyses write."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

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
