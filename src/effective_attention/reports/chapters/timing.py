"""Evaluation time: what the report says and shows of ``timing``."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.style import COLOURS, grid, styled, tidy_axes, width_for
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.papers.sun2021 import TABLE_3, paper_ratio
from effective_attention.reports.reductions import Panel, attentions, one_line, panels


@styled
def draw_timing(table: DataFrame) -> Figure:
    """Draw one group of bars for each task; the dashed line is standard attention."""
    columns = panels(table)
    series = _series(table, columns)
    figure, axes = grid(1, 1, width=width_for(len(columns), narrow=5), height=2.1)
    axis = axes[0, 0]
    width = 0.84 / max(len(series), 1)
    for place, (name, heights, colour) in enumerate(series):
        where = np.arange(len(columns)) + (place - (len(series) - 1) / 2) * width
        bars = axis.bar(where, heights, width * 0.94, color=colour, label=name)
        labels = [f"{height:.1f}" if np.isfinite(height) else "" for height in heights]
        axis.bar_label(bars, labels, fontsize=5, padding=1)
    axis.axhline(1, color=COLOURS["standard"], linewidth=0.9, linestyle=(0, (3, 2)), label="standard")
    axis.set_xticks(range(len(columns)), [panel.title for panel in columns])
    axis.set_ylabel("time / time with standard")
    axis.margins(y=0.12)
    tidy_axes(axis)
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, handlelength=1.2, columnspacing=1.2)
    return figure


def _series(table: DataFrame, columns: list[Panel]) -> list[tuple[str, list[float], str]]:
    """Return name, heights (one for each task) and colour of each kind of bar; the paper's last, if it has any."""
    series = [
        (name, [_mean_ratio(panel.table, name) for panel in columns], COLOURS[name])
        for name in attentions(table, ("effective", "padded"))
    ]
    paper = [paper_ratio(panel.task) or np.nan for panel in columns]
    if np.isfinite(paper).any():
        series.append(("effective in the paper", paper, COLOURS["paper"]))
    return series


def _mean_ratio(table: DataFrame, attention: str) -> float:
    """Return the mean over runs; NaN where this attention was not tested."""
    return float(table.loc[table["attention"] == attention, "ratio"].mean())


def timing_table(table: DataFrame) -> Grid:
    """Set the paper's Table 3: seconds and ratios, ours and the paper's."""
    kinds = attentions(table, ("standard", "effective", "padded"))
    rows = []
    for panel in panels(table):
        means = panel.table.groupby("attention")[["seconds", "ratio"]].mean()
        ours = [number(means["seconds"].get(kind), 1) for kind in kinds]
        ours += [number(means["ratio"].get(kind), 2) for kind in kinds[1:]]
        printed = [_minutes_and_seconds(seconds) for seconds in TABLE_3.get(panel.task, (None, None))]
        rows.append([one_line(panel.title), *ours, *printed, number(paper_ratio(panel.task), 2)])
    columns = ["task", *kinds, *(f"{kind} ratio" for kind in kinds[1:]), "standard", "effective", "effective ratio"]
    mine = 2 * len(kinds) - 1
    groups = [("", 1), ("ours, seconds", mine), ("paper, min:s", 3)]
    return Grid("Evaluation time (the paper's Table 3).", columns, rows, groups, frozenset(range(1 + mine, 4 + mine)))


def _minutes_and_seconds(seconds: int | None) -> str:
    """Write a time as the paper does.

    >>> _minutes_and_seconds(87)
    '1:27'
    """
    return NONE if seconds is None else f"{seconds // 60}:{seconds % 60:02d}"


CHAPTER = Chapter(
    analysis="timing",
    title="Evaluation time",
    source="Sun & Marasović 2021, Table 3",
    text=("How long evaluation takes with effective attention, relative to standard attention on the same machine."),
    paper_says="The paper's times are BERT-base's on one GPU, with a full singular value decomposition per head.",
    figures=(
        Drawing(
            "timing",
            "Evaluation time relative to standard attention (dashed), beside the ratio of the paper's times.",
            draw_timing,
        ),
    ),
    tables=(timing_table,),
)
