"""One example as a graph: what the report says and shows of ``attention_graph``.

Abnar & Zuidema's Fig. 1-3: one example as a layered graph, and what one of its tokens sees, layer by token.
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

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.layers import CHOSEN, name_tokens
from effective_attention.reports.drawing.style import COLOURS, DOUBLE, SCALES, draw_cells, grid, number_cells, styled
from effective_attention.reports.findings import said_of
from effective_attention.reports.grid import number
from effective_attention.reports.reductions import Panel, attentions, one_line, panels

_METHODS = ("raw", "rollout", "flow")
_PER_TOKEN = 0.088  # inches: room for one line of 5.5 point
_BESIDE = 0.3  # inches: what a panel needs beside its tokens
_ROOM = DOUBLE - 0.45  # inches for panels: without the labels at the left
_EDGES_PER_NODE = 2  # on average, at most: more are a carpet
_MOST_NAMED = 62
_MOST_TASKS = 4
_MOST_OUTLINES = 2000  # more edges become one picture inside the SVG


@styled
def attention_graph(table: DataFrame) -> Figure:
    """Draw tokens (across) in each layer (upward) as nodes; edges are as strong as attention, weak ones left out."""
    shown = panels(table)[:_MOST_TASKS]
    kinds = attentions(table)
    across = _columns(len(kinds), _most_tokens(table))
    down = len(kinds) // across
    height = max(1.2, 0.2 * (int(table["layer"].max()) + 1)) + 0.85
    figure, axes = grid(len(shown) * down, across, width=DOUBLE, height=height * len(shown) * down)
    for index, panel in enumerate(shown):
        mine = axes[index * down : (index + 1) * down].reshape(-1)
        edges = panel.table[panel.table["method"] == "raw"]
        limits = lightest_edge(edges), float(edges["value"].max())
        for place, (axis, kind) in enumerate(zip(mine, kinds, strict=True)):
            _edges(axis, edges[edges["attention"] == kind], COLOURS[kind], limits)
            _nodes(axis, edges, chosen_query(panel.table))
            name_tokens(axis, _names(panel.table), shift=0.0, most=_MOST_NAMED, chosen=chosen_query(panel.table))
            axis.set_title(f"{kind}: edges from {limits[0]:.3f} to {limits[1]:.2f} (strongest)", fontsize=6.5)
            axis.set_ylabel(_label(panel) if place % across == 0 else "")
    return figure


def lightest_edge(edges: DataFrame) -> float:
    """Return the least weight of an edge that is drawn: even attention, or more where a node would get many edges."""
    tokens = edges["key"].nunique()
    nodes = len(edges) / tokens
    heaviest = edges["value"].nlargest(int(_EDGES_PER_NODE * nodes))
    return max(1 / tokens, float(heaviest.iloc[-1]))


def _edges(axes: Axes, edges: DataFrame, colour: str, limits: tuple[float, float]) -> None:
    """Draw a line from each layer's node to those nodes below that it attends to most."""
    low, high = limits
    weights = edges.groupby(["layer", "query", "key"])["value"].mean().reset_index()
    weights = weights[weights["value"] >= (1 - 1e-9) * low].sort_values("value")  # the heaviest on top
    layer = weights["layer"].to_numpy(int)
    value = weights["value"].to_numpy(float)
    share = (0.06 + 0.94 * (value - low) / (high - low)).clip(0, 1) if high > low else np.ones(len(value))
    ends = np.stack([weights["query"].to_numpy(int), layer + 1, weights["key"].to_numpy(int), layer], axis=-1)
    lines = LineCollection(
        list(ends.reshape(-1, 2, 2)),
        colors=[colors.to_rgba(colour, alpha) for alpha in share],
        linewidths=0.3 + (1.3 if edges["key"].nunique() <= 20 else 0.9) * share,
        rasterized=len(weights) > _MOST_OUTLINES,
    )
    axes.add_collection(lines)


