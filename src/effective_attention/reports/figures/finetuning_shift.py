"""Fig. 3: cosine of flattened attention, pretrained against finetuned, layer by head; below, the mean of each layer."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.drawing.style import (
    COLOURS,
    SCALES,
    draw_cells,
    grid,
    number_cells,
    styled,
    tidy_axes,
    width_for,
)
from effective_attention.reports.reductions import Panel, attentions, layer_by_head, panels


@styled
def finetuning_shift(table: DataFrame) -> Figure:
    """Both attentions share one range, up to 1 (unchanged), so that their panels can be compared."""
    columns, kinds = panels(table), attentions(table)
    low = max(-1.0, math.floor(float(table["value"].min()) * 10) / 10)
    narrow = len(columns) == 1
    height = (1.5 if narrow else 1.1) * len(kinds) + 1.35
    figure, axes = grid(
        len(kinds) + 1, len(columns), width=width_for(len(columns)), height=height,
        height_ratios=[1.0] * len(kinds) + [0.9],
    )  # fmt: skip
    for row, attention in enumerate(kinds):
        _heatmaps(figure, list(axes[row]), columns, attention, min(low, 0.9))
    for axis, panel in zip(axes[0], columns, strict=True):
        axis.set_title(panel.title)
    for column, panel in enumerate(columns):
        _lines(axes[-1, column], panel, kinds)
    _same_range(list(axes[-1]))
    axes[-1, 0].set_ylabel("mean cosine")
    axes[-1, 0].legend(loc="lower left", handlelength=1.4)
    axes[-1, len(columns) // 2].set_xlabel("layer")
    return figure


def _heatmaps(figure: Figure, row: list[Axes], columns: list[Panel], attention: str, low: float) -> None:
    for axes, panel in zip(row, columns, strict=True):
        cells = layer_by_head(panel.table[panel.table["attention"] == attention])
        mesh = draw_cells(axes, cells.to_numpy(float), cmap=SCALES[attention], vmin=low, vmax=1.0)
        number_cells(axes, cells, y=axes is row[0])
    row[0].set_ylabel(f"{attention}\nlayer")
    row[len(row) // 2].set_xlabel("head")
    bar = figure.colorbar(mesh, ax=row, pad=0.01, aspect=14, fraction=0.05)
    bar.set_label("cosine")
    bar.outline.set_visible(False)


def _lines(axes: Axes, panel: Panel, kinds: list[str]) -> None:
    for attention in kinds:
        means = layer_by_head(panel.table[panel.table["attention"] == attention]).mean(axis=1)
        marker = "o" if attention == "standard" else "s"
        axes.plot(means.index, means, marker=marker, color=COLOURS[attention], label=attention)
    axes.set_xticks([int(layer) for layer in means.index if layer % (1 if len(means) <= 6 else 2) == 0])
    tidy_axes(axes)


def _same_range(row: list[Axes]) -> None:
    """One vertical axis for all, numbered at the left only."""
    limits = [axes.get_ylim() for axes in row]
    for index, axes in enumerate(row):
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        axes.tick_params(labelleft=index == 0)
