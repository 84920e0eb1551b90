"""A masked pronoun: what the report says and shows of ``pronouns``.

Abnar & Zuidema's Fig. 4: which pronoun a masked language model expects, and which referent its [MASK] looks at. Left,
the candidates' probabilities relative to each other. Right, layer by layer, how [MASK] shares out what it gives to the
referents at all: raw attention, rollout and flow.
"""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.style import DOUBLE, MARKERS, SERIES, grid, styled, tidy_axes
from effective_attention.reports.findings import percent
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.reductions import attentions, shortened

_METHODS = ("raw", "rollout", "flow")
_MOST_TEXTS = 4


def referent_shares(table: DataFrame) -> DataFrame:
    """Return attention with ``share``: what one referent gets of all that [MASK] gives to referents in a layer.

    NaN where that is nothing.
    """
    rows = table[table["quantity"] == "attention"].astype({"layer": int})
    keys = ["attention", "method", "layer"]
    means = rows.groupby([*keys, "name"], sort=False)["value"].mean().reset_index()
    total = means.groupby(keys)["value"].transform("sum")
    return means.assign(share=means["value"] / total.where(total > 0))


@styled
def pronouns(table: DataFrame) -> Figure:
    """Draw a block for each model and text: the candidates, then standard above effective, a column per method."""
    texts = [group for _, group in table.groupby(["model", "text"], sort=False)][:_MOST_TEXTS]
    kinds = attentions(table)
    lines = len(kinds) * len(texts)
    figure, axes = grid(lines, 4, width=DOUBLE, height=1.25 * lines + 0.45 * len(texts), width_ratios=[0.8, 1, 1, 1])
    for index, mine in enumerate(texts):
        _block(axes[index * len(kinds) : (index + 1) * len(kinds)], mine, kinds)
    return figure


def _block(block: NDArray[Any], table: DataFrame, kinds: list[str]) -> None:
    """Draw one text: its candidates, its referents for each attention (downward) and method (across), and a legend."""
    _draw_candidates(block[0, 0], table)
    for spare in block[1:, 0]:
        spare.set_axis_off()
    shares = referent_shares(table)
    for line, kind in zip(block, kinds, strict=True):
        _draw_referents(line[1:], shares[shares["attention"] == kind], kind)
    _legend(block, [shortened(name) for name in shares["name"].unique()])
    for axis, method in zip(block[0, 1:], _METHODS, strict=True):
        axis.set_title(method)
    for axis in block[-1, 1:]:
        axis.set_xlabel("layer")
    block[0, 0].set_title(_said(table), loc="left", fontsize=6.5)


def _said(table: DataFrame) -> str:
    """Return the model and its sentence, in lines as long as the first column is wide."""
    text = textwrap.shorten(" ".join(str(table["text"].iloc[0]).split()), 160, placeholder=" …")
    return textwrap.fill(f"{shortened(table['model'].iloc[0])}: {text}", 28)


def _draw_candidates(axes: Axes, table: DataFrame) -> None:
    """Draw a bar for each candidate, its probability relative to the others, with its own in brackets."""
    chances = table[table["quantity"] != "attention"].groupby(["quantity", "name"], sort=False)["value"].mean()
    relative = chances["relative_probability"]
    whole = chances["probability"]
    bars = axes.barh(range(len(relative)), relative, 0.6, color="#7f7f7f")
    labels = [f"{relative[name]:.2f} ({whole[name]:.2g})" for name in relative.index]
    axes.bar_label(bars, labels, padding=2, fontsize=5.5)
    axes.set_yticks(range(len(relative)), [shortened(name, 12) for name in relative.index])
    axes.set(xlim=(0, 1.75), xticks=[0, 0.5, 1], xlabel="relative probability", ylabel="[MASK] is")
    axes.invert_yaxis()
    tidy_axes(axes)


def _draw_referents(line: NDArray[Any], shares: DataFrame, kind: str) -> None:
    """Draw a panel for each method: what each referent gets by layer, and dashed an even share."""
    names = list(shares["name"].unique())
    for axes, method in zip(line, _METHODS, strict=True):
        for place, name in enumerate(names):
            mine = shares[(shares["method"] == method) & (shares["name"] == name)].sort_values("layer")
            look = {"color": SERIES[place % len(SERIES)], "marker": MARKERS[place % len(MARKERS)]}
            axes.plot(mine["layer"], mine["share"], label=shortened(name), linewidth=1, markersize=2.6, **look)
        axes.axhline(1 / len(names), color="#bdbdbd", linewidth=0.6, linestyle=(0, (3, 2)), zorder=0)
        axes.set_ylim(-0.04, 1.04)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"] if axes is line[0] else [])
        tidy_axes(axes)
    line[0].set_ylabel(f"{kind}\nshare of referents")


