"""The report's small tables on explanations: the league of methods, correlations beside the paper's, and masked pronouns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pandas import DataFrame

from effective_attention.reports.figures.faithfulness import (
    CORRELATIONS,
    LAYERED,
    LEAGUE,
    METHOD_TITLES,
    league,
    ranking,
)
from effective_attention.reports.figures.pronouns import METHODS, referent_shares
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.papers.abnar2020 import abnar_line
from effective_attention.reports.reductions import attentions, one_line, panels, shortened

_COLUMNS = {
    "spearman_blank_out": "Spearman with blank-out",
    "spearman_gradients": "Spearman with gradients",
    "comprehensiveness": "comprehensiveness",
    "sufficiency": "sufficiency",
    "subject_first": "subject first",
    "milliseconds": "ms per example",
}


def league_table(table: DataFrame) -> Grid:
    """Every method in the last layer: mean and 95 % interval of each measure, most comprehensive first."""
    measures = [name for name in _COLUMNS if name in set(table["measure"])]
    rows = []
    for panel in panels(table):
        found = league(panel.table).set_index(["method", "attention", "measure"])
        places = dict.fromkeys((method, kind) for method, kind, _ in found.index)
        for method in ranking(found.reset_index()):
            for kind in (kind for name, kind in places if name == method):
                cells = [_interval(found, (method, kind, measure)) for measure in measures]
                label = NONE if kind == "without" else kind
                rows.append([one_line(panel.title), METHOD_TITLES.get(method, method), label, *cells])
    columns = ["task", "method", "attention", *(_COLUMNS[name] for name in measures)]
    return Grid("All methods, last layer: mean and 95 % interval over examples.", columns, rows, labels=3)


def _interval(found: DataFrame, place: tuple[str, str, str]) -> str:
    """Such as ``0.71 [0.66, 0.75]``; a dash where it was not measured."""
    if place not in found.index:
        return NONE
    value, low, high = found.loc[place, ["value", "low", "high"]].astype(float)
    digits = 2 if place[-1] in LEAGUE[:2] or place[-1] == "subject_first" else 3
    interval = f" [{low:.{digits}f}, {high:.{digits}f}]" if np.isfinite([low, high]).all() else ""
    return f"{value:.{digits}f}{interval}"


def correlations(table: DataFrame) -> Grid:
    """Tables 1 to 3: Spearman's correlation by layer, mean ± std, and the paper's rows below ours."""
    shown = table[table["measure"].isin(CORRELATIONS) & table["method"].isin(LAYERED)]
    layers = sorted(int(layer) for layer in shown["layer"].dropna().unique())
    rows = []
    for panel in panels(shown):
        for measure in CORRELATIONS:
            for method in LAYERED:
                mine = panel.table[(panel.table["measure"] == measure) & (panel.table["method"] == method)]
                front = [one_line(panel.title), _COLUMNS[measure], METHOD_TITLES[method]]
                rows += [[*front, *cells] for cells in _lines(mine, layers, panel.task, measure, method)]
    columns = ["task", "measure", "method", "attention", *(f"layer {layer}" for layer in layers)]
    return Grid("Correlation by layer, mean ± std over examples; the paper's Tables 1 to 3.", columns, rows, labels=4)


def _lines(rows: DataFrame, layers: list[int], task: str, measure: str, method: str) -> Iterator[list[str]]:
    """Standard, effective, then the paper, which counts layers from 1."""
    for kind in attentions(rows):
        means = rows[rows["attention"] == kind].groupby("layer")[["value", "std"]].mean()
        yield [kind, *(_plus_minus(*means.loc[layer]) if layer in means.index else NONE for layer in layers)]
    printed = abnar_line(task, measure, method)
    if printed is not None and len(rows):
        yield [
            "standard, paper",
            *(_plus_minus(*printed[layer + 1]) if layer + 1 in printed else NONE for layer in layers),
        ]


def _plus_minus(mean: float, spread: float) -> str:
    return f"{mean:.2f} ± {spread:.2f}"


def candidates(table: DataFrame) -> Grid:
    """What the masked language model expects in the gap."""
    rows = []
    for (model, text), mine in table[table["quantity"] != "attention"].groupby(["model", "text"], sort=False):
        values = mine.groupby(["name", "quantity"], sort=False)["value"].mean()
        for name in mine["name"].unique():
            chances = [number(values[name, quantity], 4) for quantity in ("probability", "relative_probability")]
            rows.append([str(model), shortened(text, 80), str(name), *chances])
    columns = ["model", "text", "candidate", "probability", "relative"]
    return Grid("What [MASK] may be.", columns, rows, labels=3)


def referents(table: DataFrame) -> Grid:
    """What [MASK] gives to each referent in the last layer, and its share of what all referents get."""
    rows = []
    for (model, _), mine in table.groupby(["model", "text"], sort=False):
        shares = referent_shares(mine)
        last = shares[shares["layer"] == shares["layer"].max()].set_index(["attention", "method", "name"])
        for kind in attentions(mine):
            for name in shares["name"].unique():
                cells = [
                    number(last.loc[(kind, method, name), column])
                    for method in METHODS
                    for column in ("value", "share")
                ]
                rows.append([str(model), kind, str(name), *cells])
    columns = ["model", "attention", "referent", *["attention", "share"] * len(METHODS)]
    groups = [("", 3), *((method, 2) for method in METHODS)]
    return Grid("What [MASK] looks at, last layer.", columns, rows, groups, labels=3)
