"""Brunner et al.'s Fig. 19-25, what one word is made of, and Fig. 26-37, own contribution by part of speech."""

from __future__ import annotations

from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from effective_attention.reports.drawing.layers import CHOSEN, PERCENT, name_tokens
from effective_attention.reports.drawing.style import DOUBLE, draw_cells, grid, number_cells, styled
from effective_attention.reports.figures.token_mixing import boxes, draw_boxes, own
from effective_attention.reports.reductions import Panel, one_line, panels, shortened, some_layers

_MOST_NAMED = 62
_MOST_TASKS = 4
_ACROSS = 3


def has_tags(table: DataFrame) -> bool:
    """Whether own contributions were also split by part of speech."""
    return bool(len(own(table, tags=True)))


@styled
def token_mixing_word(table: DataFrame) -> Figure:
    """A map per task (of more than four the first four): contributions of every token to the chosen one (orange), layer by layer.

    The first layer is at the bottom. Colours follow the square root: what a token keeps of itself would leave all else
    white.
    """
    shown = panels(table[table["quantity"] == "word"])[:_MOST_TASKS]
    layers = int(table["layer"].max()) + 1
    height = max(0.9, 0.13 * layers) + 0.75
    figure, axes = grid(len(shown), 1, width=DOUBLE, height=height * len(shown))
    for axis, panel in zip(axes[:, 0], shown, strict=True):
        _map(figure, axis, panel)
    return figure


def _map(figure: Figure, axes: Axes, panel: Panel) -> None:
    rows = panel.table.astype({"layer": int, "key": int, "query": int})
    cells = rows.pivot_table(index="layer", columns="key", values="value", aggfunc="mean")
    names = rows.drop_duplicates("key").sort_values("key")["token"].tolist()
    chosen = int(rows["query"].iloc[0])
    scale = colors.PowerNorm(0.5, vmin=0, vmax=float(cells.to_numpy(float).max()) or 1.0)
    mesh = draw_cells(axes, cells.to_numpy(float), cmap="Purples", norm=scale)
    axes.invert_yaxis()
    number_cells(axes, cells, x=False)
    name_tokens(axes, names, shift=0.5, most=_MOST_NAMED, chosen=chosen)
    for edge in (chosen, chosen + 1):
        axes.axvline(edge, color=CHOSEN, linewidth=0.8)
    axes.set_title(f"what “{shortened(names[chosen])}” is made of", fontsize=6.5)
    axes.set_ylabel(f"{one_line(panel.title)}\nlayer")
    bar = figure.colorbar(mesh, ax=axes, pad=0.01, aspect=14, fraction=0.05)
    bar.locator = MaxNLocator(3)
    bar.formatter = PERCENT
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=5.5, length=1)


@styled
def token_mixing_tags(table: DataFrame) -> Figure:
    """Boxes of own contribution by part of speech, ordered by the last layer's median, which is highest at the left.

    One task or setting has a panel for every layer; several have a row each, with the first, the middle and the last
    layer.
    """
    shown = panels(own(table, tags=True))
    rows = [(panel, layer) for panel in shown for layer in _layers(panel.table, all_of_them=len(shown) == 1)]
    across = min(_ACROSS, max(len(_layers(panel.table, all_of_them=len(shown) == 1)) for panel in shown))
    down = -(-len(rows) // across)
    height = (1.35 if len(shown) == 1 else 1.6) * down + 0.4
    figure, axes = grid(down, across, width=DOUBLE, height=height, sharey="row")
    for spare in axes.flat[len(rows) :]:
        spare.set_axis_off()
    for index, (axis, (panel, layer)) in enumerate(zip(axes.flat, rows, strict=False)):
        order = tag_order(panel.table)
        named = len(shown) > 1 or index + across >= len(rows)
        _tags(axis, panel.table[panel.table["layer"] == layer], order, named=named)
        axis.set_title(f"layer {layer}")
        axis.set_ylabel(f"{one_line(panel.title)}\nown contribution" if index % across == 0 else "")
    return figure


def _layers(table: DataFrame, *, all_of_them: bool) -> list[int]:
    return sorted(int(layer) for layer in table["layer"].unique()) if all_of_them else some_layers(table)


def tag_order(rows: DataFrame) -> list[str]:
    """Parts of speech by the last layer's median, the highest first."""
    last = rows[(rows["layer"] == rows["layer"].max()) & (rows["statistic"] == "median")]
    return last.groupby("tag")["value"].mean().sort_values(ascending=False, kind="stable").index.tolist()


def _tags(axes: Axes, rows: DataFrame, order: list[str], *, named: bool) -> None:
    statistics = boxes(rows, "tag")
    present = [place for place, tag in enumerate(order) if tag in statistics.index]
    draw_boxes(axes, statistics.loc[[order[place] for place in present]], places=present)
    axes.set_xlim(-0.7, len(order) - 0.3)
    axes.set_xticks(range(len(order)), order if named else [""] * len(order))
    axes.tick_params(axis="x", length=0, labelsize=5.5, labelrotation=90, pad=1.5)
