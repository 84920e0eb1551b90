"""Resting places of attention: what the report says and shows of ``sinks``."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.layers import layer_axis, shared_legend, wrapped
from effective_attention.reports.drawing.style import COLOURS, grid, styled, tidy_axes, width_for
from effective_attention.reports.findings import listed, percent, said_of
from effective_attention.reports.grid import Grid, number, span
from effective_attention.reports.reductions import by_layer, one_line, panels

_KINDS = ("standard", "effective", "affine")
_TOKENS = {
    "cls": "[CLS]",
    "sep": "[SEP]",
    "first": "the first token",
    "punctuation": "a period or comma",
    "other": "another token",
}
_ROUNDING = 1e-5


def rows_of(table: DataFrame, quantity: str, **where: str) -> DataFrame:
    """Return the rows of one quantity, and of what else is given."""
    rows = table[table["quantity"] == quantity]
    for name, value in where.items():
        rows = rows[rows[name] == value]
    return rows


def mean_of(table: DataFrame, quantity: str, column: str = "value", **where: str) -> float:
    """Return the mean over layers and heads, NaN where there are none."""
    rows = rows_of(table, quantity, **where)
    return float(rows[column].mean()) if len(rows) else float("nan")


# --- figures ---


@styled
def sinks(table: DataFrame) -> Figure:
    """Draw what the strongest token receives, layer by layer, and what it could receive with the same output."""
    shown = panels(table)
    figure, axes = wrapped(len(shown), height=1.9)
    for axis, panel in zip(axes, shown, strict=True):
        means = {kind: by_layer(rows_of(panel.table, "received", attention=kind, place="strongest")) for kind in _KINDS}
        _band(axis, rows_of(panel.table, "interval"), means["standard"])
        for kind in _KINDS:
            axis.plot(means[kind].index, means[kind], color=COLOURS[kind], marker="o", markersize=2.5, label=kind)
        axis.set(title=panel.title, ylim=(min(0.0, axis.get_ylim()[0]), None))
        layer_axis(axis, label=False)
    axes[0].set_ylabel("weight on the strongest token")
    shared_legend(figure, axes, most=2 if len(shown) == 1 else 4)
    return figure


def _band(axes: Axes, ends: DataFrame, weights: Series) -> None:
    """Draw how much lower and higher the weights could be: measured on a sample, so drawn around all texts' mean."""
    if len(ends):
        means = ends.astype({"layer": int}).groupby("layer")[["value", "low", "high"]].mean()
        low, high = (weights + means[end] - means["value"] for end in ("low", "high"))
        label = "possible with the same output"
        axes.fill_between(weights.index, low, high, color=COLOURS["standard"], alpha=0.2, linewidth=0, label=label)


@styled
def sink_levels(table: DataFrame) -> Figure:
    """Draw what is left of attention, and what values are like, by how much attention a token receives."""
    shown = panels(table)
    figure, axes = grid(len(shown), 2, width=width_for(2), height=1.9 * len(shown) + 0.4)
    for across, panel in zip(axes, shown, strict=True):
        levels = rows_of(panel.table, "level").pivot_table(index="level", columns="measure", values="value", sort=False)
        _lines(across[0], {kind: levels[kind] / levels["standard"] for kind in _KINDS[1:]}, levels.index.tolist())
        _lines(
            across[1],
            {name: levels[name] for name in ("leverage", "affine_leverage", "value_norm")},
            levels.index.tolist(),
        )
        across[0].set(title=one_line(panel.title), ylabel="share of attention kept")
        across[1].set_ylabel("mean over tokens")
    for axis in axes[-1]:
        axis.set_xlabel("attention received / even attention")
    for place in (0, 1):
        axes[0, place].legend(loc="best", handlelength=1.5)
    return figure


def _lines(axes: Axes, lines: dict[str, Series], names: list[str]) -> None:
    colours = {
        **COLOURS,
        "leverage": COLOURS["effective"],
        "affine_leverage": COLOURS["affine"],
        "value_norm": "#8c510a",
    }
    for name, values in lines.items():
        axes.plot(
            range(len(names)), values, color=colours[name], marker="o", markersize=2.5, label=name.replace("_", " ")
        )
    axes.axhline(0, color="#bbbbbb", linewidth=0.6, zorder=0)
    axes.set_xticks(range(len(names)), [_short(name) for name in names])
    tidy_axes(axes)


def _short(level: str) -> str:
    """Write a level as it fits below its place on the axis.

    >>> _short("0.25 to 0.5"), _short("8 and more")
    ('¼ to ½', '≥ 8')
    """
    if level.endswith(" and more"):
        return f"≥ {level.removesuffix(' and more')}"
    return " to ".join({"0.25": "¼", "0.5": "½"}.get(end, end) for end in level.split(" to "))


# --- tables ---


