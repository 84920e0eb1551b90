"""Error bars on attention: what the report says and shows of ``identified``."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.layers import legend_below, name_tokens
from effective_attention.reports.drawing.style import (
    COLOURS,
    DOUBLE,
    draw_cells,
    grid,
    number_cells,
    styled,
    tidy_axes,
    width_for,
)
from effective_attention.reports.findings import head_name, layer_place, listed, percent, said_of
from effective_attention.reports.grid import Grid, number, span
from effective_attention.reports.reductions import layer_by_head, one_line, panels, token_label

_TITLES = {"cls": "[CLS]", "sep": "[SEP]", "first": "first token", "punctuation": "period, comma", "other": "other"}
_NECESSARY = 1e-6
_FREE = "#8c8c8c"
_MOST_ROWS = 4  # of different runs in a figure
_MOST_NAMED = 64
_MOST_LISTED = 5


def of_quantity(table: DataFrame, name: str) -> DataFrame:
    """Return the rows of one block."""
    return table[table["quantity"] == name]


def has_row(table: DataFrame) -> bool:
    """Tell whether a row is shown: the process that wrote the table was shown its example."""
    return len(of_quantity(table, "row")) > 0


def has_heads(table: DataFrame) -> bool:
    """Tell whether intervals were counted."""
    return len(of_quantity(table, "weight")) > 0


# --- figures ---


@styled
def identified_row(table: DataFrame) -> Figure:
    """Draw a row of attention for each task, key by key, with the interval of each weight; the first four."""
    shown = panels(of_quantity(table, "row"))[:_MOST_ROWS]
    figure, axes = grid(len(shown), 1, width=DOUBLE, height=1.9 * len(shown) + 0.35)
    for axis, panel in zip(axes[:, 0], shown, strict=True):
        _whiskers(axis, panel.table)
        first = panel.table.iloc[0]
        place = head_name(first["layer"], first["head"])
        axis.set_title(f"{one_line(panel.title)}, {place}: attention of {token_label(first['query_token'])}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    legend_below(figure, handles, labels)
    return figure


def _whiskers(axes: Axes, rows: DataFrame) -> None:
    """Draw an interval and a dot for each key; those that cannot be 0 stand out. Several runs are averaged."""
    means = rows.astype({"key": int}).groupby("key")[["value", "low", "high"]].mean()
    names = rows.drop_duplicates("key").sort_values("key")["key_token"].astype(str).tolist()
    means.index = range(len(means))  # a query may not see every key
    for needed, colour, label in (
        (False, _FREE, "could be 0 with the same output"),
        (True, COLOURS["effective"], "necessary: cannot be 0"),
    ):
        mine = means[(means["low"] > _NECESSARY) == needed]
        axes.vlines(mine.index, mine["low"], mine["high"], color=colour, linewidth=2.2, alpha=0.55)
        axes.plot(mine.index, mine["value"], "o", color=colour, markersize=2.4, label=label)
    axes.set(xlim=(-0.8, len(names) - 0.2), ylabel="weight")
    axes.set_ylim(bottom=0)
    name_tokens(axes, names, shift=0.0, most=_MOST_NAMED)
    tidy_axes(axes)


@styled
def identified(table: DataFrame) -> Figure:
    """Draw layer by head the share of attention that is identified."""
    rows = of_quantity(table, "weight")
    shown = panels(rows[rows["target"] == "all"])
    figure, axes = grid(1, len(shown), width=width_for(len(shown)), height=2.2 if len(shown) == 1 else 1.9)
    for axis, panel in zip(axes[0], shown, strict=True):
        cells = layer_by_head(panel.table, "identified")
        mesh = draw_cells(axis, cells.to_numpy(float), cmap="BuPu", vmin=0, vmax=1)
        number_cells(axis, cells, y=axis is axes[0, 0])
        axis.set_title(panel.title)
    axes[0, 0].set_ylabel("layer")
    bar = figure.colorbar(mesh, ax=list(axes[0]), pad=0.01, aspect=16, fraction=0.05, format=PercentFormatter(1.0))
    bar.set_label("attention that is identified")
    bar.outline.set_visible(False)
    figure.supxlabel("head", fontsize=7)
    return figure


# --- tables ---


def identified_table(table: DataFrame) -> Grid:
    """Set for each type of key its weight, the least and the most it can be, and what is identified."""
    rows = []
    weights = of_quantity(table, "weight")
    for panel in panels(weights) if len(weights) else ():
        means = panel.table.groupby("target")[["value", "low", "high", "identified", "necessary"]].mean()
        for name, title in {**_TITLES, "all": "all"}.items():
            if name in means.index:
                mine = means.loc[name]
                limits = span(mine["low"], mine["high"])
                shares = [percent(mine["identified"]), percent(mine["necessary"])]
                rows.append([one_line(panel.title), title, number(mine["value"]), limits, *shares])
    columns = ["task", "keys", "weight", "least to most with the same output", "identified", "necessary keys"]
    return Grid(
        "What is determined by the heads' output, mean over queries, heads and layers.", columns, rows, labels=2
    )


def logits_table(table: DataFrame) -> Grid:
    """Set what both ends of random intervals, put into the model, change; no rows where none were."""
    rows = []
    for panel in panels(table):
        changes = of_quantity(panel.table, "logit_change")
        if len(changes):
            control = of_quantity(panel.table, "control_change")["value"].max()
            cells = [number(changes["count"].sum(), 0), number(changes["value"].max()), number(control)]
            rows.append([one_line(panel.title), *cells])
    columns = ["task", "ends put in", "largest logit difference", "as much weight moved to one token"]
    return Grid("The model with an end of an interval in place of a head's own row.", columns, rows)


# --- sentences ---


def found_identified(table: DataFrame) -> list[str]:
    """Say how much is identified, where, which types of keys are, and what is necessary in the row that is shown."""
    said = []
    for panel in panels(table):
        rows = of_quantity(panel.table, "weight")
        every = rows[rows["target"] == "all"]
        if len(every):
            said.append(said_of(panel, table, _of_heads(every)))
            said += [said_of(panel, table, _of_types(rows))] if every["identified"].min() < 1 - 1e-6 else []
        row = of_quantity(panel.table, "row")
        said += [said_of(panel, table, _of_row(row))] if len(row) else []
    return said


def _of_heads(every: DataFrame) -> str:
    share = every["identified"].mean()
    if every["identified"].min() > 1 - 1e-6:
        return "all attention is identified: no text that was looked at leaves a head any freedom."
    layers = every.astype({"layer": int}).groupby("layer")["identified"].mean()
    most, least = int(layers.idxmax()), int(layers.idxmin())
    where = "" if most == least else (
        f", most in {layer_place(most, int(layers.index.max()))} ({percent(layers[most])}), "
        f"least in layer {least} ({percent(layers[least])})"
    )  # fmt: skip
    return f"{percent(share)} of a head's attention is identified by its output{where}; the rest could be elsewhere."


def _of_types(rows: DataFrame) -> str:
    means = rows.groupby("target")[["value", "low", "high", "identified"]].mean()
    known = means.loc[[name for name in _TITLES if name in means.index]].sort_values("identified", ascending=False)
    parts = [
        f"{_TITLES[str(name)]} {percent(mine['identified'])} (weight {number(mine['value'], 2)}, possible "
        f"{span(mine['low'], mine['high'], 2)})"
        for name, mine in known.iterrows()
    ]
    return f"best identified by type of token: {', '.join(parts)}."


def _of_row(row: DataFrame) -> str:
    needed = row[row["low"] > _NECESSARY].sort_values("low", ascending=False)
    first = row.iloc[0]
    names = [token_label(name) for name in needed["key_token"][:_MOST_LISTED]]
    which = f" (most of all {listed(names)})" if len(needed) > len(names) else f" ({listed(names)})" if names else ""
    return (
        f"in the row shown, {head_name(first['layer'], first['head'])}, {len(needed)} of {len(row)} tokens are "
        f"necessary{which}: no distribution with the same output does without them."
    )


CHAPTER = Chapter(
    analysis="identified",
    title="Error bars on attention",
    source="ours, after Brunner et al. 2020, §3.3",
    question="How much of a head's attention is determined by what the head does?",
    text=(
        "Over all distributions with the same output as a row of attention each weight has a smallest and a largest "
        "value: an exact interval, from two linear programs, with the model's own weight inside. What lies below the "
        "smallest values is identified: it is there in every attention that does the same. A token whose smallest "
        "weight is above 0 is necessary. For a type of token the interval is that of its tokens' weights together. "
        "Measured on random tokens of a random sample of examples. Both ends of some intervals are put into the "
        "model: no logit may change."
    ),
    found=found_identified,
    figures=(
        Drawing(
            "identified_row",
            (
                "One token's attention: dots are the model's weights, bars reach from the smallest to the largest "
                "weight that a distribution with the same output can have."
            ),
            identified_row,
            has_row,
        ),
        Drawing(
            "identified",
            "Share of attention that is identified by the head's output, by layer and head.",
            identified,
            has_heads,
        ),
    ),
    tables=(identified_table, logits_table),
)
