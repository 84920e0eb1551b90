"""How much of attention the output cannot see, and how much of that padding brings in.

Left, Brunner et al.'s Fig. 1a: Pearson correlation of attention and effective attention against length. Where a text
has no more tokens than a head has value dimensions, the two are one. Middle: the share of attention in the null space
by layer. Right, our own: the same share computed exactly and by the published protocol, padded to a fixed length, on
the same examples. The exact one is what the values' null space explains; the rest is padding.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from effective_attention.reports.drawing.style import COLOURS, DOUBLE, MARKERS, SERIES, grid, styled, tidy_axes
from effective_attention.reports.reductions import Panel, panels, rank_limit

_BIN = 4  # tokens; divides every usual head width, so that no bin lies on both sides of it


@styled
def null_space(table: DataFrame) -> Figure:
    """Three panels, or two if no example was also read the padded way."""
    columns = panels(table)
    compared = {"padded", "exact_subset"} <= set(table["reading"])
    shares = [1.0, 1.0, max(1.0, len(columns) / 5)] if compared else [1.0, 1.0]
    figure, axes = grid(1, len(shares), width=DOUBLE * max(1.0, len(columns) / 6), height=2.35, width_ratios=shares)
    for index, panel in enumerate(columns):
        look = {"color": SERIES[index % len(SERIES)], "marker": MARKERS[index % len(MARKERS)], "label": panel.title}
        exact = panel.table[panel.table["reading"] == "exact"]
        _line(axes[0, 0], by_length(exact, "pearson"), look)
        _line(axes[0, 1], by_layer(exact, "null_mass"), look)
    _finish_length(axes[0, 0], rank_limit(table))
    axes[0, 1].set(xlabel="layer", ylabel="‖null part‖ / ‖attention‖")
    axes[0, 1].set_ylim(bottom=0)
    axes[0, 1].set_title("by layer (exact)")
    if compared:
        _compare(axes[0, 2], columns)
    for axis in axes[0]:
        tidy_axes(axis)
    if len(columns) > 1:
        handles, labels = axes[0, 0].get_legend_handles_labels()
        names = [label.replace("\n", ", ") for label in labels]
        figure.legend(handles, names, loc="outside lower left", ncols=min(len(names), 6), handlelength=1.6)
    return figure


def by_length(table: DataFrame, quantity: str) -> Series:
    """Weighted mean in bins of a few tokens, indexed by the bin's mean length."""
    rows = table[(table["quantity"] == quantity) & table["length"].notna()]
    lengths, weights = rows["length"].to_numpy(float), rows["count"].to_numpy(float)
    frame = DataFrame(
        {"bin": (lengths - 1) // _BIN, "length": lengths * weights, "value": rows["value"].to_numpy(float) * weights}
    )
    sums = frame.assign(weight=weights).dropna().groupby("bin").sum()
    return Series((sums["value"] / sums["weight"]).to_numpy(), index=(sums["length"] / sums["weight"]).to_numpy())


def by_layer(table: DataFrame, quantity: str) -> Series:
    """Mean over heads, indexed by layer."""
    rows = table[(table["quantity"] == quantity) & table["layer"].notna()].astype({"layer": int})
    return rows.groupby("layer")["value"].mean()


def overall(table: DataFrame, reading: str, quantity: str) -> float:
    """Mean over layers and heads of one reading, all lengths."""
    rows = table[(table["reading"] == reading) & (table["quantity"] == quantity) & table["length"].isna()]
    return float(rows["value"].mean())


def padding_share(table: DataFrame) -> float:
    """How much of the padded reading's difference between attention and effective attention is padding's: 0 none, 1 all."""
    exact, padded = (overall(table, reading, "null_mass") for reading in ("exact_subset", "padded"))
    return 1 - exact / padded if padded > 0 else float("nan")


def _line(axes: Axes, values: Series, look: dict[str, str]) -> None:
    axes.plot(values.index, values, linewidth=1, markersize=2.6, **look)  # type: ignore[arg-type]


def _finish_length(axes: Axes, head_width: int | None) -> None:
    axes.set(xlabel="length in tokens", ylabel="Pearson(attention, effective)", title="by length (exact)")
    if head_width is not None:
        axes.axvline(head_width, color="black", linewidth=0.8, linestyle=(0, (3, 2)))
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom - 0.12 * (top - bottom), top)
        note = f"$d_v$ = {head_width}: a null\nspace from here on"
        above = axes.get_xaxis_transform()  # length across, share of the panel's height up
        axes.text(head_width + 2, 0.02, note, transform=above, fontsize=6, parse_math=True)


def _compare(axes: Axes, columns: list[Panel]) -> None:
    places = np.arange(len(columns))
    for shift, reading, name, colour in (
        (-0.2, "exact_subset", "exact", COLOURS["effective"]),
        (0.2, "padded", "padded (published)", COLOURS["padded"]),
    ):
        heights = [overall(panel.table, reading, "null_mass") for panel in columns]
        axes.bar(places + shift, heights, 0.36, color=colour, label=name)
    for place, panel in zip(places, columns, strict=True):
        share, top = padding_share(panel.table), overall(panel.table, "padded", "null_mass")
        if np.isfinite(share):
            axes.text(place + 0.2, top, f"{100 * share:.0f} %", ha="center", va="bottom", fontsize=6)
    axes.set_xticks(places, [panel.title for panel in columns], fontsize=6)
    axes.set(ylabel="‖null part‖ / ‖attention‖", title="same examples: % due to padding")
    axes.margins(y=0.3)
    axes.legend(loc="upper center", ncols=2, handlelength=1, columnspacing=1)
