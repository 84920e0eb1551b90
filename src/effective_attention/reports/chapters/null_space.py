"""The null space, and what padding adds to it: what the report says and shows of ``null_space``.

A text with no more tokens than a head has value dimensions has no null space, so attention and effective attention are
one. The published protocol pads every text to a fixed length first. Both readings are therefore shown on the same
examples: how far effective attention moves by padding, how far the output does, and the null part of each.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from effective_attention.reports.chapter import Chapter, Drawing, Scalars
from effective_attention.reports.drawing.layers import layer_axis
from effective_attention.reports.drawing.style import COLOURS, DOUBLE, MARKERS, SERIES, grid, styled, tidy_axes
from effective_attention.reports.findings import percent, said_of
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.reductions import Panel, one_line, panels

_BIN = 4  # tokens; divides every usual head width, so that no bin lies on both sides of it
_MASS = "‖null part‖ / ‖attention‖"


# --- reductions ---


def by_length(table: DataFrame, quantity: str) -> Series:
    """Return the weighted mean in bins of a few tokens, indexed by the bin's mean length."""
    rows = table[(table["quantity"] == quantity) & table["length"].notna()]
    lengths = rows["length"].to_numpy(float)
    weights = rows["count"].to_numpy(float)
    frame = DataFrame(
        {"bin": (lengths - 1) // _BIN, "length": lengths * weights, "value": rows["value"].to_numpy(float) * weights}
    )
    sums = frame.assign(weight=weights).dropna().groupby("bin").sum()
    return Series((sums["value"] / sums["weight"]).to_numpy(), index=(sums["length"] / sums["weight"]).to_numpy())


def layer_means(table: DataFrame, quantity: str) -> Series:
    """Return the mean over heads of one quantity, indexed by layer."""
    rows = table[(table["quantity"] == quantity) & table["layer"].notna()].astype({"layer": int})
    return rows.groupby("layer")["value"].mean()


def overall(table: DataFrame, reading: str, quantity: str) -> float:
    """Return the mean over layers and heads of one reading, all lengths together."""
    rows = table[(table["reading"] == reading) & (table["quantity"] == quantity) & table["length"].isna()]
    return float(rows["value"].mean())


def padding_share(table: DataFrame) -> float:
    """Return by how much the padded reading's null part is larger, as a share of it: 0 not at all, 1 it alone has one.

    It says too little where both have one, as norms do not add: two null parts of one size may be other maps.
    ``padding_shift`` and ``output_change`` say how far padding moves effective attention and output.
    """
    exact, padded = (overall(table, reading, "null_mass") for reading in ("exact_subset", "padded"))
    return 1 - exact / padded if padded > 0 else float("nan")


def rank_limit(table: DataFrame) -> int | None:
    """Return the head width d_v: the largest rank any length or head reaches; None if the table has no ranks."""
    ranks = table.loc[table["quantity"] == "rank", "value"].dropna()
    return None if ranks.empty else round(float(ranks.max()))


# --- figures ---


@styled
def draw_null_space(table: DataFrame) -> Figure:
    """Draw three panels, or two if no example was also read the padded way."""
    columns = panels(table)
    compared = {"padded", "exact_subset"} <= set(table["reading"])
    ratios = [1.0, 1.0, max(1.0, len(columns) / 5)] if compared else [1.0, 1.0]
    figure, axes = grid(1, len(ratios), width=DOUBLE * max(1.0, len(columns) / 6), height=2.35, width_ratios=ratios)
    for index, panel in enumerate(columns):
        look = {"color": SERIES[index % len(SERIES)], "marker": MARKERS[index % len(MARKERS)], "label": panel.title}
        exact = panel.table[panel.table["reading"] == "exact"]
        _line(axes[0, 0], by_length(exact, "pearson"), look)
        _line(axes[0, 1], layer_means(exact, "null_mass"), look)
    _finish_lengths(axes[0, 0], rank_limit(table))
    _finish_layers(axes[0, 1])
    if compared:
        _compare(axes[0, 2], columns)
    for axis in axes[0]:
        tidy_axes(axis)
    if len(columns) > 1:
        handles, labels = axes[0, 0].get_legend_handles_labels()
        names = [one_line(label) for label in labels]
        figure.legend(handles, names, loc="outside lower left", ncols=min(len(names), 6), handlelength=1.6)
    return figure


def _line(axes: Axes, values: Series, look: dict[str, str]) -> None:
    axes.plot(values.index, values, linewidth=1, markersize=2.6, **look)  # type: ignore[arg-type]


def _finish_lengths(axes: Axes, head_width: int | None) -> None:
    """Name the axes of the panel by length, and mark the length from which on there is a null space."""
    axes.set(xlabel="length in tokens", ylabel="Pearson(attention, effective)", title="by length (exact)")
    if head_width is not None:
        axes.axvline(head_width, color="black", linewidth=0.8, linestyle=(0, (3, 2)))
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom - 0.12 * (top - bottom), top)
        note = f"$d_v$ = {head_width}: a null\nspace from here on"
        above = axes.get_xaxis_transform()  # length across, share of the panel's height up
        axes.text(head_width + 2, 0.02, note, transform=above, fontsize=6, parse_math=True)


