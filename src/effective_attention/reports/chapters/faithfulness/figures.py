"""Figures of ``faithfulness``: all methods beside each other, attention's by layer, and which ones find the subject.

The paper's numbers beside ours are Abnar & Zuidema's Tables 1 and 2 (verb number), and beside their own protocol those
of Table 3 (SST-2, DistilBERT).
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray
from pandas import DataFrame

from effective_attention.reports.chapters.faithfulness.reductions import (
    ARROWS,
    CHECKS,
    CORRELATIONS,
    LAYERED,
    LEAGUE,
    POINTING,
    TITLES,
    WITHOUT,
    league,
    method_title,
    preset_of,
    ranking,
)
from effective_attention.reports.drawing.style import COLOURS, DOUBLE, MARKERS, grid, styled, tidy_axes
from effective_attention.reports.papers.abnar2020 import abnar_line
from effective_attention.reports.reductions import Panel, attentions, one_line, panels

_BROKEN = {
    "comprehensiveness": "comprehen-\nsiveness",
    "normalised_comprehensiveness": "normalised com-\nprehensiveness",
}  # words that are longer than a panel is wide
_OTHER = "#b35806"  # methods that do not read attention
_SHIFT = {"standard": -0.17, "effective": 0.17, WITHOUT: 0.0}


@styled
def faithfulness(table: DataFrame) -> Figure:
    """Draw methods by measure, with 95 % intervals: a line of panels per task, each sorted by comprehensiveness."""
    return _league_figure(table, LEAGUE)


@styled
def faithfulness_checks(table: DataFrame) -> Figure:
    """Draw the checks of measures and methods likewise."""
    return _league_figure(table, CHECKS)


@styled
def faithfulness_truth(table: DataFrame) -> Figure:
    """Draw how well methods point at the word that decides likewise."""
    return _league_figure(table, POINTING)


def _league_figure(table: DataFrame, wanted: Sequence[str]) -> Figure:
    shown = panels(table)
    measures = [name for name in wanted if name in set(table["measure"])]
    methods = max(panel.table["method"].nunique() for panel in shown)
    height = (0.19 * methods + 0.55) * len(shown) + 0.25
    figure, axes = grid(len(shown), len(measures), width=DOUBLE, height=height)
    for line, panel in zip(axes, shown, strict=True):
        rows = league(panel.table)
        order = ranking(rows)
        for axis, measure in zip(line, measures, strict=True):
            dots(axis, rows[rows["measure"] == measure], order, log=measure == "milliseconds")
            axis.set_title(f"{_in_lines(measure)} {ARROWS[measure]}", fontsize=6.5)
            axis.set_yticks(range(len(order)), [method_title(name) for name in order] if axis is line[0] else [])
        line[0].set_ylabel(one_line(panel.title))
    key(figure, rows)
    return figure


def colour_of(attention: str) -> str:
    """Return the colour of an attention; of methods that read none, one of their own."""
    return COLOURS.get(attention, _OTHER)


def _in_lines(measure: str) -> str:
    """Write a measure's title in lines that are no wider than a panel."""
    return _BROKEN.get(measure) or "\n".join(wrap(TITLES[measure], 13))


def dots(axes: Axes, rows: DataFrame, order: list[str], *, log: bool = False) -> None:
    """Draw a dot and its interval for each method and attention; the value of ``random`` is a line behind."""
    columns = ["method", "attention", "value", "low", "high"]
    for method, attention, value, low, high in rows[columns].itertuples(index=False):
        place = order.index(method) + _SHIFT[attention]
        colour = colour_of(attention)
        if np.isfinite(low) and np.isfinite(high):
            axes.plot([low, high], [place, place], color=colour, linewidth=0.9, solid_capstyle="butt")
        axes.plot([value], [place], "o", color=colour, markersize=2.6, markeredgewidth=0)
    if log:
        _log_axis(axes)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(3))
        for value in rows.loc[rows["method"] == "random", "value"]:
            axes.axvline(value, color="#999999", linewidth=0.6, linestyle=(0, (1, 2)), zorder=0)
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.grid(axis="y", color="#eeeeee", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    tidy_axes(axes)


def _log_axis(axes: Axes) -> None:
    """Make the horizontal axis logarithmic, with a few plain numbers on it."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=3))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.minorticks_off()


def key(figure: Figure, rows: DataFrame) -> None:
    """Add a legend of the attentions that the rows have."""
    names = {"standard": "standard attention", "effective": "effective attention", WITHOUT: "without attention"}
    used = [name for name in names if name in set(rows["attention"])]
    dots = [Line2D([], [], color=colour_of(name), marker="o", markersize=3) for name in used]
    figure.legend(dots, [names[name] for name in used], loc="outside lower center", ncols=len(used), handlelength=1.6)


@styled
def faithfulness_layers(table: DataFrame) -> Figure:
    """Draw mean ± standard deviation over examples by layer, a column per method; dashed, the paper's means."""
    shown = panels(table[table["measure"].isin(CORRELATIONS) & table["method"].isin(LAYERED)])
    lines = [(panel, name) for panel in shown for name in CORRELATIONS if name in set(panel.table["measure"])]
    figure, axes = grid(len(lines), len(LAYERED), width=DOUBLE, height=1.3 * len(lines) + 0.45, sharey="row")
    for line, (panel, measure) in zip(axes, lines, strict=True):
        for axis, method in zip(line, LAYERED, strict=True):
            mine = panel.table[(panel.table["measure"] == measure) & (panel.table["method"] == method)]
            _bands(axis, mine)
            _paper(axis, panel, measure, method)
        line[0].set_ylabel(f"{one_line(panel.title)}\n{_in_lines(measure)}")
    for axis, method in zip(axes[0], LAYERED, strict=True):
        axis.set_title(method_title(method))
    for axis in axes[-1]:
        axis.set_xlabel("layer")
    _legend(figure, axes)
    return figure


def _legend(figure: Figure, axes: NDArray[Any]) -> None:
    """Name everything that is labelled in any of the panels, once, below them."""
    handles = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3, handlelength=2)


