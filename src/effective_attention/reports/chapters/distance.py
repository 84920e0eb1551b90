"""How far attention reaches: all that the report says and shows of ``distance``."""

from __future__ import annotations

from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing, Scalars
from effective_attention.reports.drawing.heads import Quantity, layered_heads
from effective_attention.reports.drawing.layers import EVEN, layer_axis, legend_below
from effective_attention.reports.drawing.style import COLOURS, DOUBLE, MARKERS, grid, styled
from effective_attention.reports.findings import changes, extreme_layers, under_effective
from effective_attention.reports.grid import Grid
from effective_attention.reports.layer_tables import layer_means_grid
from effective_attention.reports.reductions import attentions, by_layer, by_weights, has_values, one_line
from effective_attention.reports.scalars import layer_means

_BEFORE = "#8c8c8c"  # the pretrained model, where it stands beside the finetuned one


def even_distance(table: DataFrame) -> dict[str, float]:
    """Return what even attention would give on the same pairs."""
    return {"even attention": float(table["even"].mean())}


@styled
def distance(table: DataFrame) -> Figure:
    """Draw the mean distance of each head, and the layers' averages beside even attention."""
    return layered_heads(table, Quantity("mean distance (tokens)"), even_distance)


@styled
def distance_depth(table: DataFrame) -> Figure:
    """Draw mean distance by layer, a line of panels per task, a panel per attention; a dot is a head."""
    shown = by_weights(table)
    kinds = attentions(table)
    figure, axes = grid(len(shown), len(kinds), width=DOUBLE, height=1.6 * len(shown) + 0.5, sharey="row")
    for line, (panel, states) in zip(axes, shown, strict=True):
        for axis, kind in zip(line, kinds, strict=True):
            _both_states(axis, states, kind)
            axis.axhline(float(panel.table["even"].mean()), color="black", **EVEN)
            axis.set_title(f"{kind} attention" if axis in axes[0] else "")
            layer_axis(axis, label=axis in axes[-1])
        line[0].set_ylim(bottom=0)  # after all dots, which both panels' range must hold
        line[0].set_ylabel(f"{one_line(panel.title)}\nmean distance (tokens)")
    _legend(figure, kinds, {state for _, states in shown for state in states})
    return figure


def _both_states(axes: Axes, states: dict[str, DataFrame], kind: str) -> None:
    """Draw the pretrained model, then the finetuned one beside it; whichever there is alone stands in the middle."""
    for place, (state, rows) in enumerate(sorted(states.items(), reverse=True)):  # pretrained first
        colour = _BEFORE if state == "pretrained" and len(states) > 1 else COLOURS[kind]
        _dots(axes, rows[rows["attention"] == kind], colour, MARKERS[place], (place - 0.5) * (len(states) - 1))


def _dots(axes: Axes, rows: DataFrame, colour: str, marker: str, side: float) -> None:
    means = by_layer(rows)
    heads = rows.astype({"layer": int}).groupby(["layer", "head"])["value"].mean().reset_index()  # over seeds
    dots: dict[str, Any] = {"markersize": 2.2, "markeredgewidth": 0, "alpha": 0.45, "linestyle": "none", "zorder": 2}
    axes.plot(heads["layer"] + 0.2 * side, heads["value"], marker, color=colour, **dots)
    axes.plot(means.index, means, color=colour, marker=marker, linewidth=1.2, markersize=3.2, zorder=3)


def _legend(figure: Figure, kinds: list[str], states: set[str]) -> None:
    dotted = Line2D([], [], color="black", **EVEN)
    if len(states) == 1:
        lines = [Line2D([], [], color=COLOURS[kind], marker="o", markersize=3.2) for kind in kinds]
        legend_below(figure, [*lines, dotted], [*(f"{kind}, layer mean" for kind in kinds), "even attention"])
        return
    before = Line2D([], [], color=_BEFORE, marker=MARKERS[0], markersize=3.2)
    after = [Line2D([], [], color=COLOURS[kind], marker=MARKERS[1], markersize=3.2) for kind in kinds]
    labels = ["pretrained", *(f"finetuned, {kind}" for kind in kinds), "even attention"]
    legend_below(figure, [before, *after, dotted], labels)


def distance_grid(table: DataFrame) -> Grid:
    """Make the table of mean distances by layer, the furthest layer, and how deep it is."""
    return layer_means_grid(
        table, caption="Mean distance in tokens", digits=1, last="furthest", references=even_distance
    )


def found_distance(table: DataFrame) -> list[str]:
    """Say which layer reaches furthest, and what effective attention changes."""
    words = ("reaches less far", "reaches as far", "reaches further")
    far = changes(table, lambda rows: float(rows["value"].mean()))
    said = extreme_layers(table, "attention reaches furthest in", digits=1)
    return said + under_effective("a token", far, words=words, digits=1, unit=" tokens on average")


CHAPTER = Chapter(
    analysis="distance",
    title="How far attention reaches",
    source="Vig & Belinkov 2019",
    question="How far does attention reach, and does it reach further in deeper layers?",
    text=(
        "The mean distance in tokens between the token that attends and the one attended to, weighted by attention, "
        "over all pairs of the split. [CLS] and [SEP] are left out unless the column special_tokens says otherwise: a "
        "head that rests on them would seem to reach far. Even attention over the same pairs is the measure of what "
        "is far. Effective attention has negative weights: they count by their size or as nothing, as the column "
        "convention says (absolute or positive). "
        "Attention to the first token, where causal models rest, does not count there (column first_token)."
    ),
    paper_says=(
        "Vig & Belinkov find that the deepest layers capture the longest-range relationships. Their model is GPT-2 "
        "small (12 layers, 12 heads), a causal language model on Wikipedia; encoders read both ways."
    ),
    found=found_distance,
    figures=(
        Drawing(
            "distance",
            "Mean distance by layer and head, and each layer's average; dotted, even attention.",
            distance,
            has_values,
        ),
        Drawing(
            "distance_depth",
            "The same against depth: a dot is a head, a line the layers' average; dotted, even attention.",
            distance_depth,
            has_values,
        ),
    ),
    scalars=Scalars("distance", "tokens", "distance", partial(layer_means, "distance")),
    tables=(distance_grid,),
)
