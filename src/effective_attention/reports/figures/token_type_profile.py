"""Brunner et al.'s Fig. 1b-c and 5: average attention to and from [CLS], [SEP], periods and commas, and all other tokens.

A dot is a head, a line the mean of a layer's heads, a dotted line what even attention would give: the type's share of
the tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from pandas import DataFrame

from effective_attention.reports.drawing.layers import EVEN, layer_axis, shared_legend
from effective_attention.reports.drawing.style import COLOURS, DOUBLE, MARKERS, grid, styled
from effective_attention.reports.reductions import attentions, by_layer, one_line, panels

TYPE_TITLES = {"cls": "[CLS]", "sep": "[SEP]", "punctuation": "period, comma", "other": "other"}
_COLOURS = {"cls": "#0072b2", "sep": "#d55e00", "punctuation": "#009e73", "other": "#8c8c8c"}
_MOST_PAIRS = 3  # settings shown at most with all pairs of types


def types_of(table: DataFrame, column: str) -> list[str]:
    """Types the table has as source or target; a tokenizer may have no [CLS]."""
    return [name for name in TYPE_TITLES if (table[column] == name).any()]


def has_pairs(table: DataFrame) -> bool:
    """Whether attention was also split by what it comes from."""
    return bool((table["source"] != "all").any())


@styled
def token_type_profile(table: DataFrame) -> Figure:
    """A row per task: attention from all tokens to each type by layer, standard at the left, effective at the right."""
    rows = table[table["source"] == "all"]
    shown, kinds = panels(rows), attentions(rows)
    figure, axes = grid(len(shown), len(kinds), width=DOUBLE, height=1.75 * len(shown) + 0.5, sharey="row")
    for line, panel in zip(axes, shown, strict=True):
        for axis, kind in zip(line, kinds, strict=True):
            mine = panel.table[panel.table["attention"] == kind]
            for place, name in enumerate(types_of(mine, "target")):
                _dots(
                    axis, mine[mine["target"] == name], _COLOURS[name], MARKERS[place], TYPE_TITLES[name], spread=place
                )
            axis.set_title(f"{kind} attention" if axis in axes[0] else "")
            layer_axis(axis, label=axis in axes[-1])
        line[0].set_ylabel(f"{one_line(panel.title)}\naverage attention to")
    shared_legend(figure, axes)
    return figure


def _dots(axes: Axes, rows: DataFrame, colour: str, marker: str, label: str, *, spread: int = 0) -> None:
    """Heads of one type stand a little beside those of another, so that none hides."""
    means = by_layer(rows)
    dots: dict[str, Any] = {"markersize": 1.7, "markeredgewidth": 0, "alpha": 0.45, "linestyle": "none", "zorder": 2}
    axes.plot(rows["layer"].astype(int) + 0.11 * (spread - 1.5), rows["value"], marker, color=colour, **dots)
    axes.plot(means.index, means, color=colour, marker=marker, linewidth=1.1, markersize=3, label=label, zorder=3)
    axes.axhline(float(rows["share"].mean()), color=colour, **EVEN)


@styled
def token_type_profile_pairs(table: DataFrame) -> Figure:
    """Small multiples by layer: rows are the tokens that attend, columns those attended to; standard and effective in each.

    Of more than three tasks or settings the first three are shown.
    """
    rows = table[table["source"] != "all"]
    shown, targets = panels(rows)[:_MOST_PAIRS], types_of(rows, "target")
    sources = types_of(rows, "source")
    height = 1.02 * len(sources) * len(shown) + 0.6
    figure, axes = grid(len(sources) * len(shown), len(targets), width=DOUBLE, height=height, sharex=True)
    for index, panel in enumerate(shown):
        block = axes[index * len(sources) : (index + 1) * len(sources)]
        for line, source in zip(block, sources, strict=True):
            _pairs(line, panel.table[panel.table["source"] == source], targets)
            front = f"{one_line(panel.title)}\n" if source == sources[0] else ""
            line[0].set_ylabel(f"{front}from {TYPE_TITLES[source]}")
    for axis, target in zip(axes[0], targets, strict=True):
        axis.set_title(f"to {TYPE_TITLES[target]}")
    for axis in axes.flat:
        layer_axis(axis, label=axis in axes[-1])
    shared_legend(figure, axes)
    return figure


def _pairs(line: NDArray[Any], rows: DataFrame, targets: list[str]) -> None:
    """One row of panels with one range, which is read at the left."""
    for axis, target in zip(line, targets, strict=True):
        mine = rows[rows["target"] == target]
        for place, kind in enumerate(attentions(mine)):
            _dots(axis, mine[mine["attention"] == kind], COLOURS[kind], MARKERS[place], kind, spread=1 + place)
        for even in axis.lines[2::3]:
            even.set_color("black")
    limits = np.array([axis.get_ylim() for axis in line])
    for axis in line:
        axis.set_ylim(limits[:, 0].min(), limits[:, 1].max())
        axis.yaxis.set_major_locator(MaxNLocator(3))
        axis.tick_params(labelleft=axis is line[0])
