"""Parts of speech: all that the report says and shows of ``pos_attention`` (after Vig & Belinkov 2019).

A tag's colours run from none to the largest share any head gives it (in any run shown, and in either attention),
because a common scale would only show which tags are frequent.
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

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.heads import panel_height
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
from effective_attention.reports.findings import head_name, percent, said_of
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.reductions import attentions, by_layer, layer_by_head, one_line, panels

TAG_TITLES = {"cls": "[CLS]", "sep": "[SEP]"}
MOST_TAGS = 9
_TAGS_BESIDE = 5  # of each run, where there are several
_STRIP = 0.3  # of a heatmap's width


def has_part(table: DataFrame, *, direction: str, attention: str) -> bool:
    """Tell whether anything was counted in this direction."""
    return bool(_part(table, direction, attention)["value"].notna().any())


def _part(table: DataFrame, direction: str, attention: str) -> DataFrame:
    return table[(table["direction"] == direction) & (table["attention"] == attention)]


def targeted_tags(table: DataFrame, direction: str, most: int = MOST_TAGS) -> list[str]:
    """Return the tags that some head prefers most: by how far the largest share is above that of even attention."""
    rows = table[table["direction"] == direction]
    gains = (rows["value"] - rows["even"]).groupby(rows["tag"], sort=False).max().dropna()
    return [str(tag) for tag in gains.sort_values(ascending=False, kind="stable").index[:most]]


def _draw(table: DataFrame, *, direction: str, attention: str) -> Figure:
    """Draw a heatmap for each tag, and beside it the layers' averages.

    One run has up to nine tags, three side by side; of several each has its own line, with as many tags as fit.
    """
    rows = _part(table, direction, attention)
    shown = panels(rows)
    if len(shown) == 1:
        tags = targeted_tags(table, direction)
        across = min(3, len(tags))
        places = [(shown[0], tag) for tag in tags]
    else:
        tags = targeted_tags(table, direction, _TAGS_BESIDE)
        across = len(tags)
        places = [(panel, tag) for panel in shown for tag in tags]
    highest = table[table["direction"] == direction].groupby("tag")["value"].max()
    down = -(-len(places) // across)
    figure = _Blocks(down, across, flat=len(shown) > 1, heatmap=panel_height(rows, least=1.0))
    for place, (panel, tag) in enumerate(places):
        mine = panel.table[panel.table["tag"] == tag]
        pair = figure.pair(place)
        _pair(figure.figure, pair, mine, float(highest[tag]), bar=place + across >= len(places) or len(shown) == 1)
        pair[0].set_title(f"{TAG_TITLES.get(tag, tag)}, even {100 * float(mine['even'].mean()):.2g} %", fontsize=6.5)
        _name(pair[0], place, across, panel.title)
    figure.figure.supxlabel("head", fontsize=7)
    return figure.figure


class _Blocks:
    """Pairs of axes in a grid: a heatmap, and a narrow one beside it. ``flat``: only the last line has colour bars.

    ``heatmap`` is a heatmap's height in inches.
    """

    def __init__(self, down: int, across: int, *, flat: bool, heatmap: float) -> None:
        layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.03, wspace=0.02, hspace=0.03)
        around = 0.25 if flat else 0.65  # its title, numbers and colour bar
        height = (heatmap + around) * down + (0.7 if flat else 0.4)
        self.figure = Figure(figsize=(DOUBLE, height), layout=layout)
        self._across = across
        self._cells = self.figure.add_gridspec(down, 2 * across, width_ratios=[1.0, _STRIP] * across)

    def pair(self, place: int) -> tuple[Axes, Axes]:
        """Add the next heatmap's axes, and those beside it."""
        line, column = divmod(place, self._across)
        first, second = (self.figure.add_subplot(self._cells[line, 2 * column + side]) for side in (0, 1))
        return first, second


def _pair(figure: Figure, pair: tuple[Axes, Axes], rows: DataFrame, most: float, *, bar: bool) -> None:
    """Draw one tag's heads at the left, and its layers' averages at the right."""
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
    _layer_strip(pair[1], rows, COLOURS[kind])
    number_cells(pair[0], cells, most=6)


def _layer_strip(axes: Axes, rows: DataFrame, colour: str) -> None:
    """Draw the layers' averages from top to bottom; even attention is dotted."""
    means = by_layer(rows)
    even = float(rows["even"].mean())
    look: dict[str, Any] = {"color": colour, "linewidth": 1.0, "marker": "o", "markersize": 1.8}
    axes.plot(means, np.arange(len(means)) + 0.5, **look)
    axes.axvline(even, color="black", **EVEN)
    axes.set(ylim=(len(means), 0), yticks=[], xticks=[])
    axes.set_xlim(0, 1.2 * max(float(means.max()), even))
    tidy_axes(axes)


