"""Where attention follows syntax (after Vig & Belinkov 2019): how much connects related words."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pandas import DataFrame

from effective_attention.reports.chapters.dependency_alignment.reductions import (
    DIRECTIONS,
    MOST_RELATIONS,
    Best,
    aligned,
    best_heads,
    fixed_rules,
    hits,
)
from effective_attention.reports.drawing.heads import Quantity, layered_heads
from effective_attention.reports.drawing.layers import PERCENT, legend_below
from effective_attention.reports.drawing.style import COLOURS, DOUBLE, SINGLE, grid, styled, tidy_axes
from effective_attention.reports.reductions import Panel, attentions, panels

_FEWEST_ROWS = 6  # high is a panel at least, so that its name finds room
_SHAPES = {"standard": "o", "effective": "s"}
_ALIGNMENT = Quantity("share between related words")
_RULE_LOOK: dict[str, Any] = {
    "color": "#7f7f7f",
    "marker": "|",
    "markersize": 5,
    "markeredgewidth": 0.9,
    "linestyle": "none",
    "zorder": 1,
    "clip_on": False,
}


@styled
def dependency_alignment(table: DataFrame) -> Figure:
    """Draw the share of each head beside the layers' averages; the fixed rules as upright lines."""
    return layered_heads(aligned(table), _ALIGNMENT, fixed_rules)


@styled
def dependency_alignment_relations(table: DataFrame) -> Figure:
    """Draw for each relation how often its best head is right, and which head that is; a panel per task or setting."""
    shown = panels(hits(table))
    across = min(2, len(shown))
    down = -(-len(shown) // across)
    rows = max(_FEWEST_ROWS, min(MOST_RELATIONS, hits(table)["relation"].nunique()))
    width = DOUBLE if len(shown) > 1 else SINGLE
    figure, axes = grid(down, across, width=width, height=(0.155 * rows + 0.5) * down + 0.55, sharex=True)
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
    """Draw one run, ordered by standard attention's gain, or by effective attention's where that alone was read."""
    kinds = attentions(panel.table)
    found = {kind: {best.relation: best for best in best_heads(panel.table, kind)} for kind in kinds}
    first = list(found[kinds[0]].values())
    order = [best.relation for best in first]
    axes.hlines(range(len(first)), 0, [best.value for best in first], color="#e5e5e5", linewidth=0.6, zorder=0)
    axes.plot([best.reached for best in first], range(len(first)), **_RULE_LOOK)
    for place, kind in enumerate(kinds):
        beside = (0.36 * place - 0.18) * (len(kinds) - 1)  # so that neither hides the other
        for direction, filled in zip(DIRECTIONS, (COLOURS[kind], "white"), strict=True):
            _dots(axes, [found[kind].get(name) for name in order], direction, kind, filled, beside)
    for height, relation in enumerate(order):
        mine = [found[kind][relation] for kind in kinds if relation in found[kind]]
        names = dict.fromkeys(f"L{best.layer} H{best.head}" for best in mine)
        axes.text(1.03, height, " / ".join(names), va="center", fontsize=5.5, color="#444444")
    _relation_axes(axes, order, panel.title)


def _relation_axes(axes: Axes, order: list[str], title: str) -> None:
    """Name the relations at the left and percent below."""
    axes.set_yticks(range(len(order)), order)
    axes.set(xlim=(0, 1.42), ylim=(len(order) - 0.4, -0.6), title=title.replace("\n", ", "))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    axes.xaxis.set_major_formatter(PERCENT)
    tidy_axes(axes)


def _dots(axes: Axes, found: list[Best | None], direction: str, kind: str, filled: str, beside: float) -> None:
    """Draw the best heads of one attention that look in this direction."""
    mine = [(height, best) for height, best in enumerate(found) if best is not None and best.direction == direction]
    look: dict[str, Any] = {"color": COLOURS[kind], "markerfacecolor": filled, "markersize": 3.6}
    axes.plot(
        [best.value for _, best in mine],
        [height + beside for height, _ in mine],
        _SHAPES[kind],
        markeredgewidth=0.9,
        linestyle="none",
        zorder=3,
        **look,
    )


def _legend(figure: Figure, kinds: list[str]) -> None:
    handles = [
        Line2D([], [], color=COLOURS[kind], marker=_SHAPES[kind], linestyle="none", markersize=3.6) for kind in kinds
    ]
    labels = [*kinds, "best fixed rule"]
    handles.append(Line2D([], [], **_RULE_LOOK))
    for filled, title in zip(("black", "white"), DIRECTIONS.values(), strict=True):
        handles.append(
            Line2D([], [], color="black", marker="o", markerfacecolor=filled, linestyle="none", markersize=3.6)
        )
        labels.append(title)
    legend_below(figure, handles, labels, most=2 if figure.get_figwidth() < DOUBLE else 4)
