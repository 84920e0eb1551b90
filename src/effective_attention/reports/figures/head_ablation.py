"""What the task's score loses (or gains) when one head, or a whole layer, attends evenly to all tokens."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.drawing.style import CHANGE_SCALE, draw_cells, grid, number_cells, styled, width_for
from effective_attention.reports.reductions import layer_by_head, panels

_GAP = np.nan


@styled
def head_ablation(table: DataFrame) -> Figure:
    """Layer by head per task, one scale around zero, with a column of its own for the whole layer."""
    columns = panels(table)
    cells = [_cells(panel.table) for panel in columns]
    reach = max(float(np.nanmax(np.abs(values.to_numpy(float)))) for values, _ in cells) or 1e-9
    narrow = len(columns) == 1
    figure, axes = grid(1, len(columns), width=width_for(len(columns)), height=2.2 if narrow else 1.75)
    for axis, panel, (values, metric) in zip(axes[0], columns, cells, strict=True):
        mesh = _panel(axis, values, reach)
        axis.set_title(f"{panel.title}\n{metric}")
    axes[0, 0].set_yticks([place + 0.5 for place in range(len(values))], [str(layer) for layer in values.index])
    axes[0, 0].set_ylabel("layer")
    bar = figure.colorbar(mesh, ax=list(axes[0]), pad=0.01, aspect=16, fraction=0.05)
    bar.set_label("change of the score")
    bar.outline.set_visible(False)
    figure.supxlabel("head made even (last column: the whole layer)", fontsize=7)
    return figure


def _cells(table: DataFrame) -> tuple[DataFrame, str]:
    """Change by layer and head, a gap, and the whole layer; of the task's first metric."""
    metric = str(table["metric"].iloc[0])
    mine = table[table["metric"] == metric]
    heads = layer_by_head(mine, "change")
    layers = mine[mine["head"].isna() & mine["layer"].notna()].astype({"layer": int}).groupby("layer")["change"].mean()
    return heads.assign(gap=_GAP, all=layers.reindex(heads.index)), metric


def _panel(axes: Axes, values: DataFrame, reach: float) -> QuadMesh:
    mesh = draw_cells(axes, values.to_numpy(float), cmap=CHANGE_SCALE, vmin=-reach, vmax=reach)
    heads = values.shape[1] - 2
    number_cells(axes, values.iloc[:, :heads], y=False)
    axes.axvspan(heads, heads + 1, color="white", linewidth=0)
    axes.set_xticks([*axes.get_xticks(), heads + 1.5], [*[label.get_text() for label in axes.get_xticklabels()], "all"])
    return mesh
