"""Heads made even: what the report says and shows of ``head_ablation``."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.style import CHANGE_SCALE, draw_cells, grid, number_cells, styled, width_for
from effective_attention.reports.findings import head_name, said_of
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.reductions import layer_by_head, one_line, panels


@styled
def draw_ablation(table: DataFrame) -> Figure:
    """Draw layers by heads for each task, one scale around zero, with a column of its own for the whole layer."""
    columns = panels(table)
    cells = [_cells(panel.table) for panel in columns]
    reach = max(float(np.nanmax(np.abs(values.to_numpy(float)))) for values, _ in cells) or 1e-9
    figure, axes = grid(1, len(columns), width=width_for(len(columns)), height=2.2 if len(columns) == 1 else 1.75)
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
    """Return the task's first metric, and its change by layer and head, with a gap before the whole layer's."""
    metric = str(table["metric"].iloc[0])
    mine = table[table["metric"] == metric]
    heads = layer_by_head(mine, "change")
    layers = mine[mine["head"].isna() & mine["layer"].notna()].astype({"layer": int}).groupby("layer")["change"].mean()
    return heads.assign(gap=np.nan, all=layers.reindex(heads.index)), metric


def _panel(axes: Axes, values: DataFrame, reach: float) -> QuadMesh:
    """Draw one task's heads, a white gap, and the whole layers."""
    mesh = draw_cells(axes, values.to_numpy(float), cmap=CHANGE_SCALE, vmin=-reach, vmax=reach)
    heads = values.shape[1] - 2
    number_cells(axes, values.iloc[:, :heads], y=False)
    axes.axvspan(heads, heads + 1, color="white", linewidth=0)
    axes.set_xticks([*axes.get_xticks(), heads + 1.5], [*[label.get_text() for label in axes.get_xticklabels()], "all"])
    return mesh


def ablation_table(table: DataFrame) -> Grid:
    """Set the heads that matter most and least."""
    rows = []
    for panel in panels(table):
        metric = str(panel.table["metric"].iloc[0])
        heads = panel.table[(panel.table["metric"] == metric) & panel.table["head"].notna()]
        changes = heads.groupby(["layer", "head"])["change"].mean()
        score = float((heads["value"] - heads["change"]).mean())
        extremes = [
            f"{number(changes[place])} ({head_name(*place)})" if sign * changes[place] > 0 else NONE
            for sign, place in ((-1, changes.idxmin()), (1, changes.idxmax()))
        ]
        harmless = f"{int((changes >= 0).sum())} of {len(changes)}"
        rows.append([one_line(panel.title), metric, number(score), *extremes, harmless])
    columns = ["task", "metric", "untouched score", "largest loss", "largest gain", "heads whose loss costs nothing"]
    return Grid("One head made even at a time.", columns, rows, labels=2)


def found_ablation(table: DataFrame) -> list[str]:
    """Say which head is missed most, and how many can be made even at no cost."""
    said = []
    for panel in panels(table):
        metric = str(panel.table["metric"].iloc[0])
        heads = panel.table[(panel.table["metric"] == metric) & panel.table["head"].notna()]
        changes = heads.groupby(["layer", "head"])["change"].mean()
        free = f"{int((changes >= 0).sum())} of {len(changes)} heads can be made even without a loss of {metric}"
        worst = changes.idxmin()
        if changes[worst] < 0:
            most = f"the largest loss is {number(-changes[worst])} ({head_name(*worst)})"
            said.append(said_of(panel, table, f"{free}; {most}."))
        else:
            said.append(said_of(panel, table, f"{free}: no single head is needed."))
    return said


CHAPTER = Chapter(
    analysis="head_ablation",
    title="Heads made even",
    source="after Kovaleva et al. 2019",
    question="Which heads does the model need to answer?",
    text=(
        "The task's score when one head, or a whole layer, attends evenly to all tokens: below zero, the head was "
        "needed."
    ),
    found=found_ablation,
    needs_head=True,
    figures=(
        Drawing(
            "head_ablation",
            ("Change of the score with one head made even, by layer and head; the last column is the whole layer."),
            draw_ablation,
        ),
    ),
    tables=(ablation_table,),
)
