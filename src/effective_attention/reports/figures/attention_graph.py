"""Abnar & Zuidema's Fig. 1-3: one example as a layered graph, and what one of its tokens sees, layer by token.

Short texts have standard beside effective; where a text is longer, panels go below each other instead, so that the
figure keeps a paper's width and every token can be read up to about 60. Beyond, every second (third, …) is named.
"""

from __future__ import annotations

import numpy as np
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from effective_attention.reports.drawing.style import COLOURS, DOUBLE, SCALES, draw_cells, grid, number_cells, styled
from effective_attention.reports.reductions import Panel, attentions, panels, shortened

METHODS = ("raw", "rollout", "flow")
_PER_TOKEN = 0.088  # inches: room for one line of 5.5 point
_BESIDE = 0.3  # inches: what a panel needs beside its tokens
_ROOM = DOUBLE - 0.45  # inches for panels: without the labels at the left
_EDGES_PER_NODE = 2  # on average, at most: more are a carpet
_MOST_NAMED = 62
_MOST_TASKS = 4
_CHOSEN = "#d55e00"
_MOST_OUTLINES = 2000  # more edges become one picture inside the SVG


@styled
def attention_graph(table: DataFrame) -> Figure:
    """Nodes are tokens (across) in each layer (upward); edges darken with attention, light ones are left out."""
    shown, kinds = panels(table)[:_MOST_TASKS], attentions(table)
    across = _columns(len(kinds), _most_tokens(table))
    down = len(kinds) // across
    height = max(1.2, 0.2 * (int(table["layer"].max()) + 1)) + 0.85
    figure, axes = grid(len(shown) * down, across, width=DOUBLE, height=height * len(shown) * down)
    for index, panel in enumerate(shown):
        mine = axes[index * down : (index + 1) * down].reshape(-1)
        edges = panel.table[panel.table["method"] == "raw"]
        limits = lightest_edge(edges), float(edges["value"].max())
        for place, (axis, kind) in enumerate(zip(mine, kinds, strict=True)):
            _graph(axis, edges[edges["attention"] == kind], COLOURS[kind], limits)
            _name_tokens(axis, panel.table, shift=0.0, row=chosen_row(panel.table))
            axis.set_title(f"{kind}: edges from {limits[0]:.3f} to {limits[1]:.2f} (darkest)", fontsize=6.5)
            axis.set_ylabel(f"{_one_line(panel)}\nlayer" if place % across == 0 else "")
    return figure


def lightest_edge(edges: DataFrame) -> float:
    """Below this weight an edge is not drawn: below even attention, or lighter than the few heaviest per node."""
    tokens, nodes = edges["key"].nunique(), len(edges) / edges["key"].nunique()
    heaviest = edges["value"].nlargest(int(_EDGES_PER_NODE * nodes))
    return max(1 / tokens, float(heaviest.iloc[-1]))


