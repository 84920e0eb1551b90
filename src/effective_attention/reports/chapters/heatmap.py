"""One head, one example: what the report says and shows of ``heatmap``.

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

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.style import SCALES, SINGLE, draw_cells, grid, styled
from effective_attention.reports.reductions import attentions, one_line, panels, token_label

_MOST_NAMED = 64
_MOST_HEADS = 6  # shown at most
_PER_TOKEN = 0.088  # inches: room for one line of 5.5 point
_KINDS = ("standard", "effective", "null")


@styled
def draw_heatmap(table: DataFrame) -> Figure:
    """Draw panels side by side for each task, layer and head (the first few, if there are many)."""
    heads = [
        (f"{one_line(panel.title)}, layer {layer}, head {head}", group)
        for panel in panels(table)
        for (layer, head), group in panel.table.groupby(["layer", "head"])
    ][:_MOST_HEADS]
    kinds = attentions(table, _KINDS)
    tokens = max(group["query"].nunique() for _, group in heads)
    side = max(1.75, _PER_TOKEN * min(tokens, _MOST_NAMED))
    size = {"width": max(SINGLE, len(kinds) * side + 1.4), "height": len(heads) * (side + 0.95)}
    figure, axes = grid(len(heads), len(kinds), **size)
    for across, (title, group) in zip(axes, heads, strict=True):
        for axis, attention in zip(across, kinds, strict=True):
            cells = group[group["attention"] == attention].pivot_table(index="query", columns="key", values="value")
            _panel(figure, axis, cells, attention)
            _name_tokens(axis, group, left=axis is across[0])
        across[0].set_ylabel(title)
    return figure


def _panel(figure: Figure, axes: Axes, cells: DataFrame, attention: str) -> None:
    """Draw one matrix, and its colour bar below; zero is white, because effective and null can go below."""
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
    """Return blues above zero and orange below, as deep as far from it: a negative weight is no small positive one."""
    parts = 256
    below = min(parts - 1, max(1, round(parts * -low / (high - low))))
    negative = colormaps["Oranges"](np.linspace(-low / high, 0, below).clip(0, 1))
    positive = colormaps[SCALES["effective"]](np.linspace(0, 1, parts - below))
    return ListedColormap([*negative, *positive])


def _name_tokens(axes: Axes, group: DataFrame, *, left: bool) -> None:
    """Write keys above, and queries at the left of the first panel."""
    for axis, position, wanted in ((axes.xaxis, "key", True), (axes.yaxis, "query", left)):
        names = group.drop_duplicates(position).sort_values(position)[f"{position}_token"].tolist()
        step = -(-len(names) // _MOST_NAMED)
        places = range(0, len(names), step)
        words = [token_label(names[place]) for place in places] if wanted else []
        axis.set_ticks([place + 0.5 for place in places], words)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=5.5, pad=1.5)
    axes.tick_params(axis="x", labelrotation=90)


CHAPTER = Chapter(
    analysis="heatmap",
    title="One head, one example",
    source="Sun & Marasović 2021, Fig. 2, Fig. 7",
    text=(
        "The attention of one head on one text: each row attends to the columns. Standard is the sum of effective and "
        "null; null does not reach the output."
    ),
    figures=(
        Drawing(
            "heatmap",
            "Standard, effective and null attention; orange in effective attention is below zero.",
            draw_heatmap,
        ),
    ),
)