def sink_table(table: DataFrame) -> Grid:
    """Set what the strongest token and the others receive and are."""
    rows = []
    for panel in panels(table):
        for place in ("strongest", "others"):
            weights = [number(mean_of(panel.table, "received", attention=kind, place=place)) for kind in _KINDS]
            facts = [
                number(mean_of(panel.table, name, place=place), 2)
                for name in ("leverage", "affine_leverage", "value_norm", "vector_norm")
            ]
            rows.append([one_line(panel.title), place, *weights, *facts])
    columns = ["task", "token", *_KINDS, "leverage", "affine leverage", "value norm", "vector norm"]
    groups = [("", 2), ("attention received", 3), ("of its value", 4)]
    return Grid(
        "The token that receives most in a head, and the others; mean over heads and texts.",
        columns,
        rows,
        groups,
        labels=2,
    )


def comparison_table(table: DataFrame) -> Grid:
    """Set how alike each attention and norms order tokens, with intervals."""
    rows = []
    for panel in panels(table):
        cells = []
        for kind in _KINDS:
            found = rows_of(panel.table, "correlation", measure=kind, other="norm")
            ends = span(found["low"].mean(), found["high"].mean(), 2)
            cells.append(f"{number(found['value'].mean(), 2)} ({ends})")
        rows.append([one_line(panel.title), *cells])
    return Grid(
        "How alike attention and norms rank the tokens: rank correlation, and its 95 % interval, means over heads.",
        ["task", *_KINDS],
        rows,
    )


# --- sentences ---


def found_sinks(table: DataFrame) -> list[str]:
    """Say where heads rest, what of that is left, what else it could be, and whether the bound holds."""
    said = []
    for panel in panels(table):
        mine = panel.table
        sentences = [_where(mine), _what_is_left(mine), _what_is_possible(mine), _bound(mine), _against_norms(mine)]
        said += [said_of(panel, table, sentence) for sentence in sentences if sentence]
    return said


def _where(table: DataFrame) -> str:
    kinds = rows_of(table, "kind").groupby("kind")["value"].mean().sort_values(ascending=False)
    most = f"{_TOKENS[str(kinds.index[0])]} ({percent(kinds.iloc[0])})"
    share = percent(mean_of(table, "sink"))
    return f"in {share} of cases (a head on a text) a token is a sink; the token that receives most is mostly {most}."


def _what_is_left(table: DataFrame) -> str:
    standard, effective, affine = (mean_of(table, "received", attention=kind, place="strongest") for kind in _KINDS)
    own, others = (mean_of(table, "leverage", place=place) for place in ("strongest", "others"))
    return (
        f"the strongest token receives {number(standard)} of a head's attention, {number(effective)} of effective "
        f"attention and {number(affine)} of affine; its leverage is {number(own, 2)}, that of the others "
        f"{number(others, 2)}."
    )


def _what_is_possible(table: DataFrame) -> str:
    ends = rows_of(table, "interval")
    if not len(ends):
        return ""
    weight, low, high = (float(ends[column].mean()) for column in ("value", "low", "high"))
    effective = mean_of(table, "received", attention="effective", place="strongest")
    verdict = "outside" if not low <= effective <= high else "inside"
    return (
        f"with the same output its weight, {number(weight)} in the rows sampled, could be anything from "
        f"{span(low, high)}: effective attention's {number(effective)} lies {verdict} that."
    )


def _bound(table: DataFrame) -> str:
    excess = float(rows_of(table, "excess")["value"].max())
    if excess <= _ROUNDING:
        return "no effective weight exceeds its bound, the row's length times the root of the token's leverage."
    return f"an effective weight exceeds its bound by {number(excess)}: that should not be."


def _against_norms(table: DataFrame) -> str:
    found = {kind: mean_of(table, "correlation", measure=kind, other="norm") for kind in _KINDS}
    order = sorted(found, key=lambda kind: -found[kind])
    parts = [f"{kind} {number(found[kind], 2)}" for kind in order]
    return f"the order of tokens by attention agrees with that by norms: rank correlation {listed(parts)}."


CHAPTER = Chapter(
    analysis="sinks",
    title="Where attention rests",
    source="ours; sinks: Gu et al. 2024; norms: Kobayashi et al. 2020",
    question="Which tokens do heads rest on, and can that attention do anything?",
    text=(
        "A sink is a token that receives more than a threshold of a head's attention, on average over the tokens that "
        "see it. Leverage says how far a token's value stands out from all other values, from 0 to 1: a token without "
        "leverage can get no effective attention, as an effective weight is at most the length of its row times the "
        "root of the leverage. Affine is effective attention whose rows sum to 1. The band shows what the weight could "
        "be in any distribution with the same output. The norm is the length of a token's value times its weight; "
        "where tokens are ranked, weights below 0 count by their size."
    ),
    paper_says="Sun & Marasović find that effective attention disregards [SEP]; norms they leave to future work.",
    found=found_sinks,
    figures=(
        Drawing(
            "sinks",
            "Weight on the token that receives most, mean over heads and texts; band: what it could be with the same "
            "output, measured on a sample of rows.",
            sinks,
        ),
        Drawing(
            "sink_levels",
            (
                "Tokens by how much attention they receive, as a multiple of even attention. Left: what effective "
                "attention keeps of it. Right: leverage, and length of the value relative to the text's mean."
            ),
            sink_levels,
            lambda table: len(rows_of(table, "level")) > 0,
        ),
    ),
    tables=(sink_table, comparison_table),
)
