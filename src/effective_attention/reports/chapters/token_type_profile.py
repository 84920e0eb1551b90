"""Attention between types of tokens: what the report says and shows of ``token_type_profile``.

Brunner et al.'s Fig. 1b-c and 5: average attention to and from [CLS], [SEP], periods and commas, and all other tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.layers import EVEN, layer_axis, shared_legend
from effective_attention.reports.drawing.style import COLOURS, DOUBLE, MARKERS, grid, styled
from effective_attention.reports.findings import changes, extreme_layers, under_effective
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.reductions import attentions, by_layer, mean_where, one_line, panels

_TYPE_TITLES = {"cls": "[CLS]", "sep": "[SEP]", "punctuation": "period, comma", "other": "other"}
_COLOURS = {"cls": "#0072b2", "sep": "#d55e00", "punctuation": "#009e73", "other": "#8c8c8c"}
_MOST_PAIRS = 3  # settings shown at most with all pairs of types


def _types_of(table: DataFrame, column: str) -> list[str]:
    """Return the types that the column ``source`` or ``target`` has, in order; a tokenizer may have no [CLS]."""
    return [name for name in _TYPE_TITLES if (table[column] == name).any()]


def has_pairs(table: DataFrame) -> bool:
    """Tell whether attention was also split by what it comes from."""
    return bool((table["source"] != "all").any())


@styled
def token_type_profile(table: DataFrame) -> Figure:
    """Draw attention from all tokens to each type by layer: a line of panels per task, standard, then effective."""
    rows = table[table["source"] == "all"]
    shown = panels(rows)
    kinds = attentions(rows)
    figure, axes = grid(len(shown), len(kinds), width=DOUBLE, height=1.75 * len(shown) + 0.5, sharey="row")
    for line, panel in zip(axes, shown, strict=True):
        for axis, kind in zip(line, kinds, strict=True):
            mine = panel.table[panel.table["attention"] == kind]
            for place, name in enumerate(_types_of(mine, "target")):
                look = (_COLOURS[name], MARKERS[place], _TYPE_TITLES[name])
                _dots(axis, mine[mine["target"] == name], *look, spread=place)
            axis.set_title(f"{kind} attention" if axis in axes[0] else "")
            layer_axis(axis, label=axis in axes[-1])
        line[0].set_ylabel(f"{one_line(panel.title)}\naverage attention to")
    shared_legend(figure, axes)
    return figure


def _dots(axes: Axes, rows: DataFrame, colour: str, marker: str, label: str, *, spread: int = 0) -> None:
    """Draw a dot for each head, a line through the means of layers, and dotted what even attention would give.

    Heads of one type stand a little beside those of another, so that none hides.
    """
    means = by_layer(rows)
    dots: dict[str, Any] = {"markersize": 1.7, "markeredgewidth": 0, "alpha": 0.45, "linestyle": "none", "zorder": 2}
    axes.plot(rows["layer"].astype(int) + 0.11 * (spread - 1.5), rows["value"], marker, color=colour, **dots)
    axes.plot(means.index, means, color=colour, marker=marker, linewidth=1.1, markersize=3, label=label, zorder=3)
    axes.axhline(float(rows["even"].mean()), color=colour, **EVEN)


@styled
def token_type_profile_pairs(table: DataFrame) -> Figure:
    """Draw a panel by layer for each pair of types, standard and effective in each.

    Lines of panels are the tokens that attend, columns those attended to. Of more than three tasks or settings the
    first three are shown.
    """
    rows = table[table["source"] != "all"]
    shown = panels(rows)[:_MOST_PAIRS]
    sources = _types_of(rows, "source")
    targets = _types_of(rows, "target")
    height = 1.02 * len(sources) * len(shown) + 0.6
    figure, axes = grid(len(sources) * len(shown), len(targets), width=DOUBLE, height=height, sharex=True)
    for index, panel in enumerate(shown):
        block = axes[index * len(sources) : (index + 1) * len(sources)]
        for line, source in zip(block, sources, strict=True):
            _pairs(line, panel.table[panel.table["source"] == source], targets)
            front = f"{one_line(panel.title)}\n" if source == sources[0] else ""
            line[0].set_ylabel(f"{front}from {_TYPE_TITLES[source]}")
    for axis, target in zip(axes[0], targets, strict=True):
        axis.set_title(f"to {_TYPE_TITLES[target]}")
    for axis in axes.flat:
        layer_axis(axis, label=axis in axes[-1])
    shared_legend(figure, axes)
    return figure


def _pairs(line: NDArray[Any], rows: DataFrame, targets: list[str]) -> None:
    """Draw a line of panels that share one range, which is read at the left."""
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


def type_profile(table: DataFrame) -> Grid:
    """Return average attention from all tokens to each type, mean over layers and heads, above even attention."""
    rows = table[table["source"] == "all"]
    types = _types_of(rows, "target")
    lines = []
    for panel in panels(rows):
        for kind in attentions(panel.table):
            means = [mean_where(panel.table, attention=kind, target=name) for name in types]
            lines.append([one_line(panel.title), kind, *(number(mean) for mean in means)])
        even = panel.table.groupby("target")["even"].mean()
        lines.append([one_line(panel.title), "even", *(number(even.get(name)) for name in types)])
    caption = "Average attention to each type of token, mean over layers and heads."
    return Grid(caption, ["task", "attention", *(f"to {_TYPE_TITLES[name]}" for name in types)], lines, labels=2)


def found_profile(table: DataFrame) -> list[str]:
    """Say what effective attention leaves of the weight on special tokens and punctuation, and where it peaks."""
    rows = table[table["source"] == "all"]
    said = []
    for name in (name for name in ("sep", "cls", "punctuation") if (rows["target"] == name).any()):
        mine = rows[rows["target"] == name]
        title = {"punctuation": "a period or comma"}.get(name, _TYPE_TITLES[name])
        said += under_effective(title, changes(mine, lambda part: float(part["value"].mean())))
        if name == "sep":
            said += extreme_layers(mine, "attention to [SEP] is largest in")
    return said


CHAPTER = Chapter(
    analysis="token_type_profile",
    title="Attention between types of tokens",
    source="Brunner et al. 2020, Fig. 1b, 1c, 5",
    question="How much attention goes to special tokens and punctuation, layer by layer?",
    text=(
        "Average attention to [CLS], [SEP], periods and commas, and all other tokens, after Clark et al.: summed over "
        "the tokens of the type, averaged over the tokens that attend, then over examples. Effective attention need "
        "not sum to 1."
    ),
    paper_says=(
        "Brunner et al. find that the peak of attention to [SEP] in the middle layers, and that to periods and commas "
        "in the last ones, vanish in effective attention."
    ),
    found=found_profile,
    figures=(
        Drawing(
            "token_type_profile",
            (
                "Attention from all tokens to each type. Dots are heads, lines the mean of a layer, dotted lines what "
                "even attention would give."
            ),
            token_type_profile,
        ),
        Drawing(
            "token_type_profile_pairs",
            "From each type (rows) to each type (columns), standard and effective; dotted, even.",
            token_type_profile_pairs,
            has_pairs,
        ),
    ),
    tables=(type_profile,),
)
