"""Where attention follows syntax (Vig & Belinkov 2019): the share that connects words in a dependency relation.

A share says little alone, so what fixed rules reach stands beside it: all attention to the previous or next word, or
even.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pandas import DataFrame

from effective_attention.reports.drawing.heads import Quantity, layered_heads
from effective_attention.reports.drawing.layers import PERCENT, legend_below
from effective_attention.reports.drawing.style import COLOURS, DOUBLE, SINGLE, grid, styled, tidy_axes
from effective_attention.reports.reductions import Panel, attentions, panels

BASELINES = ("previous", "next", "random")
DIRECTIONS = {"to_head": "dependent looks at its head", "from_head": "head looks at its dependent"}
MOST_RELATIONS = 20
_MARKS = {"previous": "<", "next": ">", "random": "|"}
_SHAPES = {"standard": "o", "effective": "s"}
_ALIGNMENT = Quantity("share between related words")


@dataclass(frozen=True)
class Best:
    """The head that finds a relation's partner most often; ``baselines`` are those of the same direction."""

    relation: str
    direction: str
    layer: int
    head: int
    value: float
    count: int
    baselines: dict[str, float]

    @property
    def gain(self) -> float:
        """Over the best of the fixed rules."""
        known = [value for value in self.baselines.values() if np.isfinite(value)]
        return self.value - max(known, default=0.0)


def aligned(table: DataFrame) -> DataFrame:
    """The share of attention between words in any relation, either way: heads and baselines."""
    return table[(table["relation"] == "all") & (table["direction"] == "either") & (table["statistic"] == "share")]


def baselines(rows: DataFrame) -> dict[str, float]:
    """What the fixed rules reach, by name; those the rows have."""
    means = rows[rows["attention"] == "baseline"].groupby("baseline")["value"].mean()
    return {name: float(means[name]) for name in BASELINES if name in means}


def has_alignment(table: DataFrame) -> bool:
    """Whether any text had words that are related."""
    rows = aligned(table)
    return bool(rows.loc[rows["attention"] != "baseline", "value"].notna().any())


def has_relations(table: DataFrame) -> bool:
    """Whether any relation was seen often enough to have rows of its own."""
    return bool(hits(table)["value"].notna().any())


def hits(table: DataFrame) -> DataFrame:
    """How often the largest weight is on the partner, for each relation and direction."""
    return table[
        (table["statistic"] == "hits") & (table["relation"] != "all") & table["direction"].isin(list(DIRECTIONS))
    ]


def best_heads(table: DataFrame, attention: str) -> list[Best]:
    """For each relation its best head, whichever direction it looks in; the largest gain over the baselines first.

    Of many relations the most frequent. Seeds of one setting are averaged, so that the head is the same in all of them.
    """
    rows = hits(table)
    often = rows.groupby("relation")["count"].max().nlargest(MOST_RELATIONS)
    rows = rows[rows["relation"].isin(often.index)]
    heads = (
        rows[rows["attention"] == attention]
        .groupby(["relation", "direction", "layer", "head"])["value"]
        .mean()
        .dropna()
    )
    fixed = rows[rows["attention"] == "baseline"].groupby(["relation", "direction", "baseline"])["value"].mean()
    found = []
    for relation, direction, layer, head in heads.groupby(level="relation").idxmax():
        rules = {
            name: float(fixed[place]) for name in BASELINES if (place := (relation, direction, name)) in fixed.index
        }
        value = float(heads[relation, direction, layer, head])
        found.append(Best(str(relation), str(direction), int(layer), int(head), value, int(often[relation]), rules))
    return sorted(found, key=lambda best: (-best.gain, best.relation))


@styled
def dependency_alignment(table: DataFrame) -> Figure:
    """Layer by head beside the layers' averages; the fixed rules as upright lines."""
    return layered_heads(aligned(table), _ALIGNMENT, baselines)


