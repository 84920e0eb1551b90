"""Brunner et al.'s Fig. 3, 4, 18 to 37 and 40 to 43: what a hidden embedding is made of."""

from __future__ import annotations

from typing import Any

from matplotlib import colormaps, colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from effective_attention.reports.chapters.token_mixing.reductions import BOX, GROUPS, boxes, own, tag_order
from effective_attention.reports.drawing.layers import (
    CHOSEN,
    PAPER,
    PERCENT,
    layer_axis,
    name_tokens,
    shared_legend,
)
from effective_attention.reports.drawing.style import (
    DOUBLE,
    MARKERS,
    draw_cells,
    grid,
    number_cells,
    styled,
    tidy_axes,
)
from effective_attention.reports.papers.brunner2020 import BRUNNER_LAYERS, BRUNNER_NOT_LARGEST, BRUNNER_OWN
from effective_attention.reports.reductions import Panel, by_layer, one_line, panels, shortened, some_layers

_LAYER_COLOURS = ("#56b4e9", "#0072b2", "#000000")  # first, middle, last
_BOX_LOOK: dict[str, Any] = {
    "showfliers": False,
    "patch_artist": True,
    "boxprops": {"facecolor": "#d6e6f2", "edgecolor": "#2166ac", "linewidth": 0.6},
    "medianprops": {"color": "#d55e00", "linewidth": 1.3},
    "whiskerprops": {"color": "#2166ac", "linewidth": 0.6},
    "capprops": {"color": "#2166ac", "linewidth": 0.6},
}
_MOST_NAMED = 62
_MOST_TASKS = 4
_ACROSS = 3
_WIDE = 24  # tags, from which on a panel takes a line of its own


def _boxes(axes: Axes, statistics: DataFrame, *, places: list[int]) -> None:
    """Draw a box for each row of statistics; outliers are not kept, hence not shown, as in the paper."""
    numbers = [{name: float(row[column]) for name, column in BOX.items()} for _, row in statistics.iterrows()]
    axes.bxp(numbers, positions=places, widths=0.62, **_BOX_LOOK)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PERCENT)
    tidy_axes(axes)


@styled
def token_mixing(table: DataFrame) -> Figure:
    """Draw own contribution by layer as boxes, and how many tokens' own input is not the largest contributor.

    Crosses are the paper's numbers, on MRPC and where the model has as many layers as the paper's.
    """
    shown = panels(table)
    figure, axes = grid(len(shown), 2, width=DOUBLE, height=1.75 * len(shown) + 0.4)
    for line, panel in zip(axes, shown, strict=True):
        statistics = boxes(own(panel.table), "layer")
        _boxes(line[0], statistics, places=[int(layer) for layer in statistics.index])
        _not_largest(line[1], panel.table[panel.table["quantity"] == "not_largest"])
        _paper(line, panel)
        line[0].set_ylabel(f"{one_line(panel.title)}\nown contribution")
        line[1].set_ylabel("not the largest")
        for axis in line:
            _number_layers(axis, [int(layer) for layer in statistics.index])
            axis.set_xlabel("layer" if axis in axes[-1] else "")
    return figure


def _not_largest(axes: Axes, rows: DataFrame) -> None:
    """Draw the share of tokens that are not their own largest contributor."""
    share = by_layer(rows)
    axes.plot(share.index, share, color="#2166ac", marker="o", linewidth=1, label="ours")
    axes.set_ylim(-0.02 * max(0.05, share.max()), 1.08 * max(0.05, share.max()))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(PERCENT)


def _number_layers(axes: Axes, layers: list[int]) -> None:
    """Write at most twelve layers below, with room for a box on either side."""
    step = -(-len(layers) // 12)
    axes.set_xlim(-0.7, max(layers) + 0.7)
    axes.set_xticks(layers[::step], [str(layer) for layer in layers[::step]])
    tidy_axes(axes)


def _paper(line: Any, panel: Panel) -> None:
    """Draw the paper's medians and shares, moved by one: it counts layers from 1."""
    if panel.task != "mrpc" or int(panel.table["layer"].max()) + 1 != BRUNNER_LAYERS:
        return
    for axes, printed in zip(line, (BRUNNER_OWN, BRUNNER_NOT_LARGEST), strict=True):
        axes.plot([layer - 1 for layer in printed], list(printed.values()), label="paper, BERT-base", **PAPER)
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.15 * max(printed.values())))
    line[0].legend(loc="upper right", handlelength=1)


@styled
def token_mixing_context(table: DataFrame) -> Figure:
    """Draw where the context of a token is, a line of two panels per task.

    Left, in which layer a group of neighbours counts most: each group's contributions sum to 1 over layers. Right, the
    share of a layer's contributions that comes from each relative position, for the first, middle and last layer; the
    token itself (position 0) is left out, it would hide the rest.
    """
    shown = panels(table[table["quantity"].isin(("neighbour", "offset"))])
    figure, axes = grid(len(shown), 2, width=DOUBLE, height=1.8 * len(shown) + 0.65)
    for line, panel in zip(axes, shown, strict=True):
        _groups(
            line[0], panel.table[(panel.table["quantity"] == "neighbour") & (panel.table["statistic"] == "relative")]
        )
        rows = panel.table[(panel.table["quantity"] == "offset") & (panel.table["statistic"] == "total")]
        _positions(line[1], rows[rows["offset"] != 0])
        line[0].set_ylabel(f"{one_line(panel.title)}\nrelative contribution")
        line[1].set_ylabel("total contribution")
        layer_axis(line[0], label=False)
    axes[-1, 0].set_xlabel("layer")
    axes[-1, 1].set_xlabel("relative position")
    shared_legend(figure, axes, most=6)
    return figure