def _name(axes: Axes, place: int, across: int, title: str) -> None:
    """Name the run and number its layers, at the left only."""
    if place % across == 0:
        axes.set_ylabel(f"{title}\nlayer")
    else:
        axes.set_yticklabels([])


pos_attention = styled(partial(_draw, direction="to", attention="standard"))
pos_attention_effective = styled(partial(_draw, direction="to", attention="effective"))
pos_attention_from = styled(partial(_draw, direction="from", attention="standard"))


def pos_attention_grid(table: DataFrame) -> Grid:
    """Make the table of the tags that heads prefer most: even share, mean of all heads, and the head with most."""
    rows = []
    for panel in panels(table) if len(table) else ():
        for direction in ("to", "from"):
            mine = panel.table[panel.table["direction"] == direction]
            for tag in targeted_tags(mine, direction) if len(mine) else ():
                chosen = mine[mine["tag"] == tag]
                cells = [cell for kind in attentions(table) for cell in _preferred(chosen[chosen["attention"] == kind])]
                even = number(100 * chosen["even"].mean(), 1)
                rows.append([one_line(panel.title), direction, TAG_TITLES.get(tag, tag), even, *cells])
    kinds = attentions(table)
    columns = ["task", "direction", "tag", "even", *["mean", "most", "head"] * len(kinds)]
    groups = [("", 4), *((kind, 3) for kind in kinds)]
    return Grid("Attention to and from parts of speech, percent; the head with most.", columns, rows, groups, labels=3)


def _preferred(rows: DataFrame) -> list[str]:
    """Return the mean of all heads in percent, the largest, and the head that has it."""
    heads = rows.groupby(["layer", "head"])["value"].mean().dropna()
    if heads.empty:
        return [NONE] * 3
    layer, head = heads.idxmax()
    return [number(100 * heads.mean(), 1), number(100 * heads.max(), 1), head_name(layer, head)]


def found_tags(table: DataFrame) -> list[str]:
    """Say for each attention which head prefers a tag most: its share, and that of even attention."""
    said = []
    for panel in panels(table):
        for kind in attentions(panel.table):
            rows = _part(panel.table, "to", kind)
            heads = rows.groupby(["tag", "layer", "head"])[["value", "even"]].mean().dropna()
            if heads.empty:
                continue
            gains = heads["value"] - heads["even"]
            tag, layer, head = gains.idxmax()
            share, even = (percent(value) for value in heads.loc[(tag, layer, head)])
            name = TAG_TITLES.get(tag, tag)
            target = f"{head_name(layer, head)} prefers {name} most: {share} of its attention, where even attention has"
            none = f"no head gives a part of speech more than even attention does (best: {name}, {share} against"
            said.append(
                said_of(panel, table, f"{kind} attention: {target} {even}." if gains.max() > 0 else f"{none} {even}).")
            )
    return said


CHAPTER = Chapter(
    analysis="pos_attention",
    title="Parts of speech",
    source="Vig & Belinkov 2019",
    question="Are there heads that look for nouns, verbs or punctuation?",
    text=(
        "The share of a head's attention that goes to tokens of each part of speech, and the share that comes from "
        "them; every piece of a word carries the word's tag. The share that even attention would give stands in each "
        "panel's title. Shown are the tags that some head prefers most. Effective attention has negative weights: "
        "they count by their size or as nothing, as the column convention says (absolute or positive). "
        "Attention to the first token, where causal models rest, does not count there (column first_token)."
    ),
    paper_says=(
        "Vig & Belinkov find heads that target specific parts of speech. Their model is GPT-2 small (12 layers, 12 "
        "heads), a causal language model on Wikipedia; encoders read both ways."
    ),
    found=found_tags,
    figures=(
        Drawing(
            "pos_attention",
            (
                "Standard attention to each tag, by layer and head; beside it the layers' averages, with even "
                "attention dotted. A tag has its own colour scale."
            ),
            pos_attention,
            partial(has_part, direction="to", attention="standard"),
        ),
        Drawing(
            "pos_attention_effective",
            "Effective attention to each tag, on the same scales.",
            pos_attention_effective,
            partial(has_part, direction="to", attention="effective"),
        ),
        Drawing(
            "pos_attention_from",
            "Standard attention from each tag.",
            pos_attention_from,
            partial(has_part, direction="from", attention="standard"),
        ),
    ),
    tables=(pos_attention_grid,),
)
