"""Which explanation is faithful: the league of all methods, attention's methods layer by layer, and who finds the subject.

The paper's numbers beside ours are Abnar & Zuidema's Tables 1 and 2 (verb number) and 3 (SST-2, DistilBERT).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, StrMethodFormatter
from pandas import DataFrame

from effective_attention.reports.drawing.style import COLOURS, DOUBLE, MARKERS, grid, styled, tidy_axes
from effective_attention.reports.papers.abnar2020 import abnar_line
from effective_attention.reports.reductions import Panel, attentions, panels

LAYERED = ("raw", "rollout", "flow")
_TIMES = "\N{MULTIPLICATION SIGN}"
METHOD_TITLES = {
    "raw": "raw attention",
    "rollout": "rollout",
    "flow": "flow",
    "gradient_attention": f"attention {_TIMES} gradient",
    "gradient_rollout": f"rollout of att. {_TIMES} gradient",
    "norm": "norm of the output",
    "norm_rollout": "rollout of norms",
    "input_gradient": "input gradient",
    "gradient_x_input": f"gradient {_TIMES} input",
    "integrated_gradients": "integrated gradients",
    "blank_out": "blank-out",
    "random": "random",
}
MEASURE_TITLES = {
    "spearman_blank_out": "Spearman with\nblank-out ↑", "spearman_gradients": "Spearman with\ninput gradients ↑",
    "comprehensiveness": "comprehen-\nsiveness ↑", "sufficiency": "sufficiency ↓", "subject_first": "subject\nfirst ↑",
    "milliseconds": "ms per\nexample ↓",
}  # fmt: skip
LEAGUE = ("spearman_blank_out", "spearman_gradients", "comprehensiveness", "sufficiency", "milliseconds")
CORRELATIONS = ("spearman_blank_out", "spearman_gradients")
OTHER = "#b35806"
_WITHOUT = "without"
_SHIFT = {"standard": -0.17, "effective": 0.17, _WITHOUT: 0.0}


def league(table: DataFrame) -> DataFrame:
    """One row per method, attention (or ``without``) and measure, of the last layer; several runs of one setting are averaged."""
    rows = table.assign(attention=table["attention"].astype(object).where(table["attention"].notna(), _WITHOUT))
    last = rows["layer"].isna() | (rows["layer"] == rows["layer"].max())
    numbers = [name for name in ("value", "std", "low", "high", "count") if name in rows]
    return rows[last].groupby(["method", "attention", "measure"], sort=False)[numbers].mean().reset_index()


def ranking(rows: DataFrame) -> list[str]:
    """The league's methods, the most comprehensive first (the better of the two attentions counts); unmeasured ones last."""
    best = rows[rows["measure"] == "comprehensiveness"].groupby("method", sort=False)["value"].max()
    order = best.sort_values(ascending=False, kind="stable").index.tolist()
    return order + [name for name in rows["method"].unique() if name not in order]


def has_subjects(table: DataFrame) -> bool:
    """Whether the data knew which word decides."""
    return bool((table["measure"] == "subject_first").any())


@styled
def faithfulness(table: DataFrame) -> Figure:
    """Methods by measure, with 95 % intervals; one row of panels per task, each sorted by comprehensiveness."""
    shown, measures = panels(table), [name for name in LEAGUE if name in set(table["measure"])]
    methods = max(panel.table["method"].nunique() for panel in shown)
    height = (0.19 * methods + 0.55) * len(shown) + 0.25
    figure, axes = grid(len(shown), len(measures), width=DOUBLE, height=height)
    for row, panel in zip(axes, shown, strict=True):
        rows = league(panel.table)
        order = ranking(rows)
        for axis, measure in zip(row, measures, strict=True):
            _dots(axis, rows[rows["measure"] == measure], order, log=measure == "milliseconds")
            axis.set_title(MEASURE_TITLES[measure], fontsize=6.5)
            axis.set_yticks(
                range(len(order)), [METHOD_TITLES.get(name, name) for name in order] if axis is row[0] else []
            )
        row[0].set_ylabel(_one_line(panel))
    _key(figure, rows)
    return figure


