"""What [CLS] attends to: what the report says and shows of ``token_types``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing, Scalars
from effective_attention.reports.drawing.style import SCALES, SINGLE, draw_cells, grid, number_cells, styled, width_for
from effective_attention.reports.findings import changes, under_effective
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.reductions import attentions, mean_where, one_line, panels

_TITLES = {
    "noun": "noun",
    "pronoun": "pronoun",
    "verb": "verb",
    "sep": "[SEP]",
    "cls": "[CLS]",
    "special": "special",
    "punctuation": "punct.",
}

_IN_WORDS = {"noun": "a noun", "verb": "a verb", "punctuation": "punctuation"}


def last_layer(table: DataFrame) -> DataFrame:
    """Return the rows of the table's last layer, which is the one that the paper shows."""
    return table[table["layer"] == table["layer"].max()]


def titles(table: DataFrame) -> dict[str, str]:
    """Return the types' names; those of special tokens only where some tokenizer of the table's runs sets them."""
    there = {"noun", "pronoun", "verb", "punctuation", *table["token_type"]}
    return {name: title for name, title in _TITLES.items() if name in there}


def type_by_head(table: DataFrame, types: Sequence[str]) -> DataFrame:
    """Return token types as rows and heads as columns, NaN where a type never occurs."""
    cells = table.astype({"head": int}).pivot_table(
        index="token_type", columns="head", values="value", aggfunc="mean", dropna=False
    )
    return cells.reindex(list(types))


# --- figures ---


def _draw(table: DataFrame, *, statistic: str, label: str) -> Figure:
    """Draw types by heads: a line of panels for each attention, standard first, and a column for each task."""
    shown = last_layer(table[table["statistic"] == statistic])
    columns = panels(shown)
    kinds = attentions(shown)
    width = SINGLE if len(columns) == 1 else width_for(len(columns))
    height = 1.25 * len(kinds) + 0.35 if len(columns) == 1 else 1.05 * len(kinds) + 0.45
    figure, axes = grid(len(kinds), len(columns), width=width, height=height)
    limits = _limits(shown[shown["attention"].isin(kinds)], statistic)
    for line, attention in zip(axes, kinds, strict=True):
        for axis, panel in zip(line, columns, strict=True):
            cells = type_by_head(panel.table[panel.table["attention"] == attention], list(titles(shown)))
            mesh = draw_cells(axis, cells.to_numpy(float), cmap=SCALES[attention], **limits)
            _label(axis, cells, bottom=attention == kinds[-1], left=axis is line[0])
        bar = figure.colorbar(mesh, ax=list(line), pad=0.01, aspect=14, fraction=0.05)
        bar.set_label(label)
        bar.outline.set_visible(False)
        line[0].set_ylabel(attention)
    for axis, panel in zip(axes[0], columns, strict=True):
        axis.set_title(panel.title)
    figure.supxlabel(f"head of layer {int(shown['layer'].max())}", fontsize=7)
    return figure


def _limits(table: DataFrame, statistic: str) -> dict[str, object]:
    """Return one colour range for all tasks and both attentions; it starts at zero unless some weight is below."""
    lowest = float(np.nanmin([0.0, table["value"].min()]))
    highest = float(np.nanmax([1e-9, table["value"].max()]))
    return {"vmin": lowest, "vmax": max(highest, 1.0) if statistic == "lift" else highest}


def _label(axes: Axes, cells: DataFrame, *, bottom: bool, left: bool) -> None:
    """Write the heads' numbers under the lowest panels and the types' names beside the leftmost."""
    number_cells(axes, cells, x=bottom, y=False)
    names = [_TITLES[name] for name in cells.index] if left else [""] * len(cells)
    axes.set_yticks([place + 0.5 for place in range(len(cells))], names)


draw_largest = styled(partial(_draw, statistic="largest", label="largest weight"))
draw_lift = styled(partial(_draw, statistic="lift", label="weight ÷ frequency"))


# --- tables and numbers to follow ---


def type_table(table: DataFrame) -> Grid:
    """Set the largest weight on each type in the last layer, averaged over heads: a row for a task and attention."""
    shown = last_layer(table[table["statistic"] == "largest"])
    types = titles(shown)
    rows = []
    for panel in panels(shown):
        for kind in attentions(panel.table):
            cells = [number(mean_where(panel.table, attention=kind, token_type=name)) for name in types]
            rows.append([one_line(panel.title), kind, *cells])
    caption = "Largest weight that [CLS], or the last token, gives to a type, mean over heads."
    return Grid(caption, ["task", "attention", *types.values()], rows, labels=2)


def type_scalars(table: DataFrame) -> dict[str, float]:
    """Follow what [CLS] gives at most to a token of each type in the last layer, mean over heads."""
    table = table[(table["statistic"] == "largest") & (table["layer"] == table["layer"].max())]
    means = table.groupby(["attention", "token_type"], sort=False)["value"].mean()
    return {f"token_attention/{attention}/{kind}": float(value) for (attention, kind), value in means.items()}


def found_types(table: DataFrame) -> list[str]:
    """Say what effective attention leaves of the weight on each type that the paper speaks of, and on words."""
    shown = last_layer(table[table["statistic"] == "largest"])
    said = []
    for name in ("sep", "cls", "punctuation", "noun", "verb"):
        weights = changes(shown, partial(mean_where, token_type=name))
        said += under_effective(_IN_WORDS.get(name, _TITLES[name]), weights)
    return said


CHAPTER = Chapter(
    analysis="token_types",
    title="What [CLS], or the last token, attends to",
    source="Sun & Marasović 2021, Fig. 1",
    question="Which kinds of token does the model's answer look at, and does that look reach the output?",
    text=(
        "The weight that the token the model answers from ([CLS]; of a causal model the last token) gives to each type "
        "of token in the last layer, by head: of several tokens of a type the largest counts, of a word of several "
        "pieces the first. A largest weight favours frequent types, so a second "
        "figure divides the weight on a type by its share of the tokens: 1 is what even attention would give."
    ),
    paper_says=(
        "Sun & Marasović find [SEP] and punctuation less prominent in effective attention, except on SST-2, and [CLS] "
        "much the same."
    ),
    found=found_types,
    figures=(
        Drawing(
            "token_types",
            (
                "Largest weight from [CLS], or the last token, to a token of each type, mean over examples (the "
                "paper's Fig. 1). Both attentions have one range."
            ),
            draw_largest,
        ),
        Drawing(
            "token_types_lift",
            "Weight on a type divided by the type's share of tokens; 1 is even. One range for both attentions.",
            draw_lift,
        ),
    ),
    scalars=Scalars("attention of [CLS], or the last token", "weight", "token_attention", type_scalars),
    tables=(type_table,),
)
