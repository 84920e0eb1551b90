"""Brunner et al.'s Fig. 3, 4, 18 and 40-43: how much of a hidden embedding comes from its own input, and from which neighbours.

A contribution is a share: those of all input tokens to one hidden embedding sum to 1. Layers are counted from 0, in the
paper from 1.
"""

from __future__ import annotations

from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from effective_attention.reports.drawing.layers import PAPER, PERCENT, layer_axis, shared_legend
from effective_attention.reports.drawing.style import DOUBLE, MARKERS, grid, styled, tidy_axes
from effective_attention.reports.papers.brunner2020 import BRUNNER_LAYERS, BRUNNER_NOT_LARGEST, BRUNNER_OWN
from effective_attention.reports.reductions import Panel, by_layer, one_line, panels, some_layers

GROUPS = ("1", "2", "3", "4-5", "6-10", "11+")
BOX = {"whislo": "whisker_low", "q1": "quartile_1", "med": "median", "q3": "quartile_3", "whishi": "whisker_high"}
_LAYER_COLOURS = ("#56b4e9", "#0072b2", "#000000")  # first, middle, last
_BOX_LOOK: dict[str, Any] = {
    "showfliers": False,
    "patch_artist": True,
    "boxprops": {"facecolor": "#d6e6f2", "edgecolor": "#2166ac", "linewidth": 0.6},
    "medianprops": {"color": "#d55e00", "linewidth": 1.3},
    "whiskerprops": {"color": "#2166ac", "linewidth": 0.6},
    "capprops": {"color": "#2166ac", "linewidth": 0.6},
}


def has_quantity(table: DataFrame, name: str) -> bool:
    return bool((table["quantity"] == name).any())


def own(table: DataFrame, *, tags: bool = False) -> DataFrame:
    """Contributions of a token's own input: over all tokens, or by part of speech."""
    rows = table[table["quantity"] == "own"].astype({"layer": int})
    tagged = rows["tag"].fillna("") != ""
    return rows[tagged if tags else ~tagged]


def boxes(rows: DataFrame, by: str) -> DataFrame:
    """The statistics of a box by layer or tag; several runs of one setting are averaged."""
    return rows.pivot_table(index=by, columns="statistic", values="value", aggfunc="mean")[list(BOX.values())]


def draw_boxes(axes: Axes, statistics: DataFrame, *, places: list[int]) -> None:
    """One box for each row, from its statistics; outliers are not kept, hence not shown, as in the paper."""
    drawn = [{name: float(row[column]) for name, column in BOX.items()} for _, row in statistics.iterrows()]
    axes.bxp(drawn, positions=places, widths=0.62, **_BOX_LOOK)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PERCENT)
    tidy_axes(axes)


@styled
def token_mixing(table: DataFrame) -> Figure:
    """A row per task. Left, boxes of own contribution by layer; right, tokens whose own input is not the largest contributor.

    Crosses are the paper's numbers, on MRPC and where the model has as many layers as the paper's.
    """
    shown = panels(table)
    figure, axes = grid(len(shown), 2, width=DOUBLE, height=1.75 * len(shown) + 0.4)
    for line, panel in zip(axes, shown, strict=True):
        statistics = boxes(own(panel.table), "layer")
        draw_boxes(line[0], statistics, places=[int(layer) for layer in statistics.index])
        share = by_layer(panel.table[panel.table["quantity"] == "not_largest"])
        line[1].plot(share.index, share, color="#2166ac", marker="o", linewidth=1, label="ours")
        line[1].set_ylim(-0.02 * max(0.05, share.max()), 1.08 * max(0.05, share.max()))
        line[1].yaxis.set_major_locator(MaxNLocator(5))
        line[1].yaxis.set_major_formatter(PERCENT)
        _paper(line, panel)
        line[0].set_ylabel(f"{one_line(panel.title)}\nown contribution")
        line[1].set_ylabel("not the largest")
        for axis in line:
            axis.set_xlim(-0.7, statistics.index.max() + 0.7)
            step = -(-len(statistics) // 12)
            axis.set_xticks(list(statistics.index[::step]), [str(layer) for layer in statistics.index[::step]])
            axis.set_xlabel("layer" if axis in axes[-1] else "")
            tidy_axes(axis)
    return figure


def _paper(line: Any, panel: Panel) -> None:
    """The paper's medians and shares, moved by one: it counts layers from 1."""
    if panel.task != "mrpc" or int(panel.table["layer"].max()) + 1 != BRUNNER_LAYERS:
        return
    for axes, printed in zip(line, (BRUNNER_OWN, BRUNNER_NOT_LARGEST), strict=True):
        axes.plot([layer - 1 for layer in printed], list(printed.values()), label="paper, BERT-base", **PAPER)
        axes.set_ylim(top=max(axes.get_ylim()[1], 1.15 * max(printed.values())))
    line[0].legend(loc="upper right", handlelength=1)


@styled
def token_mixing_context(table: DataFrame) -> Figure:
    """A row per task. Left, in which layer a group of neighbours counts most: each group's contributions sum to 1 over layers.

    Right, the share of a layer's contributions that comes from each relative position, for the first, middle and last
    layer; the token itself (position 0) is left out, it would hide the rest.
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
    """Near neighbours dark, far ones light."""
    for place, group in enumerate(name for name in GROUPS if (rows["group"] == name).any()):
        line = by_layer(rows[rows["group"] == group])
        title = (
            f"neighbours {group.replace('-', chr(0x2013))}" if "-" in group or "+" in group else f"neighbour {group}"
        )
        look: dict[str, Any] = {"color": colormaps["plasma"](0.16 * place), "marker": MARKERS[place]}
        axes.plot(line.index, line, linewidth=1, markersize=2.8, label=title, **look)


def _positions(axes: Axes, rows: DataFrame) -> None:
    """Lines that break at the centre, which is left out."""
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
    """A row per task: contributions to [CLS] by position, from [CLS] itself (left; its own left out) and from the first [SEP]."""
    rows = table[table["quantity"] == "cls"]
    shown, centres = panels(rows), [name for name in ("cls", "sep") if (rows["centre"] == name).any()]
    figure, axes = grid(len(shown), len(centres), width=DOUBLE, height=1.6 * len(shown) + 0.55)
    for line, panel in zip(axes, shown, strict=True):
        for axis, centre in zip(line, centres, strict=True):
            mine = panel.table[panel.table["centre"] == centre]
            _positions(axis, mine[mine["offset"] != 0] if centre == "cls" else mine)
            title = {"cls": "position after [CLS]", "sep": "position relative to the first [SEP]"}[centre]
            axis.set_xlabel(title if axis in axes[-1] else "")
        line[0].set_ylabel(f"{one_line(panel.title)}\ncontribution to [CLS]")
    shared_legend(figure, axes)
    return figure
