"""Another attention map with the same output (Brunner et al. §3.3): the head's own, the other one, and how far apart they are.

Distances are total variation: the share of a token's attention that can be moved elsewhere without changing the head's
output.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from pandas import DataFrame

from effective_attention.reports.drawing.layers import legend_below, name_tokens
from effective_attention.reports.drawing.style import (
    DOUBLE,
    draw_cells,
    grid,
    number_cells,
    styled,
    tidy_axes,
    width_for,
)
from effective_attention.reports.reductions import Panel, layer_by_head, one_line, panels, shortened

_MOST_NAMED = 38  # as many as three maps beside each other have room for
_MOST_BLOCKS = 4
_PER_TOKEN = 0.088  # inches: room for one line of 5.5 point
_OTHER = "#7b3294"
_METHOD = "program"
_FURTHEST = "furthest found (linear program)"
CHANGE_TITLES = {"head": "this head replaced", "all": "all heads replaced"}


def quantity(table: DataFrame, name: str, **where: str) -> DataFrame:
    """The rows of one quantity, further cut by columns' values."""
    rows = table[table["quantity"] == name]
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows


def distances(table: DataFrame) -> DataFrame:
    """The furthest map found for each layer, head and query: by linear program, else by the largest step."""
    rows = quantity(table, "distance")
    best = rows[rows["method"] == _METHOD]
    return best if len(best) else rows


def has_all_heads(table: DataFrame) -> bool:
    """Whether the distance is known for every head of every layer."""
    found = quantity(table, "distance").drop_duplicates(["layer", "head"])
    return len(found) > 1 and len(found) == (int(found["layer"].max()) + 1) * (int(found["head"].max()) + 1)


def shown_head(table: DataFrame) -> tuple[int, int]:
    """Layer and head whose maps the table holds."""
    row = quantity(table, "weight").iloc[0]
    return int(row["layer"]), int(row["head"])


def of_head(rows: DataFrame, place: tuple[int, int]) -> DataFrame:
    return rows[(rows["layer"] == place[0]) & (rows["head"] == place[1])]


@styled
def alternative_attention(table: DataFrame) -> Figure:
    """A block per task (of more than four the first four).

    Above: the head's own map, another one with the same output, and their difference. Below: how far each token's
        attention can
    be moved, by linear program and by the paper's largest step, and the bound no map can pass; in words, what the
    logits do.
    """
    shown = panels(table)[:_MOST_BLOCKS]
    tokens = min(_MOST_NAMED, int(quantity(table, "weight")["query"].max()) + 1)
    side = max(1.7, _PER_TOKEN * tokens)
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.04)
    figure = Figure(figsize=(max(DOUBLE, 3 * side + 1.3), (side + 2.75) * len(shown) + 0.25), layout=layout)
    cells = figure.add_gridspec(2 * len(shown), 3, height_ratios=[side, 0.8] * len(shown))
    for block, panel in enumerate(shown):
        maps = [figure.add_subplot(cells[2 * block, column]) for column in range(3)]
        _maps(figure, maps, panel)
        below = figure.add_subplot(cells[2 * block + 1, :])
        _by_query(below, panel.table)
        below.set_title(_said(panel.table), fontsize=6.5)
    handles, labels = below.get_legend_handles_labels()
    first = labels.index(_FURTHEST)
    order = [first, *(place for place in range(len(labels)) if place != first)]
    legend_below(figure, [handles[place] for place in order], [labels[place] for place in order])
    return figure


def attention_map(table: DataFrame, attention: str) -> DataFrame:
    """Queries as rows, keys as columns."""
    return quantity(table, "weight", attention=attention).pivot_table(index="query", columns="key", values="value")


def _maps(figure: Figure, row: list[Axes], panel: Panel) -> None:
    own, other = (attention_map(panel.table, name) for name in ("standard", "alternative"))
    highest = max(float(own.to_numpy(float).max()), float(other.to_numpy(float).max()))
    change = (other - own).to_numpy(float)
    reach = float(np.abs(change).max())
    reach = reach if reach > 1e-6 else 1.0  # the same map: no scale for rounding errors
    drawn = [
        ("its own attention", own.to_numpy(float), {"cmap": "Greens", "vmin": 0.0, "vmax": highest}),
        ("another, with the same output", other.to_numpy(float), {"cmap": "Purples", "vmin": 0.0, "vmax": highest}),
        ("difference", change, {"cmap": "PuOr", "vmin": -reach, "vmax": reach}),
    ]
    names = _names(panel.table)
    for axes, (title, values, scale) in zip(row, drawn, strict=True):
        mesh = draw_cells(axes, values, **scale)
        axes.set_aspect("equal")
        bar = figure.colorbar(mesh, ax=axes, location="bottom", pad=0.02, aspect=28, fraction=0.04, shrink=0.9)
        bar.set_label(title)
        bar.outline.set_visible(False)
        _name_both(axes, names, left=axes is row[0])
    layer, head = shown_head(panel.table)
    row[0].set_ylabel(f"{one_line(panel.title)}, layer {layer}, head {head}")


def _names(table: DataFrame) -> list[str]:
    rows = quantity(table, "weight").drop_duplicates("query").sort_values("query")
    return [str(name) for name in rows["query_token"]]


def _name_both(axes: Axes, names: list[str], *, left: bool) -> None:
    """Keys above, queries at the left of the first map."""
    name_tokens(axes, names, shift=0.5, most=_MOST_NAMED)
    axes.xaxis.tick_top()
    places = range(0, len(names), -(-len(names) // _MOST_NAMED))
    axes.set_yticks(
        [place + 0.5 for place in places], [shortened(names[place], 14) for place in places] if left else []
    )
    axes.tick_params(length=0, labelsize=5.5, pad=1.5)


def _by_query(axes: Axes, table: DataFrame) -> None:
    """Bars: the furthest map found; marks: the paper's step; lines above: the bound."""
    place = shown_head(table)

    def line(rows: DataFrame) -> DataFrame:
        return of_head(rows, place).astype({"query": int}).groupby("query")[["value"]].mean()

    furthest, step = line(distances(table)), line(quantity(table, "distance", method="step"))
    bound, names = line(quantity(table, "bound")), _names(table)
    axes.bar(furthest.index, furthest["value"], 0.7, color=_OTHER, alpha=0.75, label=_FURTHEST)
    axes.plot(step.index, step["value"], "o", color="#e69f00", markersize=2.6, label="largest step in one direction")
    if len(bound):
        axes.plot(bound.index, bound["value"], "_", color="black", markersize=5, label="no map is further than this")
    axes.set(xlim=(-0.8, len(names) - 0.2), ylim=(0, 1.04), ylabel="weight moved")
    name_tokens(axes, names, shift=0.0, most=_MOST_NAMED)
    tidy_axes(axes)


def _said(table: DataFrame) -> str:
    """What replacing the map does to the logits, beside as much weight moved at random."""
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
    """Layer by head: how much of a token's attention can be moved with the same output, mean over one text's tokens."""
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
