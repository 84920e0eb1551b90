"""The report's small tables: ours, summed up, with the paper's numbers beside them where it prints any."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pandas import DataFrame

from effective_attention.reports.figures.null_space import overall, padding_share
from effective_attention.reports.figures.token_types import TYPE_TITLES, last_layer
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.papers.sun2021 import PATTERN_ORDER, TABLE_2, TABLE_3, paper_ratio
from effective_attention.reports.reductions import attentions, layer_by_head, one_line, panels


def timing(table: DataFrame) -> Grid:
    """Table 3: seconds and ratios, ours and the paper's."""
    kinds = attentions(table, ("standard", "effective", "padded"))
    rows = []
    for panel in panels(table):
        means = panel.table.groupby("attention")[["seconds", "ratio"]].mean()
        ours = [number(means["seconds"].get(kind), 1) for kind in kinds]
        ours += [number(means["ratio"].get(kind), 2) for kind in kinds[1:]]
        printed = [_clock(seconds) for seconds in TABLE_3.get(panel.task, (None, None))]
        rows.append([one_line(panel.title), *ours, *printed, number(paper_ratio(panel.task), 2)])
    columns = ["task", *kinds, *(f"{kind} ratio" for kind in kinds[1:]), "standard", "effective", "effective ratio"]
    mine = 2 * len(kinds) - 1
    groups = [("", 1), ("ours, seconds", mine), ("paper, min:s", 3)]
    return Grid("Evaluation time (the paper's Table 3).", columns, rows, groups, frozenset(range(1 + mine, 4 + mine)))


def _clock(seconds: int | None) -> str:
    return NONE if seconds is None else f"{seconds // 60}:{seconds % 60:02d}"


def patterns(table: DataFrame) -> Grid:
    """Table 2: percent of maps, ours and the paper's side by side for each pattern."""
    rows = []
    for panel in panels(table[table["layer"].isna()]):
        for attention in attentions(panel.table):
            means = panel.table[panel.table["attention"] == attention].groupby("pattern")["value"].mean()
            printed = TABLE_2.get((panel.task, attention), (None,) * len(PATTERN_ORDER))
            row = [one_line(panel.title), attention]
            for pattern, theirs in zip(PATTERN_ORDER, printed, strict=True):
                row += [number(100 * means.get(pattern, 0.0), 1), number(theirs, 1)]
            rows.append(row)
    groups = [("", 2), *((pattern, 2) for pattern in PATTERN_ORDER)]
    columns = ["task", "attention", *["ours", "paper"] * len(PATTERN_ORDER)]
    paper = frozenset(range(3, 3 + 2 * len(PATTERN_ORDER), 2))
    return Grid("Attention patterns, percent of maps (the paper's Table 2).", columns, rows, groups, paper, labels=2)


def confusion(facts: Mapping[str, Any]) -> Grid:
    """How the pattern classifier does on the maps held out from its training."""
    classes = [str(name) for name in facts["patterns"]]
    rows = [[name, *(str(count) for count in line)] for name, line in zip(classes, facts["confusion"], strict=True)]
    caption = "The pattern classifier on held-out maps: rows are the annotation, columns the classifier."
    return Grid(caption, ["annotated as", *classes], rows)


def token_types(table: DataFrame) -> Grid:
    """The largest weight of each type, averaged over heads."""
    shown = last_layer(table[table["statistic"] == "largest"])
    columns, kinds = panels(shown), attentions(shown)
    rows = []
    for name, title in TYPE_TITLES.items():
        cells = [_mean(panel.table, attention=kind, token_type=name) for panel in columns for kind in kinds]
        rows.append([title, *(number(cell) for cell in cells)])
    groups = [("", 1), *((one_line(panel.title), len(kinds)) for panel in columns)]
    return Grid(
        "Largest weight [CLS] gives to a type, mean over heads.", ["token type", *kinds * len(columns)], rows, groups
    )


def delimiters(table: DataFrame) -> Grid:
    """Mean over all layers and heads."""
    kinds = attentions(table)
    rows = [
        [
            one_line(panel.title),
            *(number(_mean(panel.table, attention=kind, delimiter=name)) for name in ("cls", "sep") for kind in kinds),
        ]
        for panel in panels(table)
    ]
    groups = [("", 1), ("to [CLS]", len(kinds)), ("to [SEP]", len(kinds))]
    return Grid("Attention to the delimiters, mean over layers and heads.", ["task", *kinds * 2], rows, groups)


def finetuning_shift(table: DataFrame) -> Grid:
    """Mean cosine of each layer, and the two layers that changed most."""
    rows, layers = [], sorted(int(layer) for layer in table["layer"].dropna().unique())
    for panel in panels(table):
        for attention in attentions(panel.table):
            means = layer_by_head(panel.table[panel.table["attention"] == attention]).mean(axis=1)
            most = " and ".join(str(layer) for layer in sorted(means.nsmallest(2).index))
            rows.append([one_line(panel.title), attention, *(number(means.get(layer)) for layer in layers), most])
    columns = ["task", "attention", *(f"layer {layer}" for layer in layers), "changed most"]
    return Grid("Cosine to the pretrained start, mean over heads.", columns, rows, labels=2)


def null_space(table: DataFrame) -> Grid:
    """What the null space holds, and how much of it is padding's."""
    rows = []
    for panel in panels(table):
        exact = [
            overall(panel.table, "exact", name) for name in ("rank", "nullity", "nontrivial", "null_mass", "pearson")
        ]
        compared = [overall(panel.table, reading, "null_mass") for reading in ("exact_subset", "padded")]
        compared += [padding_share(panel.table), overall(panel.table, "padded", "output_change")]
        rank, nullity, *rest = exact
        rows.append(
            [
                one_line(panel.title),
                number(rank, 1),
                number(nullity, 1),
                *(number(value) for value in [*rest, *compared]),
            ]
        )
    columns = ["task", "rank", "nullity", "examples with a null space", "null mass", "Pearson(A, A⊥)"]
    columns += ["null mass, exact", "null mass, padded", "due to padding", "output changed by"]
    groups = [("", 1), ("exact, all examples", 5), ("same examples, exact and padded", 4)]
    return Grid("The null space, mean over layers and heads.", columns, rows, groups)


def head_ablation(table: DataFrame) -> Grid:
    """The heads that matter most and least."""
    rows = []
    for panel in panels(table):
        metric = str(panel.table["metric"].iloc[0])
        heads = panel.table[(panel.table["metric"] == metric) & panel.table["head"].notna()]
        changes = heads.groupby(["layer", "head"])["change"].mean()
        score = float((heads["value"] - heads["change"]).mean())
        extremes = [
            f"{number(changes[place])} (layer {place[0]}, head {place[1]})"
            for place in (changes.idxmin(), changes.idxmax())
        ]
        rows.append(
            [one_line(panel.title), metric, number(score), *extremes, f"{int((changes >= 0).sum())} of {len(changes)}"]
        )
    columns = ["task", "metric", "untouched score", "largest loss", "largest gain", "heads whose loss costs nothing"]
    return Grid("One head made even at a time.", columns, rows, labels=2)


def _mean(table: DataFrame, **where: str) -> float:
    for name, value in where.items():
        table = table[table[name] == value]
    mean = float(table["value"].mean())
    return mean if math.isfinite(mean) else math.nan