def _dots(axes: Axes, rows: DataFrame, order: list[str], *, log: bool = False) -> None:
    """A dot and its interval for each method and attention; random's value as a line behind."""
    for method, attention, value, low, high in rows[["method", "attention", "value", "low", "high"]].itertuples(
        index=False
    ):
        place = order.index(method) + _SHIFT[attention]
        colour = COLOURS.get(attention, OTHER)
        if np.isfinite(low) and np.isfinite(high):
            axes.plot([low, high], [place, place], color=colour, linewidth=0.9, solid_capstyle="butt")
        axes.plot([value], [place], "o", color=colour, markersize=2.6, markeredgewidth=0)
    chance = rows.loc[rows["method"] == "random", "value"]
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=4))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.minorticks_off()
    else:
        axes.xaxis.set_major_locator(MaxNLocator(3))
        for value in chance:
            axes.axvline(value, color="#999999", linewidth=0.6, linestyle=(0, (1, 2)), zorder=0)
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.grid(axis="y", color="#eeeeee", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    tidy_axes(axes)


def _key(figure: Figure, rows: DataFrame) -> None:
    names = {"standard": "standard attention", "effective": "effective attention", _WITHOUT: "without attention"}
    used = [name for name in names if name in set(rows["attention"])]
    dots = [Line2D([], [], color=COLOURS.get(name, OTHER), marker="o", markersize=3) for name in used]
    figure.legend(dots, [names[name] for name in used], loc="outside lower center", ncols=len(used), handlelength=1.6)


@styled
def faithfulness_layers(table: DataFrame) -> Figure:
    """Mean ± standard deviation over examples by layer, a column per method; dashed, the paper's means."""
    shown = panels(table[table["measure"].isin(CORRELATIONS) & table["method"].isin(LAYERED)])
    rows = [(panel, name) for panel in shown for name in CORRELATIONS if name in set(panel.table["measure"])]
    figure, axes = grid(len(rows), len(LAYERED), width=DOUBLE, height=1.3 * len(rows) + 0.45, sharey="row")
    for row, (panel, measure) in zip(axes, rows, strict=True):
        for axis, method in zip(row, LAYERED, strict=True):
            mine = panel.table[(panel.table["measure"] == measure) & (panel.table["method"] == method)]
            _bands(axis, mine)
            _paper(axis, panel.task, measure, method)
        row[0].set_ylabel(f"{_one_line(panel)}\n{MEASURE_TITLES[measure].removesuffix(' ↑')}")
    for axis, method in zip(axes[0], LAYERED, strict=True):
        axis.set_title(METHOD_TITLES[method])
    for axis in axes[-1]:
        axis.set_xlabel("layer")
    handles = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3, handlelength=2)
    return figure


def _bands(axes: Axes, rows: DataFrame) -> None:
    for place, kind in enumerate(attentions(rows)):
        mine = rows[rows["attention"] == kind].astype({"layer": int}).groupby("layer")[["value", "std"]].mean()
        low, high = mine["value"] - mine["std"], mine["value"] + mine["std"]
        axes.fill_between(mine.index, low, high, color=COLOURS[kind], alpha=0.13, linewidth=0)
        axes.plot(
            mine.index,
            mine["value"],
            color=COLOURS[kind],
            marker=MARKERS[place],
            linewidth=1,
            markersize=2.4,
            label=kind,
        )
    axes.axhline(0, color="#bdbdbd", linewidth=0.6, zorder=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    tidy_axes(axes)


def _paper(axes: Axes, task: str, measure: str, method: str) -> None:
    """The paper's means; it counts layers from 1."""
    line = abnar_line(task, measure, method)
    if line is not None:
        layers, means = [layer - 1 for layer in line], [mean for mean, _ in line.values()]
        axes.plot(layers, means, color="black", linewidth=0.7, linestyle=(0, (4, 2)), label="standard in the paper")


@styled
def faithfulness_subject(table: DataFrame) -> Figure:
    """Share of sentences in which the subject outranks every attractor: by layer, and for every method in the last one."""
    shown = panels(table[table["measure"] == "subject_first"])
    methods = max(panel.table["method"].nunique() for panel in shown)
    height = max(1.9, 0.17 * methods + 0.6) * len(shown) + 0.25
    figure, axes = grid(len(shown), 2, width=DOUBLE, height=height, width_ratios=[1.25, 1])
    for (left, right), panel in zip(axes, shown, strict=True):
        _subject_lines(left, panel.table)
        left.set_ylabel(f"{_one_line(panel)}\nsubject above every attractor")
        rows = league(panel.table)
        order = rows.sort_values("value", ascending=False, kind="stable")["method"].drop_duplicates().tolist()
        _dots(right, rows, order)
        right.set_yticks(range(len(order)), [METHOD_TITLES.get(name, name) for name in order])
        right.set_xlabel("share of sentences, last layer")
    axes[-1, 0].set_xlabel("layer")
    _key(figure, rows)
    return figure


def _subject_lines(axes: Axes, table: DataFrame) -> None:
    looks: dict[str, tuple[str, Any]] = {"raw": ("o", ":"), "rollout": ("s", "--"), "flow": ("D", "-")}
    rows = table[table["method"].isin(LAYERED)].astype({"layer": int})
    for method, (marker, dashes) in looks.items():
        for kind in attentions(rows):
            mine = rows[(rows["method"] == method) & (rows["attention"] == kind)].groupby("layer")["value"].mean()
            axes.plot(
                mine.index, mine, color=COLOURS[kind], marker=marker, linestyle=dashes, linewidth=1, markersize=2.6
            )
    keys = [
        Line2D([], [], color="#444444", marker=marker, linestyle=dashes, markersize=2.6)
        for marker, dashes in looks.values()
    ]
    axes.legend(
        keys, [METHOD_TITLES[name] for name in looks], loc="upper center", ncols=3, handlelength=2.6, columnspacing=1
    )
    axes.set_ylim(-0.03, 1.2)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    tidy_axes(axes)


def _one_line(panel: Panel) -> str:
    return panel.title.replace("\n", ", ")
