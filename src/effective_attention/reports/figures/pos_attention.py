"""Which parts of speech heads attend to, and attend from (Vig & Belinkov 2019): a heatmap, layer by head, for each tag.

A tag's colours run from none to the largest share any head gives it (in any run shown, and in either attention),
because a common scale would only show which tags are frequent. Beside each heatmap the layers' averages; dotted, what
even attention would give.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from effective_attention.reports.drawing.layers import EVEN, PERCENT
from effective_attention.reports.drawing.style import (
    COLOURS,
    DOUBLE,
    SCALES,
    draw_cells,
    number_cells,
    styled,
    tidy_axes,
)
from effective_attention.reports.reductions import by_layer, layer_by_head, panels

TAG_TITLES = {"cls": "[CLS]", "sep": "[SEP]"}
MOST_TAGS = 9
_TAGS_IN_A_ROW = 5  # where a row is a run
_STRIP = 0.3  # of a heatmap's width


def has_part(table: DataFrame, *, direction: str, attention: str) -> bool:
    """Whether anything was counted in this direction."""
    return bool(_part(table, direction, attention)["value"].notna().any())


def _part(table: DataFrame, direction: str, attention: str) -> DataFrame:
    return table[(table["direction"] == direction) & (table["attention"] == attention)]


def targeted_tags(table: DataFrame, direction: str, most: int = MOST_TAGS) -> list[str]:
    """The tags that some head prefers most: by how far the largest share is above that of even attention."""
    rows = table[table["direction"] == direction]
    gains = (rows["value"] - rows["even"]).groupby(rows["tag"], sort=False).max().dropna()
    return [str(tag) for tag in gains.sort_values(ascending=False, kind="stable").index[:most]]


def _draw(table: DataFrame, *, direction: str, attention: str) -> Figure:
    """One run: up to nine tags in rows of three. Several: a row for each, with as many tags as there is room for."""
    rows = _part(table, direction, attention)
    shown = panels(rows)
    if len(shown) == 1:
        tags = targeted_tags(table, direction)
        across = min(3, len(tags))
        places = [(shown[0], tag) for tag in tags]
    else:
        tags = targeted_tags(table, direction, _TAGS_IN_A_ROW)
        across = len(tags)
        places = [(panel, tag) for panel in shown for tag in tags]
    highest = table[table["direction"] == direction].groupby("tag")["value"].max()
    down = -(-len(places) // across)
    figure = _Blocks(down, across, last=len(shown) > 1)
    for place, (panel, tag) in enumerate(places):
        mine = panel.table[panel.table["tag"] == tag]
        pair = figure.pair(place)
        _pair(figure.figure, pair, mine, float(highest[tag]), bar=place + across >= len(places) or len(shown) == 1)
        pair[0].set_title(f"{TAG_TITLES.get(tag, tag)}, even {100 * float(mine['even'].mean()):.2g} %", fontsize=6.5)
        _name(pair[0], place, across, panel.title)
    figure.figure.supxlabel("head", fontsize=7)
    return figure.figure


class _Blocks:
    """Pairs of axes in a grid: a heatmap, and a narrow one beside it."""

    def __init__(self, down: int, across: int, *, last: bool) -> None:
        layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.03, wspace=0.02, hspace=0.03)
        self.figure = Figure(figsize=(DOUBLE, (1.25 if last else 1.65) * down + (0.7 if last else 0.4)), layout=layout)
        self._across = across
        self._cells = self.figure.add_gridspec(down, 2 * across, width_ratios=[1.0, _STRIP] * across)

    def pair(self, place: int) -> tuple[Axes, Axes]:
        row, column = divmod(place, self._across)
        first, second = (self.figure.add_subplot(self._cells[row, 2 * column + side]) for side in (0, 1))
        return first, second


def _pair(figure: Figure, pair: tuple[Axes, Axes], rows: DataFrame, most: float, *, bar: bool) -> None:
    kind = str(rows["attention"].iloc[0]) if len(rows) else "standard"
    cells = layer_by_head(rows)
    mesh = draw_cells(pair[0], cells.to_numpy(float), cmap=SCALES[kind], vmin=0.0, vmax=most)
    if bar:
        colours = figure.colorbar(
            mesh, ax=list(pair), location="bottom", pad=0.02, aspect=24, fraction=0.06, format=PERCENT
        )
        colours.locator = MaxNLocator(3)
        colours.outline.set_visible(False)
        colours.ax.tick_params(labelsize=5.5)
    means = by_layer(rows)
    look: dict[str, Any] = {"color": COLOURS[kind], "linewidth": 1.0, "marker": "o", "markersize": 1.8}
    pair[1].plot(means, np.arange(len(means)) + 0.5, **look)
    pair[1].axvline(float(rows["even"].mean()), color="black", **EVEN)
    pair[1].set(ylim=(len(cells), 0), yticks=[], xticks=[])
    pair[1].set_xlim(0, 1.2 * max(float(means.max()), float(rows["even"].mean())))
    tidy_axes(pair[1])
    number_cells(pair[0], cells, most=6)


def _name(axes: Axes, place: int, across: int, title: str) -> None:
    """Layers are numbered at the left only."""
    if place % across == 0:
        axes.set_ylabel(f"{title}\nlayer")
    else:
        axes.set_yticklabels([])


pos_attention = styled(partial(_draw, direction="to", attention="standard"))
pos_attention_effective = styled(partial(_draw, direction="to", attention="effective"))
pos_attention_from = styled(partial(_draw, direction="from", attention="standard"))