def _finish_layers(axes: Axes) -> None:
    layer_axis(axes, label=True)
    axes.set(ylabel=_MASS, title="by layer (exact)")
    axes.set_ylim(bottom=0)


def _compare(axes: Axes, columns: list[Panel]) -> None:
    """Draw for each task how far padding moves effective attention, and the heads' outputs."""
    places = np.arange(len(columns))
    for shift, quantity, name, colour in (
        (-0.2, "padding_shift", "effective attention", COLOURS["effective"]),
        (0.2, "output_change", "output", COLOURS["padded"]),
    ):
        heights = [100 * overall(panel.table, "padded", quantity) for panel in columns]
        axes.bar(places + shift, heights, 0.36, color=colour, label=name)
        for place, height in zip(places, heights, strict=True):
            if np.isfinite(height):  # tables of older runs have no shift
                axes.text(place + shift, height, f"{height:.0f}", ha="center", va="bottom", fontsize=6)
    axes.set_xticks(places, [panel.title for panel in columns], fontsize=6)
    axes.set(ylabel="relative change (%)", title="changed by padding")
    axes.margins(y=0.3)
    axes.legend(loc="upper center", ncols=2, handlelength=1, columnspacing=1)


# --- tables ---


def null_space_table(table: DataFrame) -> Grid:
    """Set what the null space holds, and how much of it is padding's."""
    rows = []
    for panel in panels(table):
        sizes = [overall(panel.table, "exact", name) for name in ("rank", "nullity")]
        rest = [overall(panel.table, "exact", name) for name in ("nontrivial", "null_mass", "pearson")]
        rest += [overall(panel.table, reading, "null_mass") for reading in ("exact_subset", "padded")]
        rest += [overall(panel.table, "padded", name) for name in ("padding_shift", "output_change")]
        rest.append(padding_share(panel.table))
        cells = [*(number(value, 1) for value in sizes), *(number(value) for value in rest)]
        rows.append([one_line(panel.title), *cells])
    columns = ["task", "rank", "nullity", "examples with a null space", "null mass", "Pearson(A, A⊥)"]
    columns += ["null mass, exact", "null mass, padded", "A⊥ changed by", "output changed by", "larger null part"]
    groups = [("", 1), ("exact, all examples", 5), ("same examples, exact and padded", 5)]
    caption = (
        "The null space, mean over layers and heads. A⊥ changed by: distance of effective attention read padded and "
        "exactly, relative to the latter; larger null part: by how much the padded null mass is larger, as a share of "
        "it, which says less, as two null parts of one size may be different maps."
    )
    return Grid(caption, columns, rows, groups)