def _groups(axes: Axes, rows: DataFrame) -> None:
    """Draw a line for each group of neighbours: near ones dark, far ones light."""
    for place, group in enumerate(name for name in GROUPS if (rows["group"] == name).any()):
        line = by_layer(rows[rows["group"] == group])
        several = "-" in group or "+" in group
        title = f"neighbours {group.replace('-', chr(0x2013))}" if several else f"neighbour {group}"
        look: dict[str, Any] = {"color": colormaps["plasma"](0.16 * place), "marker": MARKERS[place]}
        axes.plot(line.index, line, linewidth=1, markersize=2.8, label=title, **look)


def _positions(axes: Axes, rows: DataFrame) -> None:
    """Draw some layers by position, as lines that break at the centre where it is left out."""
    for colour, layer in zip(_LAYER_COLOURS, some_layers(rows) if len(rows) else (), strict=False):
        mine = rows[rows["layer"] == layer].astype({"offset": int}).groupby("offset")["value"].mean()
        whole = mine.reindex(range(int(mine.index.min()), int(mine.index.max()) + 1))
        dashes = {"#56b4e9": (0, (1, 1)), "#0072b2": (0, (4, 1.5))}.get(colour, "-")
        axes.plot(whole.index, whole, color=colour, linewidth=1, linestyle=dashes, label=f"layer {layer}")
    axes.axvline(0, color="#bdbdbd", linewidth=0.6, zorder=0)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(PERCENT)
    tidy_axes(axes)


@styled
def token_mixing_cls(table: DataFrame) -> Figure:
    """Draw contributions to [CLS] by position, from [CLS] itself (left; its own left out) and from the first [SEP]."""
    rows = table[table["quantity"] == "cls"]
    shown = panels(rows)
    centres = [name for name in ("cls", "sep") if (rows["centre"] == name).any()]
    figure, axes = grid(len(shown), len(centres), width=DOUBLE, height=1.6 * len(shown) + 0.55)
    for line, panel in zip(axes, shown, strict=True):
        for axis, centre in zip(line, centres, strict=True):
            mine = panel.table[panel.table["centre"] == centre]
            _positions(axis, mine[mine["offset"] != 0] if centre == "cls" else mine)
            token = _answering(rows) if centre == "cls" else "the first [SEP]"
            title = f"position {'after' if token == '[CLS]' else 'relative to'} {token}"
            axis.set_xlabel(title if axis in axes[-1] else "")
        line[0].set_ylabel(f"{one_line(panel.title)}\ncontribution to {_answering(panel.table)}")
    shared_legend(figure, axes)
    return figure


def _answering(rows: DataFrame) -> str:
    """Name the token that the model answers from: nothing comes after the last one."""
    offsets = rows.loc[rows["centre"] == "cls", "offset"]
    return "the last token" if len(offsets) and offsets.max() <= 0 else "[CLS]"


@styled
def token_mixing_word(table: DataFrame) -> Figure:
    """Draw a map per task: contributions of every token to the chosen one (orange), layer by layer.

    Of more than four tasks the first four are drawn. The first layer is at the bottom. Colours follow the square root:
    what a token keeps of itself would leave all else white.
    """
    shown = panels(table[table["quantity"] == "word"])[:_MOST_TASKS]
    layers = int(table["layer"].max()) + 1
    height = max(0.9, 0.13 * layers) + 0.75
    figure, axes = grid(len(shown), 1, width=DOUBLE, height=height * len(shown))
    for axis, panel in zip(axes[:, 0], shown, strict=True):
        _map(figure, axis, panel)
    return figure


def _map(figure: Figure, axes: Axes, panel: Panel) -> None:
    """Draw what one run's chosen token is made of."""
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
    """Draw own contribution by part of speech as boxes, ordered by the last layer's median, the highest at the left.

    One task or setting has a panel for every layer; several have a line each, with the first, the middle and the last
    layer. Panels of many tags (the Penn Treebank's) stand below each other.
    """
    shown = panels(own(table, tags=True))
    layers = [_layers(panel.table, all_of_them=len(shown) == 1) for panel in shown]
    places = [(panel, layer) for panel, mine in zip(shown, layers, strict=True) for layer in mine]
    wide = max(panel.table["tag"].nunique() for panel in shown) > _WIDE
    across = 1 if wide else min(_ACROSS, max(len(mine) for mine in layers))
    down = -(-len(places) // across)
    height = (1.35 if len(shown) == 1 else 1.6) * down + 0.4
    figure, axes = grid(down, across, width=DOUBLE, height=height, sharey="row")
    for spare in axes.flat[len(places) :]:
        spare.set_axis_off()
    for index, (axis, (panel, layer)) in enumerate(zip(axes.flat, places, strict=False)):
        order = tag_order(panel.table)
        named = len(shown) > 1 or index + across >= len(places)
        _tags(axis, panel.table[panel.table["layer"] == layer], order, named=named)
        axis.set_title(f"layer {layer}")
        axis.set_ylabel(f"{one_line(panel.title)}\nown contribution" if index % across == 0 else "")
    return figure


def _layers(table: DataFrame, *, all_of_them: bool) -> list[int]:
    return sorted(int(layer) for layer in table["layer"].unique()) if all_of_them else some_layers(table)


def _tags(axes: Axes, rows: DataFrame, order: list[str], *, named: bool) -> None:
    """Draw a box for each part of speech that the layer has."""
    statistics = boxes(rows, "tag")
    present = [place for place, tag in enumerate(order) if tag in statistics.index]
    _boxes(axes, statistics.loc[[order[place] for place in present]], places=present)
    axes.set_xlim(-0.7, len(order) - 0.3)
    axes.set_xticks(range(len(order)), order if named else [""] * len(order))
    axes.tick_params(axis="x", length=0, labelsize=5.5, labelrotation=90, pad=1.5)