def _graph(axes: Axes, edges: DataFrame, colour: str, limits: tuple[float, float]) -> None:
    """A line from each layer's node to those nodes below that it attends to most."""
    layers, tokens = edges["layer"].nunique(), edges["key"].nunique()
    weights = edges.groupby(["layer", "query", "key"])["value"].mean().reset_index()
    weights = weights[weights["value"] >= (1 - 1e-9) * limits[0]].sort_values("value")  # the heaviest on top
    low, high = limits
    layer, value = weights["layer"].to_numpy(int), weights["value"].to_numpy(float)
    share = (0.06 + 0.94 * (value - low) / (high - low)).clip(0, 1) if high > low else np.ones(len(value))
    ends = np.stack([weights["query"].to_numpy(int), layer + 1, weights["key"].to_numpy(int), layer], axis=-1)
    lines = LineCollection(
        list(ends.reshape(-1, 2, 2)),
        colors=[colors.to_rgba(colour, alpha) for alpha in share],
        linewidths=0.3 + (1.3 if tokens <= 20 else 0.9) * share,
        rasterized=len(weights) > _MOST_OUTLINES,
    )
    axes.add_collection(lines)
    across, up = np.meshgrid(range(tokens), range(layers + 1))
    axes.plot(across.ravel(), up.ravel(), "o", color="#444444", markersize=1.6, zorder=3)
    axes.set(xlim=(-0.7, tokens - 0.3), ylim=(-0.35, layers + 0.35))
    names = ["input", *(str(number) for number in sorted(edges["layer"].unique()))]
    step = -(-layers // 12)
    axes.set_yticks([0, *range(1, layers + 1, step)], [names[0], *names[1::step]])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def chosen_row(table: DataFrame) -> int:
    """The position whose rollout and flow the table holds."""
    return int(table.loc[table["method"] != "raw", "query"].iloc[0])


@styled
def attention_graph_maps(table: DataFrame) -> Figure:
    """Raw attention, rollout and flow of one token, layer by token; each panel from 0 to its own largest value.

    Colours follow the square root: what a token keeps of itself in the first layer would leave all else white.
    """
    shown, kinds = panels(table)[:_MOST_TASKS], attentions(table)
    cells = [(kind, method) for kind in kinds for method in METHODS]
    across = _columns(len(cells), _most_tokens(table))
    down = len(cells) // across
    layers = int(table["layer"].max()) + 1
    height = max(0.75, 0.1 * layers) + (0.75 if across > 1 else 0.6)
    figure, axes = grid(len(shown) * down, across, width=DOUBLE, height=height * len(shown) * down)
    for index, panel in enumerate(shown):
        block = axes[index * down : (index + 1) * down]
        rows = panel.table[panel.table["query"] == chosen_row(panel.table)]
        order = cells if across != len(kinds) else [(kind, method) for method in METHODS for kind in kinds]
        for place, (axis, (kind, method)) in enumerate(zip(block.reshape(-1), order, strict=True)):
            _map(figure, axis, rows[(rows["attention"] == kind) & (rows["method"] == method)], kind)
            _name_tokens(axis, panel.table, shift=0.5, row=chosen_row(panel.table))
            axis.set_title(f"{kind}, {method}", fontsize=6.5)
            axis.set_ylabel(f"{_one_line(panel)}\nlayer" if place % across == 0 else "")
    return figure


def _columns(cells: int, tokens: int) -> int:
    """How many panels stand side by side: three (methods), two (attentions) or one."""
    return next(
        (count for count in (3, 2) if cells % count == 0 and count * (_PER_TOKEN * tokens + _BESIDE) <= _ROOM), 1
    )


def _map(figure: Figure, axes: Axes, rows: DataFrame, kind: str) -> None:
    cells = rows.pivot_table(index="layer", columns="key", values="value", aggfunc="mean")
    largest = float(cells.to_numpy(float).max())
    scale = colors.PowerNorm(0.5, vmin=0, vmax=largest if largest > 0 else 1)
    mesh = draw_cells(axes, cells.to_numpy(float), cmap=SCALES[kind], norm=scale)
    axes.invert_yaxis()  # the first layer at the bottom, as in the graph
    number_cells(axes, cells, x=False)
    bar = figure.colorbar(mesh, ax=axes, pad=0.01, aspect=14, fraction=0.05)
    bar.locator = MaxNLocator(3)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=5.5, length=1)


def _name_tokens(axes: Axes, table: DataFrame, *, shift: float, row: int) -> None:
    """Below; the chosen one in colour, with its node on top where there are nodes."""
    names = table.drop_duplicates("key").sort_values("key")["key_token"].tolist()
    step = -(-len(names) // _MOST_NAMED)
    places = sorted({*range(0, len(names), step)} - {row + near for near in range(1 - step, step) if near} | {row})
    axes.set_xticks([place + shift for place in places], [shortened(names[place], 14) for place in places])
    axes.tick_params(axis="x", length=0, labelsize=5.5, labelrotation=90, pad=1.5)
    axes.get_xticklabels()[places.index(row)].set(color=_CHOSEN, fontweight="bold")
    if shift == 0:
        axes.plot([row], [table["layer"].nunique()], "o", color=_CHOSEN, markersize=5, zorder=4, clip_on=False)


def _most_tokens(table: DataFrame) -> int:
    return min(int(table["key"].max()) + 1, _MOST_NAMED)


def _one_line(panel: Panel) -> str:
    return panel.title.replace("\n", ", ")
