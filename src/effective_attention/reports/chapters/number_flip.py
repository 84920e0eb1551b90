"""Exchanged numbers: what the report says and shows of ``number_flip``."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.layers import EVEN, PERCENT, layer_axis, legend_below
from effective_attention.reports.drawing.style import COLOURS, DOUBLE, grid, styled, tidy_axes, width_for
from effective_attention.reports.findings import percent, said_of
from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.reductions import Panel, attentions, one_line, panels

_WORDS = ("subject", "attractor")
_GROUPS = ("all", "right", "wrong")
_METHODS = ("raw", "rollout", "flow")
_LOOKS: dict[str, dict[str, Any]] = {
    "raw": {"marker": "o", "linestyle": ":", "markersize": 2.6},
    "rollout": {"marker": "s", "linestyle": "--", "markersize": 2.6},
    "flow": {"marker": "D", "linestyle": "-", "markersize": 2.6},
}


def words_of(table: DataFrame) -> list[str]:
    """Return the words that were exchanged in any example."""
    flips = table[(table["quantity"] == "flips") & table["value"].notna()]
    return [word for word in _WORDS if word in set(flips["word"])]


def has_flips(table: DataFrame) -> bool:
    """Tell whether any word was exchanged."""
    return len(words_of(table)) > 0


@styled
def number_flip(table: DataFrame) -> Figure:
    """Draw by layer, a row per word, the weight on it, and its correlation with what the exchange moves."""
    shown = [(panel, word) for panel in panels(table) for word in words_of(panel.table)]
    figure, axes = grid(len(shown), 2, width=DOUBLE, height=1.55 * len(shown) + 0.4)
    for line, (panel, word) in zip(axes, shown, strict=True):
        rows = panel.table[panel.table["word"] == word]
        _weights(line[0], rows)
        _lines(line[1], rows[rows["quantity"] == "spearman"], band=True)
        line[1].axhline(0, color="#bdbdbd", linewidth=0.6, zorder=0)
        line[0].set_ylabel(f"{one_line(panel.title)}\n{word}")
        for axis in line:
            layer_axis(axis, label=word == shown[-1][1] and panel is shown[-1][0])
    axes[0, 0].set_title("weight on the word")
    axes[0, 1].set_title("Spearman of weight and move")
    _legend(figure, attentions(table))
    return figure


def _weights(axes: Axes, rows: DataFrame) -> None:
    mine = rows[(rows["quantity"] == "weight") & (rows["group"] == "all")]
    _lines(axes, mine, band=False)
    axes.yaxis.set_major_formatter(PERCENT)
    axes.set_ylim(bottom=0)


def _lines(axes: Axes, rows: DataFrame, *, band: bool) -> None:
    axes.axhline(float(rows["even"].mean()), color="#666666", **EVEN)
    for method, look in _LOOKS.items():
        for kind in attentions(rows):
            mine = rows[(rows["method"] == method) & (rows["attention"] == kind)].astype({"layer": int})
            means = mine.groupby("layer")[["value", "low", "high"]].mean()
            axes.plot(means.index, means["value"], color=COLOURS[kind], linewidth=1, **look)
            if band and method == "rollout":
                axes.fill_between(
                    means.index, means["low"], means["high"], color=COLOURS[kind], alpha=0.13, linewidth=0
                )
    tidy_axes(axes)


def _legend(figure: Figure, kinds: list[str]) -> None:
    handles = [Line2D([], [], color=COLOURS[kind], linewidth=1.4) for kind in kinds]
    handles += [Line2D([], [], color="#444444", **look) for look in _LOOKS.values()]
    handles.append(Line2D([], [], color="#666666", **EVEN))
    legend_below(figure, handles, [*kinds, *_LOOKS, "even attention"])


@styled
def number_flip_answers(table: DataFrame) -> Figure:
    """Draw how often the answer flips, with 95 % intervals: a row per word and group, a panel per task or setting."""
    shown = panels(table)
    places = [(word, group) for word in words_of(table) for group in _GROUPS]
    figure, axes = grid(1, len(shown), width=width_for(len(shown)), height=0.2 * len(places) + 0.9, sharey=True)
    for axis, panel in zip(axes[0], shown, strict=True):
        flips = panel.table[panel.table["quantity"] == "flips"]
        found = flips.groupby(["word", "group"])[["value", "low", "high"]].mean()
        for height, place in enumerate(places):
            if place in found.index and np.isfinite(found.loc[place, "value"]):
                value, low, high = found.loc[place, ["value", "low", "high"]].astype(float)
                axis.plot([low, high], [height, height], color="#444444", linewidth=1, solid_capstyle="butt")
                axis.plot([value], [height], "o", color="#444444", markersize=3.4)
        axis.set(xlim=(-0.03, 1.03), ylim=(len(places) - 0.5, -0.5), title=one_line(panel.title))
        axis.set_xticks([0, 0.5, 1])
        axis.xaxis.set_major_formatter(PERCENT)
        tidy_axes(axis)
    figure.supxlabel("answers that flip", fontsize=7)
    axes[0, 0].set_ylabel("exchanged")
    axes[0, 0].set_yticks(range(len(places)), [_place_name(*place) for place in places])
    return figure


def _place_name(word: str, group: str) -> str:
    return f"{word}, {group}"


def flips_table(table: DataFrame) -> Grid:
    """Set how often the answer flips."""
    rows = []
    for panel in panels(table):
        flips = panel.table[panel.table["quantity"] == "flips"].groupby(["word", "group"])
        found = flips[["value", "low", "high", "count"]].mean()
        for place in ((word, group) for word in words_of(panel.table) for group in _GROUPS):
            cells = _with_interval(*found.loc[place, ["value", "low", "high"]])
            rows.append([one_line(panel.title), *place, number(found.loc[place, "count"], 0), cells])
    columns = ["task", "exchanged", "answered before", "examples", "answers that flip"]
    return Grid("How often the answer flips, with 95 % intervals over examples.", columns, rows, labels=3)


def _with_interval(value: float, low: float, high: float) -> str:
    return NONE if not np.isfinite(value) else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def weights_table(table: DataFrame) -> Grid:
    """Set what the last layer gives the word: rightly and wrongly answered examples, even attention, correlation."""
    rows = []
    for panel in panels(table):
        last = panel.table[panel.table["layer"] == panel.table["layer"].max()]
        for word in words_of(panel.table):
            rows += [_weight_cells(panel, last[last["word"] == word], word, kind, method)
                     for kind in attentions(last) for method in _METHODS]  # fmt: skip
    columns = ["task", "word", "attention", "method", "weight, right", "weight, wrong", "even", "Spearman", "even"]
    caption = "Last layer: weight on the word by how the example was answered, and the correlation with what moves."
    return Grid(caption, columns, rows, labels=4)


def _weight_cells(panel: Panel, last: DataFrame, word: str, kind: str, method: str) -> list[str]:
    mine = last[(last["attention"] == kind) & (last["method"] == method)]
    numbers = ["value", "low", "high", "even"]
    groups = mine[mine["quantity"] == "weight"].groupby("group")[numbers].mean()
    moved = mine[mine["quantity"] == "spearman"][numbers].mean()
    cells = [_with_interval(*groups.loc[group, ["value", "low", "high"]]) for group in ("right", "wrong")]
    even = [number(groups.loc["all", "even"]), number(moved["even"])]
    both = _with_interval(*moved[["value", "low", "high"]])
    return [one_line(panel.title), word, kind, method, *cells, even[0], both, even[1]]


def mistakes_table(table: DataFrame) -> Grid:
    """List misclassified examples, that with the lowest probability of its right number first."""
    rows = []
    for panel in panels(table):
        wrong = panel.table[panel.table["quantity"] == "probability"].sort_values("value", kind="stable")
        for row in wrong.to_dict("records"):
            cells = [number(row["example"], 0), number(row["value"]), str(row["gold"]), str(row["sentence"])]
            rows.append([one_line(panel.title), *cells])
    columns = ["task", "example", "probability of the right number", "right number", "text before the verb"]
    caption = "Misclassified examples; analysis.attention_graph.example=worst draws the first of the split."
    return Grid(caption, columns, rows, labels=1)


def found_flips(table: DataFrame) -> list[str]:
    """Say how often each exchange flips the answer, and which explanation goes with what it moves."""
    said = []
    for panel in panels(table):
        sentences = [_flips(panel.table, word) for word in words_of(panel.table)]
        sentences += [_closest(panel.table, word) for word in words_of(panel.table)]
        said += [said_of(panel, table, sentence) for sentence in sentences if sentence]
    return said


def _flips(table: DataFrame, word: str) -> str:
    flips = table[(table["quantity"] == "flips") & (table["word"] == word)].groupby("group")["value"].mean()
    right, wrong = (
        ("as it should", "where it had become right") if word == "subject" else ("though it should not", "misled by it")
    )
    wanted = {"right": right, "wrong": wrong}
    parts = [
        f"{percent(flips[group])} of those answered {group}ly ({said})"
        for group, said in wanted.items()
        if flips[group] == flips[group]
    ]
    return f"with the {word} exchanged the answer flips in {' and in '.join(parts)}."


def _closest(table: DataFrame, word: str) -> str:
    """Name the explanation whose weight on the word goes best with what the exchange moves; last layer."""
    rows = table[(table["quantity"] == "spearman") & (table["word"] == word) & table["value"].notna()]
    rows = rows[rows["layer"] == rows["layer"].max()]
    if rows.empty:
        return ""
    means = rows.groupby(["method", "attention"])[["value", "low", "even"]].mean()
    method, kind = means["value"].idxmax()
    value, low, even = means.loc[(method, kind), ["value", "low", "even"]]
    beyond = "more than even attention" if low > even else "not told apart from even attention"
    closest = f"the closest is {method} on {kind} attention (Spearman {value:.2f})"
    return f"last layer, {word}, weight and what its exchange moves: {closest}, {beyond} ({even:.2f})."


CHAPTER = Chapter(
    analysis="number_flip",
    title="Exchanged numbers",
    source="after Abnar & Zuidema 2020, Fig. 2 and 3",
    question="Does the verb's number hang on its subject, and do explanations point there?",
    text=(
        "The subject of each example is put into its other number, so that the right answer is the other one too; and, "
        "separately, the last attractor, so that it stays. A wrong answer that flips with the attractor was misled by "
        "it. Beside how often the answer flips stands the share of the weight on words that the answering token gives "
        "to the word (raw attention, rollout, flow), and whether it gives more where the exchange moves the "
        "probability more (Spearman over examples; band: 95 % interval, rollout). Both are larger in short texts: even "
        "attention has such a correlation too. Nouns whose other number is not known are left out. Negative effective "
        "weights count by their size or as nothing, as the column convention says."
    ),
    paper_says=(
        "Abnar & Zuidema change a noun's number in one rightly and one wrongly classified example; both flip. In the "
        "first, rollout and flow give much weight to subject and attractor, in the second to a noun that is not the "
        "subject."
    ),
    found=found_flips,
    needs_head=True,
    figures=(
        Drawing(
            "number_flip_answers",
            (
                "How often the answer flips when the word is put into its other number, among all examples and those "
                "answered rightly and wrongly before, with 95 % intervals."
            ),
            number_flip_answers,
            has_flips,
        ),
        Drawing(
            "number_flip",
            (
                "Weight on the word, and its correlation with how far the word's exchange moves the probability, by "
                "layer; thin and dotted, even attention. Where one colour is seen, both attentions are the same."
            ),
            number_flip,
            has_flips,
        ),
    ),
    tables=(flips_table, weights_table, mistakes_table),
)
