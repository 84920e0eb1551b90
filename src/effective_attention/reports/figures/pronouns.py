"""Abnar & Zuidema's Fig. 4: which pronoun a masked language model expects, and which referent its [MASK] looks at.

Left, the candidates' probabilities relative to each other. Right, layer by layer, how [MASK] shares out what it gives
to the referents at all: raw attention, rollout and flow.
"""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from pandas import DataFrame

from effective_attention.reports.drawing.style import DOUBLE, MARKERS, SERIES, grid, styled, tidy_axes
from effective_attention.reports.reductions import attentions, shortened

METHODS = ("raw", "rollout", "flow")
_MOST_TEXTS = 4


def referent_shares(table: DataFrame) -> DataFrame:
    """Attention with ``share``: of what [MASK] gives to all referents in a layer, what one gets; NaN where that is nothing."""
    rows = table[table["quantity"] == "attention"].astype({"layer": int})
    keys = ["attention", "method", "layer"]
    means = rows.groupby([*keys, "name"], sort=False)["value"].mean().reset_index()
    total = means.groupby(keys)["value"].transform("sum")
    return means.assign(share=means["value"] / total.where(total > 0))


@styled
def pronouns(table: DataFrame) -> Figure:
    """One block per model and text: the candidates, then standard above effective with a column for each method."""
    texts = [group for _, group in table.groupby(["model", "text"], sort=False)][:_MOST_TEXTS]
    kinds = attentions(table)
    rows = len(kinds) * len(texts)
    figure, axes = grid(rows, 4, width=DOUBLE, height=1.25 * rows + 0.45 * len(texts), width_ratios=[0.8, 1, 1, 1])
    for index, mine in enumerate(texts):
        block = axes[index * len(kinds) : (index + 1) * len(kinds)]
        _candidates(block[0, 0], mine)
        for spare in block[1:, 0]:
            spare.set_axis_off()
        shares = referent_shares(mine)
        for row, kind in zip(block, kinds, strict=True):
            _referents(row[1:], shares[shares["attention"] == kind], kind)
        _legend(block, [shortened(name) for name in shares["name"].unique()])
        for axis, method in zip(block[0, 1:], METHODS, strict=True):
            axis.set_title(method)
        for axis in block[-1, 1:]:
            axis.set_xlabel("layer")
        block[0, 0].set_title(_said(mine), loc="left", fontsize=6.5)
    return figure


def _said(table: DataFrame) -> str:
    """The model and its sentence, in lines as long as the first column is wide."""
    text = textwrap.shorten(" ".join(str(table["text"].iloc[0]).split()), 160, placeholder=" …")
    return textwrap.fill(f"{shortened(table['model'].iloc[0])}: {text}", 28)


def _candidates(axes: Axes, table: DataFrame) -> None:
    chances = table[table["quantity"] != "attention"].groupby(["quantity", "name"], sort=False)["value"].mean()
    relative, whole = chances["relative_probability"], chances["probability"]
    bars = axes.barh(range(len(relative)), relative, 0.6, color="#7f7f7f")
    axes.bar_label(
        bars, [f"{relative[name]:.2f} ({whole[name]:.2g})" for name in relative.index], padding=2, fontsize=5.5
    )
    axes.set_yticks(range(len(relative)), [shortened(name, 12) for name in relative.index])
    axes.set(xlim=(0, 1.75), xticks=[0, 0.5, 1], xlabel="relative probability", ylabel="[MASK] is")
    axes.invert_yaxis()
    tidy_axes(axes)


def _referents(row: NDArray[Any], shares: DataFrame, kind: str) -> None:
    names = list(shares["name"].unique())
    for axes, method in zip(row, METHODS, strict=True):
        for place, name in enumerate(names):
            line = shares[(shares["method"] == method) & (shares["name"] == name)].sort_values("layer")
            look = {
                "color": SERIES[place % len(SERIES)],
                "marker": MARKERS[place % len(MARKERS)],
                "linewidth": 1,
                "markersize": 2.6,
            }
            axes.plot(line["layer"], line["share"], label=shortened(name), **look)
        axes.axhline(1 / len(names), color="#bdbdbd", linewidth=0.6, linestyle=(0, (3, 2)), zorder=0)
        axes.set_ylim(-0.04, 1.04)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"] if axes is row[0] else [])
        tidy_axes(axes)
    row[0].set_ylabel(f"{kind}\nshare of referents")


def _legend(block: NDArray[Any], names: list[str]) -> None:
    """In the free place under the candidates, or in the last panel if there is none."""
    handles, spare = block[0, 1].get_lines()[: len(names)], block[-1, 0]
    if spare is block[0, 0]:
        block[0, -1].legend(handles, names, loc="best", title="[MASK] looks at")
    else:
        spare.legend(handles, names, loc="center left", title="[MASK] looks at", alignment="left", title_fontsize=6.5)