def _bands(axes: Axes, rows: DataFrame) -> None:
    """Draw a line for each attention, and a band of one standard deviation around it."""
    for place, kind in enumerate(attentions(rows)):
        mine = rows[rows["attention"] == kind].astype({"layer": int}).groupby("layer")[["value", "std"]].mean()
        low, high = mine["value"] - mine["std"], mine["value"] + mine["std"]
        axes.fill_between(mine.index, low, high, color=COLOURS[kind], alpha=0.13, linewidth=0)
        look: dict[str, Any] = {"color": COLOURS[kind], "marker": MARKERS[place], "linewidth": 1, "markersize": 2.4}
        axes.plot(mine.index, mine["value"], label=kind, **look)
    axes.axhline(0, color="#bdbdbd", linewidth=0.6, zorder=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    tidy_axes(axes)


def _paper(axes: Axes, panel: Panel, measure: str, method: str) -> None:
    """Draw the paper's means, if it has any; it counts layers from 1."""
    line = abnar_line(panel.task, measure, method, preset_of(panel.table))
    if line is not None:
        layers = [layer - 1 for layer in line]
        means = [mean for mean, _ in line.values()]
        axes.plot(layers, means, color="black", linewidth=0.7, linestyle=(0, (4, 2)), label="standard in the paper")


@styled
def faithfulness_subject(table: DataFrame) -> Figure:
    """Draw the share of sentences in which the subject outranks every attractor: by layer, and for every method."""
    shown = panels(table[table["measure"] == "subject_first"])
    methods = max(panel.table["method"].nunique() for panel in shown)
    height = max(1.9, 0.17 * methods + 0.6) * len(shown) + 0.25
    figure, axes = grid(len(shown), 2, width=DOUBLE, height=height, width_ratios=[1.25, 1])
    for (left, right), panel in zip(axes, shown, strict=True):
        _subject_lines(left, panel.table)
        left.set_ylabel(f"{one_line(panel.title)}\nsubject above every attractor")
        rows = league(panel.table)
        order = rows.sort_values("value", ascending=False, kind="stable")["method"].drop_duplicates().tolist()
        dots(right, rows, order)
        right.set_yticks(range(len(order)), [method_title(name) for name in order])
        right.set_xlabel("share of sentences, last layer")
    axes[-1, 0].set_xlabel("layer")
    key(figure, rows)
    return figure


def _subject_lines(axes: Axes, table: DataFrame) -> None:
    """Draw a line by layer for each method that the paper follows, and each attention."""
    looks: dict[str, dict[str, Any]] = {
        "raw": {"marker": "o", "linestyle": ":", "markersize": 2.6},
        "rollout": {"marker": "s", "linestyle": "--", "markersize": 2.6},
        "flow": {"marker": "D", "linestyle": "-", "markersize": 2.6},
    }
    rows = table[table["method"].isin(LAYERED)].astype({"layer": int})
    for method, look in looks.items():
        for kind in attentions(rows):
            mine = rows[(rows["method"] == method) & (rows["attention"] == kind)].groupby("layer")["value"].mean()
            axes.plot(mine.index, mine, color=COLOURS[kind], linewidth=1, **look)
    keys = [Line2D([], [], color="#444444", **look) for look in looks.values()]
    titles = [method_title(name) for name in looks]
    axes.legend(keys, titles, loc="upper center", ncols=3, handlelength=2.6, columnspacing=1)
    axes.set_ylim(-0.03, 1.2)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    tidy_axes(axes)
