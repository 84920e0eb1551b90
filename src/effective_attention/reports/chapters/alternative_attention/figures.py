"""Figures of ``alternative_attention``: a head's own map, another with the same output, and how far apart they are.

Distances are total variation: the share of a token's attention that can be moved elsewhere without changing the head's
output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray
from pandas import DataFrame, Series

from effective_attention.reports.chapters.alternative_attention.reductions import (
    CHANGE_TITLES,
    attention_map,
    distances,
    of_head,
    quantity,
    shown_head,
)
from effective_attention.reports.drawing.layers import legend_below, name_tokens
from effective_attention.reports.drawing.matrices import matrix_places, name_both
from effective_attention.reports.drawing.style import (
    DOUBLE,
    draw_cells,
    grid,
    number_cells,
    styled,
    tidy_axes,
    width_for,
)
from effective_attention.reports.findings import head_name
from effective_attention.reports.reductions import Panel, layer_by_head, one_line, panels

_MOST_NAMED = 64  # tokens below the bars
_MOST_BLOCKS = 4
_OTHER = "#7b3294"
_FURTHEST = "furthest found (linear program)"


@styled
def alternative_attention(table: DataFrame) -> Figure:
    """Draw a block for each task; of more than four the first four.

    Above: the head's own map, another one with the same output, and their difference. Below: how far each token's
    attention can be moved, by linear program and by the paper's largest step, and the bound no map can pass; in words,
    what the logits do.
    """
    shown = panels(table)[:_MOST_BLOCKS]
    places = matrix_places(3, int(quantity(table, "weight")["query"].max()) + 1, texts=len(shown))
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.04)
    height = (places.side + 0.95) * places.down + 1.8
    figure = Figure(figsize=(DOUBLE, height * len(shown) + 0.25), layout=layout)
    lines = places.down + 1
    ratios = [*[places.side] * places.down, 0.8] * len(shown)
    cells = figure.add_gridspec(lines * len(shown), places.across, height_ratios=ratios)
    for block, panel in enumerate(shown):
        spots = [divmod(place, places.across) for place in range(3)]
        _maps(
            figure,
            [figure.add_subplot(cells[lines * block + line, column]) for line, column in spots],
            panel,
            places.side,
        )
        below = figure.add_subplot(cells[lines * (block + 1) - 1, :])
        _by_query(below, panel.table)
        below.set_title(_said(panel.table), fontsize=6.5)
    _legend(figure, below)
    return figure


def _legend(figure: Figure, axes: Axes) -> None:
    """Name what is drawn in these axes below the figure, the furthest map found first."""
    handles, labels = axes.get_legend_handles_labels()
    first = labels.index(_FURTHEST)
    order = [first, *(place for place in range(len(labels)) if place != first)]
    legend_below(figure, [handles[place] for place in order], [labels[place] for place in order])


def _maps(figure: Figure, line: list[Axes], panel: Panel, side: float) -> None:
    """Draw the head's own map, the other one and their difference beside each other."""
    own = attention_map(panel.table, "standard")
    other = attention_map(panel.table, "alternative")
    highest = max(float(own.max()), float(other.max()))
    change = other - own
    reach = float(np.abs(change).max())
    reach = reach if reach > 1e-6 else 1.0  # the same map: no scale for rounding errors
    shown: list[tuple[str, NDArray[Any], dict[str, Any]]] = [
        ("its own attention", own, {"cmap": "Greens", "vmin": 0.0, "vmax": highest}),
        ("another, with the same output", other, {"cmap": "Purples", "vmin": 0.0, "vmax": highest}),
        ("difference", change, {"cmap": "PuOr", "vmin": -reach, "vmax": reach}),
    ]
    names = _names(panel.table)
    for axes, (title, values, scale) in zip(line, shown, strict=True):
        mesh = draw_cells(axes, values, **scale)
        bar = figure.colorbar(mesh, ax=axes, location="bottom", pad=0.02, aspect=28, fraction=0.04, shrink=0.9)
        bar.set_label(title)
        bar.outline.set_visible(False)
        name_both(axes, names, names, side=side, left=axes.get_subplotspec().is_first_col())  # type: ignore[union-attr]
    line[0].set_ylabel(f"{one_line(panel.title)}, {head_name(*shown_head(panel.table))}")


def _names(table: DataFrame) -> list[str]:
    """Return the tokens of the text, in order."""
    rows = quantity(table, "weight").drop_duplicates("query").sort_values("query")
    return [str(name) for name in rows["query_token"]]


def _by_query(axes: Axes, table: DataFrame) -> None:
    """Draw how far each token's attention can be moved: bars found, dots the paper's step, dashes the bound."""
    furthest = _of_queries(distances(table), table)
    step = _of_queries(quantity(table, "distance", method="step"), table)
    bound = _of_queries(quantity(table, "bound"), table)
    names = _names(table)
    axes.bar(furthest.index, furthest, 0.7, color=_OTHER, alpha=0.75, label=_FURTHEST)
    axes.plot(step.index, step, "o", color="#e69f00", markersize=2.6, label="largest step in one direction")
    if len(bound):
        axes.plot(bound.index, bound, "_", color="black", markersize=5, label="no map is further than this")
    axes.set(xlim=(-0.8, len(names) - 0.2), ylim=(0, 1.04), ylabel="weight moved")
    name_tokens(axes, names, shift=0.0, most=_MOST_NAMED)
    tidy_axes(axes)


def _of_queries(rows: DataFrame, table: DataFrame) -> Series:
    """Return the values of the shown head by query; several runs are averaged."""
    return of_head(rows, shown_head(table)).astype({"query": int}).groupby("query")["value"].mean()


def _said(table: DataFrame) -> str:
    """Say what replacing the map does to the logits, beside as much weight moved at random."""
    freedom = of_head(quantity(table, "freedom"), shown_head(table))["value"]
    said = []
    for scope, title in CHANGE_TITLES.items():
        changes = quantity(table, "logit_change", scope=scope).groupby("attention")["value"].mean()
        if "alternative" in changes:
            control = f"; as much weight moved at random: {changes['control']:.2g}" if "control" in changes else ""
            said.append(f"{title}: largest logit difference {changes['alternative']:.1g}{control}")
    if len(freedom) and freedom.max() == 0:
        said.insert(0, "no other map has this output: the text has too few tokens for a null space")
    return "\n".join(said)


@styled
def alternative_attention_heads(table: DataFrame) -> Figure:
    """Draw layer by head how much of a token's attention can be moved with the same output, mean over queries."""
    shown = panels(distances(table))
    figure, axes = grid(1, len(shown), width=width_for(len(shown)), height=2.2 if len(shown) == 1 else 1.9)
    for axis, panel in zip(axes[0], shown, strict=True):
        cells = layer_by_head(panel.table)
        mesh = draw_cells(axis, cells.to_numpy(float), cmap="Purples", vmin=0, vmax=1)
        number_cells(axis, cells, y=axis is axes[0, 0])
        axis.set_title(panel.title)
    axes[0, 0].set_ylabel("layer")
    bar = figure.colorbar(mesh, ax=list(axes[0]), pad=0.01, aspect=16, fraction=0.05)
    bar.set_label("weight that can be moved")
    bar.outline.set_visible(False)
    figure.supxlabel("head", fontsize=7)
    return figure
