"""Small tables of ``faithfulness``: the league of all methods, and correlations by layer beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pandas import DataFrame

from effective_attention.analyses.faithfulness import COST
from effective_attention.reports.chapters.faithfulness.reductions import (
    CHECKS,
    CORRELATIONS,
    LAYERED,
    LEAGUE,
    TITLES,
    TRUTH,
    WITHOUT,
    league,
    method_title,
    preset_of,
    ranking,
)
from effective_attention.reports.grid import NONE, Grid
from effective_attention.reports.papers.abnar2020 import abnar_line
from effective_attention.reports.reductions import Panel, attentions, one_line, panels

_DIGITS = dict.fromkeys((*CORRELATIONS, *TRUTH, *CHECKS), 2)
"""How many decimals a measure is printed with; three if it is not named here."""


def league_table(table: DataFrame) -> Grid:
    """Return every method in the last layer: mean and 95 % interval of each measure, most comprehensive first."""
    return _league(
        table, (*LEAGUE[:-1], *TRUTH, COST), "All methods, last layer: mean and 95 % interval over examples."
    )


def checks_table(table: DataFrame) -> Grid:
    """Return the checks of every method in the last layer."""
    caption = (
        "Checks, last layer: mean and 95 % interval over examples. Where nothing is lost without any word a text is "
        "left out of normalised measures."
    )
    return _league(table, CHECKS, caption)


def _league(table: DataFrame, wanted: Sequence[str], caption: str) -> Grid:
    measures = [name for name in wanted if name in set(table["measure"])]
    rows = []
    for panel in panels(table) if measures else ():
        found = league(panel.table).set_index(["method", "attention", "measure"])
        places = dict.fromkeys((method, kind) for method, kind, _ in found.index)
        for method in ranking(found.reset_index()):
            for kind in (kind for name, kind in places if name == method):
                cells = [interval(found, (method, kind, measure)) for measure in measures]
                label = NONE if kind == WITHOUT else kind
                rows.append([one_line(panel.title), method_title(method), label, *cells])
    columns = ["task", "method", "attention", *(TITLES[name] for name in measures)]
    return Grid(caption, columns, rows, labels=3)


def interval(found: DataFrame, place: tuple[str, str, str]) -> str:
    """Return a cell such as ``0.71 [0.66, 0.75]``; a dash where nothing was measured."""
    if place not in found.index:
        return NONE
    value, low, high = found.loc[place, ["value", "low", "high"]].astype(float)
    digits = _DIGITS.get(place[-1], 3)
    interval = f" [{low:.{digits}f}, {high:.{digits}f}]" if np.isfinite([low, high]).all() else ""
    return f"{value:.{digits}f}{interval}"


def correlations(table: DataFrame) -> Grid:
    """Return Spearman's correlation by layer, mean ± std, with the rows of the paper's tables below ours.

    Its Tables 1 and 2 stand beside our protocol, Table 3 beside its own (``papers.abnar2020``).
    """
    shown = table[table["measure"].isin(CORRELATIONS) & table["method"].isin(LAYERED)]
    layers = sorted(int(layer) for layer in shown["layer"].dropna().unique())
    rows = []
    for panel in panels(shown):
        for measure in CORRELATIONS:
            for method in LAYERED:
                mine = panel.table[(panel.table["measure"] == measure) & (panel.table["method"] == method)]
                front = [one_line(panel.title), TITLES[measure], method_title(method)]
                rows += [[*front, *cells] for cells in _lines(mine, layers, panel, measure, method)]
    columns = ["task", "measure", "method", "attention", *(f"layer {layer}" for layer in layers)]
    return Grid("Correlation by layer, mean ± std over examples; the paper's tables.", columns, rows, labels=4)


def _lines(rows: DataFrame, layers: list[int], panel: Panel, measure: str, method: str) -> Iterator[list[str]]:
    """Yield the cells of standard and effective attention, then those of the paper, which counts layers from 1."""
    for kind in attentions(rows):
        means = rows[rows["attention"] == kind].groupby("layer")[["value", "std"]].mean()
        yield [kind, *(_plus_minus(*means.loc[layer]) if layer in means.index else NONE for layer in layers)]
    printed = abnar_line(panel.task, measure, method, preset_of(panel.table))
    if printed is not None and len(rows):
        cells = [_plus_minus(*printed[layer + 1]) if layer + 1 in printed else NONE for layer in layers]
        yield ["standard, paper", *cells]


def _plus_minus(mean: float, spread: float) -> str:
    return f"{mean:.2f} ± {spread:.2f}"