def projected_table(table: DataFrame) -> Grid:
    """Set the null space of T, values behind the output projection, beside that of the values.

    There are no rows where it was not read.
    """
    rows = []
    for panel in panels(table):
        mine = panel.table[(panel.table["reading"] == "projected") & panel.table["length"].isna()]
        if mine.empty:
            continue
        means = mine.groupby("quantity")["value"].mean()
        largest = mine.loc[mine["quantity"] == "effective_gap", "value"].max()
        cells = [number(means.get(name), 1) for name in ("projection_rank", "rank", "nullity")]
        cells += [number(means.get("null_mass")), number(means.get("effective_gap")), number(largest)]
        rows.append([one_line(panel.title), number(mine["count"].max(), 0), *cells])
    columns = ["task", "examples", "rank of H", "rank of T", "nullity of T", "null mass"]
    columns += ["mean gap", "gap of the worst head"]
    caption = (
        "The null space of T = V H beside that of the values V, mean over layers and heads; gap: how far effective "
        "attention by T is from that by V, relative to attention; rounding where a head's output projection H has "
        "full rank."
    )
    return Grid(caption, columns, rows)


def found_null_space(table: DataFrame) -> list[str]:
    """Say how many examples have a null space, what it holds of attention, and what padding adds to it."""
    said = []
    for panel in panels(table):
        rows = panel.table
        share, mass = (overall(rows, "exact", name) for name in ("nontrivial", "null_mass"))
        if share == 0:
            width = rank_limit(rows)
            limit = "" if width is None else f": no text is longer than a head is wide ({width})"
            said.append(
                said_of(panel, table, f"no example has a null space{limit}, so every weight reaches the output.")
            )
        elif np.isfinite(share):
            sentence = f"{percent(share)} of the examples have a null space; it holds {percent(mass)} of attention"
            said.append(said_of(panel, table, f"{sentence} (‖null part‖ / ‖attention‖, mean over heads and examples)."))
        moved, output = (overall(rows, "padded", name) for name in ("padding_shift", "output_change"))
        if np.isfinite(moved):
            sentence = f"padding, as published, moves effective attention by {percent(moved)} of its size and a head's"
            said.append(said_of(panel, table, f"{sentence} output by {percent(output, 1)}."))
    return said


def null_space_scalars(table: DataFrame) -> dict[str, float]:
    """Name what the null space holds, and what padding changes, mean over layers and heads."""
    exact = {name: overall(table, "exact", name) for name in ("nontrivial", "null_mass", "pearson")}
    padded = {name: overall(table, "padded", name) for name in ("padding_shift", "output_change")}
    found = {**exact, **padded, "padding_share": padding_share(table)}
    return {f"null_space/effective/{name}": value for name, value in found.items() if np.isfinite(value)}


CHAPTER = Chapter(
    analysis="null_space",
    title="The null space, and what padding adds to it",
    source="Brunner et al. 2020, Fig. 1a, and ours",
    question="How much of attention never reaches the output, and how much of that is padding?",
    text=(
        "The part of attention that the values cancel. Read exactly, it is empty unless a text has more tokens than a "
        "head has value dimensions. The published protocol pads every text first, which enlarges the null "
        "space and moves the output: the last panel shows by how much."
    ),
    paper_says="Brunner et al. find a correlation of 1 up to the head's width, and then a fall.",
    found=found_null_space,
    figures=(
        Drawing(
            "null_space",
            (
                "Left: correlation of attention and effective attention by length. Middle: share of attention in the "
                "null space by layer. Right: how far the published padding moves effective attention, and the heads' "
                "outputs, on the same examples."
            ),
            draw_null_space,
        ),
    ),
    tables=(null_space_table, projected_table),
    scalars=Scalars("the null space", "share", "null_space", null_space_scalars, attentions=("effective",)),
)
