"""Fig. 2 and 7: one head on one example; standard, effective and null side by side, tokens on both axes.

The figure grows with the text, so that up to about 60 tokens can each be read; beyond, every second (third, …) is
named.
"""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.drawing.style import SCALES, SINGLE, draw_cells, grid, styled
from effective_attention.reports.reductions import attentions, panels, shortened

_MOST_NAMED = 64
_MOST_ROWS = 6  # heads shown at most
_PER_TOKEN = 0.088  # inches: room for one line of 5.5 point
_KINDS = ("standard", "effective", "null")


@styled
def heatmap(table: DataFrame) -> Figure:
    """One row of panels per task, layer and head (the first few, if there are many)."""
    heads = [
        (panel.title, int(layer), int(head), group)
        for panel in panels(table)
        for (layer, head), group in panel.table.groupby(["layer", "head"])
    ][:_MOST_ROWS]
    kinds = attentions(table, _KINDS)
    tokens = max(group["query"].nunique() for *_, group in heads)
    side = max(1.75, _PER_TOKEN * min(tokens, _MOST_NAMED))
    size = {"width": max(SINGLE, len(kinds) * side + 1.4), "height": len(heads) * (side + 0.95)}
    figure, axes = grid(len(heads), len(kinds), **size)
    for row, (title, layer, head, group) in enumerate(heads):
        for column, attention in enumerate(kinds):
            cells = group[group["attention"] == attention].pivot_table(index="query", columns="key", values="value")
            _panel(figure, axes[row, column], cells, attention)
            _names(axes[row, column], group, left=column == 0)
        axes[row, 0].set_ylabel(f"{title.replace(chr(10), ', ')}, layer {layer}, head {head}")
    return figure


def _panel(figure: Figure, axes: Axes, cells: DataFrame, attention: str) -> None:
    """Zero is white; effective and null can go below."""
    values = cells.to_numpy(float)
    reach = float(np.nanmax(np.abs(values)))
    reach = reach if reach > 1e-6 else 1.0  # nothing there: no scale for rounding errors
    low = -reach if attention == "null" else min(0.0, float(np.nanmin(values)))
    scale = _below_zero(low, reach) if low < 0 and attention == "effective" else SCALES[attention]
    mesh = draw_cells(axes, values, cmap=scale, vmin=low, vmax=reach)
    axes.set_aspect("equal")
    bar = figure.colorbar(mesh, ax=axes, location="bottom", pad=0.02, aspect=28, fraction=0.04, shrink=0.9)
    bar.set_label(attention)
    bar.ax.tick_params(labelsize=6)
    bar.outline.set_visible(False)


def _below_zero(low: float, high: float) -> Colormap:
    """Blues above zero, orange below, as deep as far: a negative weight is no small positive one."""
    parts = 256
    below = min(parts - 1, max(1, round(parts * -low / (high - low))))
    negative = colormaps["Oranges"](np.linspace(-low / high, 0, below).clip(0, 1))
    positive = colormaps[SCALES["effective"]](np.linspace(0, 1, parts - below))
    return ListedColormap([*negative, *positive])


def _names(axes: Axes, group: DataFrame, *, left: bool) -> None:
    """Keys above, queries at the left of the first panel."""
    for axis, position, wanted in ((axes.xaxis, "key", True), (axes.yaxis, "query", left)):
        names = group.drop_duplicates(position).sort_values(position)[f"{position}_token"].tolist()
        step = -(-len(names) // _MOST_NAMED)
        places = range(0, len(names), step)
        axis.set_ticks(
            [place + 0.5 for place in places], [shortened(names[place]) for place in places] if wanted else []
        )
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=5.5, pad=1.5)
    axes.tick_params(axis="x", labelrotation=90)