def _nodes(axes: Axes, edges: DataFrame, chosen: int) -> None:
    """Draw a node for each token in each layer, the chosen token's last one in colour, and name the layers."""
    layers = edges["layer"].nunique()
    tokens = edges["key"].nunique()
    across, up = np.meshgrid(range(tokens), range(layers + 1))
    axes.plot(across.ravel(), up.ravel(), "o", color="#444444", markersize=1.6, zorder=3)
    axes.plot([chosen], [layers], "o", color=CHOSEN, markersize=5, zorder=4, clip_on=False)
    axes.set(xlim=(-0.7, tokens - 0.3), ylim=(-0.35, layers + 0.35))
    names = ["input", *(str(number) for number in sorted(edges["layer"].unique()))]
    step = -(-layers // 12)
    axes.set_yticks([0, *range(1, layers + 1, step)], [names[0], *names[1::step]])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def chosen_query(table: DataFrame) -> int:
    """Return the position whose rollout and flow the table holds."""
    return int(table.loc[table["method"] != "raw", "query"].iloc[0])


@styled
def attention_graph_maps(table: DataFrame) -> Figure:
    """Draw raw attention, rollout and flow of one token, layer by token; both attentions of a method on one scale.

    Colours follow the square root: what a token keeps of itself in the first layer would leave all else white.
    """
    shown = panels(table)[:_MOST_TASKS]
    kinds = attentions(table)
    across = _columns(len(kinds) * len(_METHODS), _most_tokens(table))
    down = len(kinds) * len(_METHODS) // across
    order = [(kind, method) for kind in kinds for method in _METHODS]
    if across == len(kinds):  # attentions beside each other, methods below each other
        order = [(kind, method) for method in _METHODS for kind in kinds]
    height = max(0.75, 0.1 * (int(table["layer"].max()) + 1)) + (0.75 if across > 1 else 0.6)
    figure, axes = grid(len(shown) * down, across, width=DOUBLE, height=height * len(shown) * down)
    for index, panel in enumerate(shown):
        chosen = chosen_query(panel.table)
        rows = panel.table[panel.table["query"] == chosen]
        block = axes[index * down : (index + 1) * down].reshape(-1)
        for place, (axis, (kind, method)) in enumerate(zip(block, order, strict=True)):
            mine = rows[rows["method"] == method]
            _map(figure, axis, mine[mine["attention"] == kind], kind, float(mine["value"].max()))
            name_tokens(axis, _names(panel.table), shift=0.5, most=_MOST_NAMED, chosen=chosen)
            axis.set_title(f"{kind}, {method}", fontsize=6.5)
            axis.set_ylabel(_label(panel) if place % across == 0 else "")
    return figure


def _columns(cells: int, tokens: int) -> int:
    """Return how many panels stand side by side: three (methods), two (attentions) or one."""
    width = _PER_TOKEN * tokens + _BESIDE
    return next((count for count in (3, 2) if cells % count == 0 and count * width <= _ROOM), 1)


def _map(figure: Figure, axes: Axes, rows: DataFrame, kind: str, largest: float) -> None:
    """Draw layers by tokens as a heatmap, the first layer at the bottom as in the graph."""
    cells = rows.pivot_table(index="layer", columns="key", values="value", aggfunc="mean")
    scale = colors.PowerNorm(0.5, vmin=0, vmax=largest if largest > 0 else 1)
    mesh = draw_cells(axes, cells.to_numpy(float), cmap=SCALES[kind], norm=scale)
    axes.invert_yaxis()
    number_cells(axes, cells, x=False)
    bar = figure.colorbar(mesh, ax=axes, pad=0.01, aspect=14, fraction=0.05)
    bar.locator = MaxNLocator(3)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=5.5, length=1)


def _names(table: DataFrame) -> list[str]:
    """Return the tokens of the text, in order."""
    return [str(name) for name in table.drop_duplicates("key").sort_values("key")["key_token"]]


def _most_tokens(table: DataFrame) -> int:
    """Return how many tokens a panel names."""
    return min(int(table["key"].max()) + 1, _MOST_NAMED)


def _label(panel: Panel) -> str:
    """Return what stands at the left of a panel."""
    return f"{one_line(panel.title)}\nlayer"


def _answer(table: DataFrame) -> str:
    """Say which example it is and what the model answers; nothing of a text without a class."""
    one = table.iloc[0]
    if any(name not in table or one[name] is None or one[name] != one[name] for name in ("gold", "predicted")):
        return ""
    verdict = "rightly" if one["gold"] == one["predicted"] else f"but it is “{one['gold']}”"
    return f"example {int(one['example'])} of the split: the model answers “{one['predicted']}”, {verdict}."


def found_graph(table: DataFrame) -> list[str]:
    """Say how focused each method is in the last layer, beside even attention; whether rollout is more than flow."""
    said = []
    for panel in panels(table):
        answer = _answer(panel.table)
        said += [said_of(panel, table, answer)] if answer else []
        rows = panel.table[panel.table["query"] == chosen_query(panel.table)]
        last = rows[rows["layer"] == rows["layer"].max()]
        even = number(1 / rows["key"].nunique())
        for kind in attentions(last):
            most = last[last["attention"] == kind].groupby("method")["value"].max()
            numbers = ", ".join(f"{name} {number(most[name])}" for name in _METHODS if name in most.index)
            said.append(
                said_of(panel, table, f"largest share of one token, last layer, {kind}: {numbers} (even: {even}).")
            )
            if {"rollout", "flow"} <= set(most.index):
                word = "more" if most["rollout"] > most["flow"] else "no more"
                said.append(said_of(panel, table, f"under {kind} attention rollout is {word} focused than flow."))
    return said


CHAPTER = Chapter(
    analysis="attention_graph",
    title="One example as a graph",
    source="Abnar & Zuidema 2020, Fig. 1 to 3",
    question="What does one token see of the text, directly and through all layers?",
    text=(
        "Each token in each layer is a node, heads averaged. Raw attention looks at the layer below, where tokens are "
        "already mixed; rollout multiplies the layers and flow takes the largest flow through them, both with the "
        "residual connection, down to the input. Flow is normalised to sum 1 in each layer, as in the paper. In a "
        "causal model early tokens are seen by more tokens than late ones: there rollout and flow are divided by what "
        "even attention would bring, so that even attention gives equal shares (column receptive_field)."
    ),
    paper_says="Abnar & Zuidema find raw attention nearly even in the upper layers, rollout more focused than flow.",
    found=found_graph,
    figures=(
        Drawing(
            "attention_graph",
            (
                "The graph without the residual connection: the stronger and wider an edge, the more attention. Weak "
                "ones are left out (the limit stands above each panel); the chosen token's last node is orange."
            ),
            attention_graph,
        ),
        Drawing(
            "attention_graph_maps",
            (
                "What the chosen token (orange) sees, by layer; colours follow the square root of the value. Both "
                "attentions of a method have one range, the methods have ranges of their own."
            ),
            attention_graph_maps,
        ),
    ),
)
