"""Evaluation time: what the report says and shows of ``timing``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.style import COLOURS, grid, styled, tidy_axes, width_for
from effective_attention.reports.findings import said_of
from effective_attention.reports.grid import NONE, Grid, number, span
from effective_attention.reports.papers.sun2021 import TABLE_3, paper_ratio
from effective_attention.reports.reductions import Panel, attentions, one_line, panels

_WHISKERS = {"elinewidth": 0.7, "ecolor": "#333333", "capsize": 1.5, "capthick": 0.7}


def has_times(table: DataFrame) -> bool:
    """Tell whether enough batches were timed to compare anything with standard attention."""
    return bool(table.loc[table["attention"] != "standard", "ratio"].notna().any())


@styled
def draw_timing(table: DataFrame) -> Figure:
    """Draw one group of bars for each task, with quartiles; the dashed line is standard attention."""
    columns = panels(table)
    series = _series(table, columns)
    figure, axes = grid(1, 1, width=width_for(len(columns), narrow=5), height=2.1)
    axis = axes[0, 0]
    width = 0.84 / max(len(series), 1)
    for place, (name, ratios, colour) in enumerate(series):
        where = np.arange(len(columns)) + (place - (len(series) - 1) / 2) * width
        reach = [[ratio.middle - ratio.low for ratio in ratios], [ratio.high - ratio.middle for ratio in ratios]]
        heights = [ratio.middle for ratio in ratios]
        bars = axis.bar(where, heights, width * 0.94, color=colour, label=name, yerr=reach, error_kw=_WHISKERS)
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


class Ratio(NamedTuple):
    """A median and its quartiles; NaN where nothing was measured."""

    middle: float
    low: float
    high: float


def _series(table: DataFrame, columns: list[Panel]) -> list[tuple[str, list[Ratio], str]]:
    """Return name, ratios (one for each task) and colour of each kind of bar; the paper's last, if it has any."""
    series = [
        (name, [_mean_ratio(panel.table, name) for panel in columns], COLOURS[name])
        for name in attentions(table, ("effective", "padded"))
    ]
    paper = [paper_ratio(panel.task) or np.nan for panel in columns]
    if np.isfinite(paper).any():
        series.append(("effective in the paper", [Ratio(ratio, ratio, ratio) for ratio in paper], COLOURS["paper"]))
    return series


def _mean_ratio(table: DataFrame, attention: str) -> Ratio:
    """Return means over runs."""
    rows = table[table["attention"] == attention]
    return Ratio(*(float(rows[name].mean()) for name in ("ratio", "ratio_low", "ratio_high")))


def timing_table(table: DataFrame) -> Grid:
    """Set the paper's Table 3: seconds and ratios, ours with quartiles, and the paper's."""
    kinds = attentions(table, ("standard", "effective", "padded"))
    rows = []
    for panel in panels(table):
        means = panel.table.groupby("attention")["seconds"].mean()
        ours = [number(means.get(kind), 1) for kind in kinds]
        for ratio in (_mean_ratio(panel.table, kind) for kind in kinds[1:]):
            ours += [number(ratio.middle, 2), span(ratio.low, ratio.high, 2)]
        printed = [_minutes_and_seconds(seconds) for seconds in TABLE_3.get(panel.task, (None, None))]
        rows.append([one_line(panel.title), *ours, *printed, number(paper_ratio(panel.task), 2)])
    ratios = [title for kind in kinds[1:] for title in (f"{kind} ratio", "quartiles")]
    columns = ["task", *kinds, *ratios, "standard", "effective", "effective ratio"]
    mine = len(kinds) + len(ratios)
    groups = [("", 1), ("ours, seconds", mine), ("paper, min:s", 3)]
    return Grid("Evaluation time (the paper's Table 3).", columns, rows, groups, frozenset(range(1 + mine, 4 + mine)))


def _minutes_and_seconds(seconds: int | None) -> str:
    """Write a time as the paper does.

    >>> _minutes_and_seconds(87)
    '1:27'
    """
    return NONE if seconds is None else f"{seconds // 60}:{seconds % 60:02d}"


def found_times(table: DataFrame) -> list[str]:
    """Say how long effective attention takes; longer only where the quartiles of the batches lie beyond equal times."""
    if not has_times(table):
        return ["No times: fewer than five batches were timed."]
    said = []
    for panel in panels(table):
        for kind in attentions(panel.table, ("effective", "padded")):
            ratio = _mean_ratio(panel.table, kind)
            if not np.isfinite(ratio.middle):
                said.append(said_of(panel, table, f"no time of {kind} attention: too few batches were timed."))
                continue
            word = "longer than" if ratio.low > 1 else ("less time than" if ratio.high < 1 else "about as long as")
            numbers = f"{number(ratio.middle, 2)} times (quartiles {span(ratio.low, ratio.high, 2)})"
            said.append(said_of(panel, table, f"{kind} attention takes {word} standard: {numbers}."))
    return said


CHAPTER = Chapter(
    analysis="timing",
    title="Evaluation time",
    source="Sun & Marasović 2021, Table 3",
    question="How much longer does a model take with effective attention?",
    text=(
        "How long the model takes with effective attention, relative to standard attention on the same machine. The "
        "attentions take turns on every batch; a ratio is the median over batches, with its quartiles. The padded one "
        "is of inputs padded to the maximum length, against standard attention on inputs that are not. Fewer than five "
        "batches give no time."
    ),
    paper_says=(
        "Sun & Marasović find that effective attention takes about twice as long: BERT-base on one GPU, with a full "
        "singular value decomposition per head."
    ),
    found=found_times,
    figures=(
        Drawing(
            "timing",
            "Evaluation time relative to standard attention (dashed), median and quartiles over batches, beside the "
            "ratio of the paper's times.",
            draw_timing,
            has_times,
        ),
    ),
    tables=(timing_table,),
)