def _legend(block: NDArray[Any], names: list[str]) -> None:
    """Name the referents in the free place under the candidates, or in the last panel if there is none."""
    handles = block[0, 1].get_lines()[: len(names)]
    spare = block[-1, 0]
    if spare is block[0, 0]:
        block[0, -1].legend(handles, names, loc="best", title="[MASK] looks at")
    else:
        spare.legend(handles, names, loc="center left", title="[MASK] looks at", alignment="left", title_fontsize=6.5)


def candidates(table: DataFrame) -> Grid:
    """Return what the masked language model expects in the gap."""
    rows = []
    for (model, text), mine in table[table["quantity"] != "attention"].groupby(["model", "text"], sort=False):
        values = mine.groupby(["name", "quantity"], sort=False)["value"].mean()
        for name in mine["name"].unique():
            chances = [number(values[name, quantity], 4) for quantity in ("probability", "relative_probability")]
            rows.append([str(model), shortened(text, 80), str(name), *chances])
    columns = ["model", "text", "candidate", "probability", "relative"]
    return Grid("What [MASK] may be.", columns, rows, labels=3)


def referents(table: DataFrame) -> Grid:
    """Return what [MASK] gives to each referent in the last layer, and its share of what all referents get."""
    rows = []
    for (model, _), mine in table.groupby(["model", "text"], sort=False):
        shares = referent_shares(mine)
        last = shares[shares["layer"] == shares["layer"].max()].set_index(["attention", "method", "name"])
        for kind in attentions(mine):
            for name in shares["name"].unique():
                found = last.loc[[(kind, method, name) for method in _METHODS], ["value", "share"]]
                rows.append([str(model), kind, str(name), *(number(cell) for cell in found.to_numpy().ravel())])
    columns = ["model", "attention", "referent", *["attention", "share"] * len(_METHODS)]
    groups = [("", 3), *((method, 2) for method in _METHODS)]
    return Grid("What [MASK] looks at, last layer.", columns, rows, groups, labels=3)


def found_pronouns(table: DataFrame) -> list[str]:
    """Say which candidate the model prefers, and which referent each method looks at most in the last layer."""
    said = []
    for _, mine in table.groupby(["model", "text"], sort=False):
        chances = mine[mine["quantity"] == "relative_probability"].groupby("name", sort=False)["value"].mean()
        said.append(
            f"The model prefers “{chances.idxmax()}” ({percent(chances.max())} of the candidates' probability)."
        )
        shares = referent_shares(mine)
        last = shares[shares["layer"] == shares["layer"].max()]
        for kind in attentions(mine):
            found = last[(last["attention"] == kind) & last["share"].notna()]
            best = found.loc[found.groupby("method", sort=False)["share"].idxmax()] if len(found) else found
            looks = ", ".join(
                f"{row.method} at “{row.name}” ({percent(row.share)})" for row in best.itertuples(index=False)
            )
            said += [f"In the last layer of {kind} attention [MASK] looks most: {looks}."] if looks else []
    return said


CHAPTER = Chapter(
    analysis="pronouns",
    title="A masked pronoun",
    source="Abnar & Zuidema 2020, Fig. 4",
    question="Which word does the model expect in a gap, and which of the persons does the gap look at?",
    text=(
        "A masked language model fills a gap in a sentence. Which word does it expect there, and which of the words "
        "that the gap may refer to does [MASK] look at? Attention to a word of several pieces is their sum."
    ),
    paper_says=(
        "Abnar & Zuidema find that flow agrees with the model's choice in both of their examples, raw attention in "
        "neither."
    ),
    found=found_pronouns,
    figures=(
        Drawing(
            "pronouns",
            (
                "Left: probability of the candidates relative to each other (in brackets, as they are). Right: what "
                "each referent gets of the attention [MASK] gives to all of them, by layer; dashed, an even share."
            ),
            pronouns,
        ),
    ),
    tables=(candidates, referents),
)
