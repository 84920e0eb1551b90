"""Table 3 as bars: evaluation time relative to standard attention, beside the paper's."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.drawing.style import COLOURS, grid, styled, tidy_axes, width_for
from effective_attention.reports.papers.sun2021 import paper_ratio
from effective_attention.reports.reductions import attentions, panels


@styled
def timing(table: DataFrame) -> Figure:
    """One group of bars per task; the dashed line is standard attention."""
    columns = panels(table)
    series = [
        (name, [_mean(panel.table, name, "ratio") for panel in columns], COLOURS[name])
        for name in attentions(table, ("effective", "padded"))
    ]
    paper = [paper_ratio(panel.task) or np.nan for panel in columns]
    if np.isfinite(paper).any():
        series.append(("effective in the paper", paper, COLOURS["paper"]))
    figure, axes = grid(1, 1, width=width_for(len(columns), narrow=5), height=2.1)
    axis, width = axes[0, 0], 0.84 / max(len(series), 1)
    for place, (name, heights, colour) in enumerate(series):
        where = np.arange(len(columns)) + (place - (len(series) - 1) / 2) * width
        drawn = axis.bar(where, heights, width * 0.94, color=colour, label=name)
        axis.bar_label(
            drawn, [f"{height:.1f}" if np.isfinite(height) else "" for height in heights], fontsize=5, padding=1
        )
    axis.axhline(1, color=COLOURS["standard"], linewidth=0.9, linestyle=(0, (3, 2)), label="standard")
    axis.set_xticks(range(len(columns)), [panel.title for panel in columns])
    axis.set_ylabel("time / time with standard")
    axis.margins(y=0.12)
    tidy_axes(axis)
    figure.legend(
        *axis.get_legend_handles_labels(), loc="outside lower center", ncols=2, handlelength=1.2, columnspacing=1.2
    )
    return figure


def _mean(table: DataFrame, attention: str, column: str) -> float:
    return float(table.loc[table["attention"] == attention, column].mean())
