"""The figure of ``protocols``: agreement in the last layer, a row for each protocol."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from effective_attention.analyses.protocols import METHODS, REFERENCES
from effective_attention.reports.chapters.protocols.reductions import REFERENCE_TITLES, Way, ways
from effective_attention.reports.drawing.style import DOUBLE, SERIES, grid, styled, tidy_axes
from effective_attention.reports.reductions import attentions, one_line, panels

_LOOKS: dict[str, dict[str, Any]] = {
    "raw": {"color": SERIES[6], "marker": "o"},
    "rollout": {"color": SERIES[1], "marker": "s"},
    "flow": {"color": SERIES[0], "marker": "D"},
}
_SHIFT = {"raw": -0.24, "rollout": 0.0, "flow": 0.24}


@styled
def protocols(table: DataFrame) -> Figure:
    """Draw protocols by reference, a column for each attention: raw, rollout and flow with 95 % intervals."""
    blocks = []
    for panel in panels(table):
        found = ways(panel.table)
        for reference in REFERENCES:
            mine = {way: rows for way, rows in found.items() if way.reference == reference}
            blocks += [(one_line(panel.title), reference, mine)] if mine else []
    kinds = attentions(table)
    sizes = [len(mine) + 1.5 for _, _, mine in blocks]
    options: dict[str, Any] = {"height_ratios": sizes, "sharex": True}
    figure, axes = grid(len(blocks), len(kinds), width=DOUBLE, height=0.145 * sum(sizes) + 0.6, **options)
    for line, (title, reference, mine) in zip(axes, blocks, strict=True):
        for axis, kind in zip(line, kinds, strict=True):
            _rows(axis, mine, kind)
        line[0].set_yticks(range(len(mine)), [_label(way) for way in mine])
        line[0].set_ylabel(f"{title}\nwith {REFERENCE_TITLES[reference]}")
        for axis in line[1:]:
            axis.set_yticks(range(len(mine)), [])
    for axis, kind in zip(axes[0], kinds, strict=True):
        axis.set_title(f"{kind} attention")
    for axis in axes[-1]:
        axis.set_xlabel("rank correlation, last layer")
    figure.align_ylabels(axes[:, 0])
    _key(figure)
    return figure


def _rows(axes: Axes, found: dict[Way, DataFrame], kind: str) -> None:
    """Draw a row for each way; those of a preset have a grey band."""
    for place, (way, rows) in enumerate(found.items()):
        if way.preset is not None:
            axes.axhspan(place - 0.5, place + 0.5, color="#e4e4e4", linewidth=0, zorder=0)
        mine = rows[rows["attention"] == kind].set_index("method")
        for method in (name for name in METHODS if name in mine.index):
            value, low, high = mine.loc[method, ["value", "low", "high"]].astype(float)
            height, look = place + _SHIFT[method], _LOOKS[method]
            if np.isfinite([low, high]).all():
                axes.plot([low, high], [height, height], color=look["color"], linewidth=0.8, solid_capstyle="butt")
            axes.plot([value], [height], markersize=2.4, markeredgewidth=0, linestyle="", **look)
    axes.axvline(0, color="#999999", linewidth=0.6, linestyle=(0, (1, 2)), zorder=0.5)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.tick_params(axis="y", length=0)
    tidy_axes(axes)


def _label(way: Way) -> str:
    front = f"{way.preset}: " if way.preset else ""
    return front + " · ".join(way.words)


def _key(figure: Figure) -> None:
    dots = [Line2D([], [], markersize=3, linewidth=0.8, **_LOOKS[name]) for name in METHODS]
    titles = ["raw attention", "rollout", "flow"]
    figure.legend(dots, titles, loc="outside lower center", ncols=len(dots), handlelength=1.8)
