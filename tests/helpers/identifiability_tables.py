"""Made-up tables of the analyses of identifiability, in the shape these write, and what their figures' tests share."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

TOKENS = ("[CLS]", "new", "anti", "##biotics", "cost", "$5", "[SEP]", "<script>alert(1)</script>", "[SEP]")
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
    """The head 1 of layer 0 is shown; ``free``: whether there is another map with the same output at all."""
    size, empty = len(tokens), dict.fromkeys(("attention", "layer", "head", "query", "key", "query_token", "key_token"))
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
    """What the model says of the other map, and of as much weight moved at random."""
    for kind, change, output in (("alternative", 3.1e-6, 2e-7), ("control", 0.41, 0.7)):
        add("output_change", output, attention=kind, layer=0, head=1)
        for scope, scale in (("head", 0.1), ("all", 1.0)):
            add("logit_change", change * scale, attention=kind, scope=scope)
    for kind, scope in product(("standard", "alternative", "control"), ("head", "all")):
        add("probability", 0.6 if (kind, scope) == ("control", "all") else 0.93, attention=kind, scope=scope)


WHOLE = ("layer", "head", "length", "query", "key", "tested_layer", "offset", "fold", "tokens", "epochs")
FRONT = {"task": "mrpc", "model": "m", "data": "local", "split": "validation", "checkpoint": "", "examples": 408}


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    table = pd.DataFrame([{**FRONT, **row} for row in rows])
    return table.astype({name: "Int64" for name in WHOLE if name in table})