@styled
def dependency_alignment_relations(table: DataFrame) -> Figure:
    """For each relation how often its best head is right, and which head that is; a panel per task or setting."""
    shown = panels(table[table.index.isin(hits(table).index)])
    across = min(2, len(shown))
    down = -(-len(shown) // across)
    most = min(MOST_RELATIONS, hits(table)["relation"].nunique())
    width = DOUBLE if len(shown) > 1 else SINGLE
    figure, axes = grid(down, across, width=width, height=(0.155 * most + 0.5) * down + 0.55, sharex=True)
    for spare in axes.flat[len(shown) :]:
        spare.set_axis_off()
    for place, (axis, panel) in enumerate(zip(axes.flat, shown, strict=False)):
        _relations(axis, panel)
        axis.tick_params(labelbottom=place + across >= len(shown))
        axis.set_xlabel("found by the best head" if place + across >= len(shown) else "")
        axis.set_ylabel("relation" if place % across == 0 else "")
    _legend(figure, attentions(table))
    return figure


def _relations(axes: Axes, panel: Panel) -> None:
    """Ordered by standard attention's gain, or by effective attention's where that alone was read."""
    kinds = attentions(panel.table)
    found = {kind: {best.relation: best for best in best_heads(panel.table, kind)} for kind in kinds}
    order = list(found[kinds[0]])
    axes.hlines(
        range(len(order)), 0, [found[kinds[0]][name].value for name in order], color="#e5e5e5", linewidth=0.6, zorder=0
    )
    for name in BASELINES:
        values = [found[kinds[0]][relation].baselines.get(name, np.nan) for relation in order]
        look = {
            "color": "#7f7f7f",
            "markersize": 3,
            "markeredgewidth": 0.7,
            "linestyle": "none",
            "zorder": 1,
            "clip_on": False,
        }
        axes.plot(values, range(len(order)), _MARKS[name], **look)  # type: ignore[arg-type]
    for place, kind in enumerate(kinds):
        beside = (0.36 * place - 0.18) * (len(kinds) - 1)  # so that neither hides the other
        for direction, filled in zip(DIRECTIONS, (COLOURS[kind], "white"), strict=True):
            _dots(axes, [found[kind].get(name) for name in order], direction, kind, filled, beside)
    for row, relation in enumerate(order):
        mine = [found[kind][relation] for kind in kinds if relation in found[kind]]
        names = dict.fromkeys(f"{best.layer}.{best.head}" for best in mine)
        axes.text(1.03, row, " / ".join(names), va="center", fontsize=5.5, color="#444444")
    axes.set_yticks(range(len(order)), order)
    axes.set(xlim=(0, 1.3), ylim=(len(order) - 0.4, -0.6), title=panel.title.replace("\n", ", "))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    axes.xaxis.set_major_formatter(PERCENT)
    tidy_axes(axes)


def _dots(axes: Axes, found: list[Best | None], direction: str, kind: str, filled: str, beside: float) -> None:
    places = [
        (best.value, row + beside) for row, best in enumerate(found) if best is not None and best.direction == direction
    ]
    x, y = zip(*places, strict=True) if places else ((), ())
    look = {
        "color": COLOURS[kind],
        "markerfacecolor": filled,
        "markersize": 3.6,
        "markeredgewidth": 0.9,
        "linestyle": "none",
    }
    axes.plot(x, y, _SHAPES[kind], zorder=3, **look)  # type: ignore[arg-type]


def _legend(figure: Figure, kinds: list[str]) -> None:
    handles = [
        Line2D([], [], color=COLOURS[kind], marker=_SHAPES[kind], linestyle="none", markersize=3.6) for kind in kinds
    ]
    labels = list(kinds)
    for filled, title in zip(("black", "white"), DIRECTIONS.values(), strict=True):
        handles.append(
            Line2D([], [], color="black", marker="o", markerfacecolor=filled, linestyle="none", markersize=3.6)
        )
        labels.append(title)
    for name in BASELINES:
        handles.append(Line2D([], [], color="#7f7f7f", marker=_MARKS[name], linestyle="none", markersize=3))
        labels.append("random" if name == "random" else f"{name} word")
    legend_below(figure, handles, labels, most=2 if figure.get_figwidth() < DOUBLE else 4)
