"""Fig. 1: what [CLS] attends to, by type of token and head. Standard above effective, one column of panels per task."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.drawing.style import SCALES, SINGLE, draw_cells, grid, number_cells, styled, width_for
from effective_attention.reports.reductions import attentions, panels

TYPE_TITLES = {
    "noun": "noun",
    "pronoun": "pronoun",
    "verb": "verb",
    "sep": "[SEP]",
    "cls": "[CLS]",
    "punctuation": "punct.",
}


def last_layer(table: DataFrame) -> DataFrame:
    """The paper shows the last layer; a table of several is cut to its last."""
    return table[table["layer"] == table["layer"].max()]


def type_by_head(table: DataFrame) -> DataFrame:
    """Token types as rows, heads as columns, NaN where a type never occurs."""
    cells = table.astype({"head": int}).pivot_table(
        index="token_type", columns="head", values="value", aggfunc="mean", dropna=False
    )
    return cells.reindex(list(TYPE_TITLES))


def _draw(table: DataFrame, *, statistic: str, label: str) -> Figure:
    shown = last_layer(table[table["statistic"] == statistic])
    columns, rows = panels(shown), attentions(shown)
    narrow = len(columns) == 1
    width, height = (SINGLE, 1.25 * len(rows) + 0.35) if narrow else (width_for(len(columns)), 1.05 * len(rows) + 0.45)
    figure, axes = grid(len(rows), len(columns), width=width, height=height)
    for row, attention in enumerate(rows):
        limits = _limits(shown[shown["attention"] == attention], statistic)
        for column, panel in enumerate(columns):
            cells = type_by_head(panel.table[panel.table["attention"] == attention])
            mesh = draw_cells(axes[row, column], cells.to_numpy(float), cmap=SCALES[attention], **limits)
            _label(
                axes[row, column],
                cells,
                title=panel.title if row == 0 else "",
                bottom=row == len(rows) - 1,
                left=column == 0,
            )
        bar = figure.colorbar(mesh, ax=list(axes[row]), pad=0.01, aspect=14, fraction=0.05)
        bar.set_label(label)
        axes[row, 0].set_ylabel(attention)
        bar.outline.set_visible(False)
    figure.supxlabel(f"head of layer {int(shown['layer'].max())}", fontsize=7)
    return figure


def _limits(table: DataFrame, statistic: str) -> dict[str, object]:
    """One scale for all tasks of an attention. It starts at zero unless effective attention goes below."""
    lowest, highest = float(np.nanmin([0.0, table["value"].min()])), float(np.nanmax([1e-9, table["value"].max()]))
    return {"vmin": lowest, "vmax": max(highest, 1.0) if statistic == "lift" else highest}


def _label(axes: Axes, cells: DataFrame, *, title: str, bottom: bool, left: bool) -> None:
    number_cells(axes, cells, x=bottom, y=False)
    axes.set_yticks(
        [place + 0.5 for place in range(len(cells))], list(TYPE_TITLES.values()) if left else [""] * len(cells)
    )
    axes.set_title(title)


token_types = styled(partial(_draw, statistic="largest", label="largest weight"))
token_types_lift = styled(partial(_draw, statistic="lift", label="weight ÷ frequency"))
