"""Fig. 4: share of each attention pattern, by task (the paper's two panels) and by layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.drawing.style import grid, styled, tidy_axes, width_for
from effective_attention.reports.papers.sun2021 import PATTERN_ORDER
from effective_attention.reports.reductions import attentions, panels

PATTERN_COLOURS = {  # Okabe & Ito, dark enough for white figures where marked
    "block": ("#0072b2", "white"),
    "diagonal": ("#e69f00", "black"),
    "vertical+diagonal": ("#f0e442", "black"),
    "heterogeneous": ("#d0d0d0", "black"),
    "vertical": ("#009e73", "black"),
}


@styled
def patterns(table: DataFrame) -> Figure:
    """Stacked percentages, standard beside effective, one bar per task."""
    totals = table[table["layer"].isna()]
    kinds = attentions(totals)
    columns = panels(totals)
    figure, axes = grid(1, len(kinds), width=width_for(len(columns)), height=2.5, sharey=True)
    for axis, attention in zip(axes[0], kinds, strict=True):
        shares = [_shares(panel.table[panel.table["attention"] == attention]) for panel in columns]
        _stack(axis, shares, [panel.title for panel in columns], figures=True)
        axis.set_title(f"{attention} attention")
    axes[0, 0].set_ylabel("maps (%)")
    _legend(figure, axes[0, 0])
    return figure


@styled
def patterns_layers(table: DataFrame) -> Figure:
    """The same by layer, one column of panels per task."""
    rows = table[table["layer"].notna()].astype({"layer": int})
    kinds, columns = attentions(rows), panels(rows)
    figure, axes = grid(
        len(kinds),
        len(columns),
        width=width_for(len(columns)),
        height=1.35 * len(kinds) + 0.6,
        sharey=True,
        sharex="col",
    )
    for row, attention in enumerate(kinds):
        for column, panel in enumerate(columns):
            mine = panel.table[panel.table["attention"] == attention]
            layers = sorted(mine["layer"].unique())
            names = [str(layer) if len(layers) <= 6 or layer % 2 == 0 else "" for layer in layers]
            _stack(axes[row, column], [_shares(mine[mine["layer"] == layer]) for layer in layers], names, figures=False)
            axes[row, column].set_title(panel.title if row == 0 else "")
        axes[row, 0].set_ylabel(f"{attention}\nmaps (%)")
    axes[-1, len(columns) // 2].set_xlabel("layer")
    _legend(figure, axes[0, 0])
    return figure


def _shares(table: DataFrame) -> list[float]:
    """Percent in the paper's order; several runs of one setting are averaged."""
    means = table.groupby("pattern")["value"].mean()
    return [100 * float(means.get(pattern, 0.0)) for pattern in PATTERN_ORDER]


def _stack(axes: Axes, bars: Sequence[Sequence[float]], names: Sequence[str], *, figures: bool) -> None:
    bottom = np.zeros(len(bars))
    for place, pattern in enumerate(PATTERN_ORDER):
        heights = np.array([shares[place] for shares in bars])
        colour, ink = PATTERN_COLOURS[pattern]
        axes.bar(
            range(len(bars)),
            heights,
            0.78,
            bottom=bottom,
            color=colour,
            edgecolor="white",
            linewidth=0.5,
            label=pattern,
        )
        for index, height in enumerate(heights):
            if figures and height >= 5:
                axes.text(
                    index, bottom[index] + height / 2, f"{height:.0f}", ha="center", va="center", fontsize=6, color=ink
                )
        bottom += heights
    axes.set_xticks(range(len(bars)), names)
    axes.set_xlim(-0.6, len(bars) - 0.4)
    axes.set_ylim(0, 100)
    tidy_axes(axes)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    narrow = figure.get_figwidth() < 4
    figure.legend(
        handles, labels, loc="outside lower center", ncols=3 if narrow else 5, handlelength=1.0, columnspacing=1.2
    )
