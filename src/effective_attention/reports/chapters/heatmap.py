"""One head, one example: what the report says and shows of ``heatmap``.

The matrices stand three across, within a paper's width; of one long text two, so that up to about 40 tokens can each be
read. Beyond, every second (third, …) is named.
"""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from effective_attention.attention.extra_maps import EXTRA_MAPS
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.matrices import matrix_places, name_both
from effective_attention.reports.drawing.style import DOUBLE, SCALES, draw_cells, grid, styled
from effective_attention.reports.findings import head_name, percent, said_of
from effective_attention.reports.grid import number
from effective_attention.reports.reductions import attentions, one_line, panels, token_label

_MOST_HEADS = 6  # shown at most
_KINDS = (*ATTENTIONS, "null", *EXTRA_MAPS)
_NOTHING = 1e-6  # what is smaller is rounding


@styled
def draw_heatmap(table: DataFrame) -> Figure:
    """Draw the matrices of each task, layer and head (the first few, if there are many), coloured on one scale."""
    heads = [
        (f"{one_line(panel.title)}, {head_name(layer, head)}", group)
        for panel in panels(table)
        for (layer, head), group in panel.table.groupby(["layer", "head"])
    ][:_MOST_HEADS]
    kinds = attentions(table, _KINDS)
    places = matrix_places(len(kinds), max(group["key"].nunique() for _, group in heads), texts=len(heads))
    height = len(heads) * places.down * (places.side + 1.05)
    figure, axes = grid(len(heads) * places.down, places.across, width=DOUBLE, height=height)
    for index, (title, group) in enumerate(heads):
        block = axes[index * places.down : (index + 1) * places.down].reshape(-1)
        for place, (axis, attention) in enumerate(zip(block, kinds, strict=False)):
            left = place % places.across == 0
            _panel(figure, axis, group, attention)
            name_both(axis, _tokens(group, "query"), _tokens(group, "key"), side=places.side, left=left)
            axis.set_ylabel(title if left else "")
        for spare in block[len(kinds) :]:
            spare.set_axis_off()
    return figure


def _tokens(group: DataFrame, axis: str) -> list[str]:
    return [str(name) for name in group.drop_duplicates(axis).sort_values(axis)[f"{axis}_token"]]


def _matrix(group: DataFrame, attention: str) -> DataFrame:
    rows = group[group["attention"] == attention]
    return rows.pivot_table(index="query", columns="key", values="value")


def _panel(figure: Figure, axes: Axes, group: DataFrame, attention: str) -> None:
    """Draw one matrix, and its colour bar below; zero is white, because some can go below.

    A colour is as deep as the weight is far from zero, up to the largest weight of all: any two can be compared. Where
    a matrix has nothing to say beyond standard attention, words stand in its place.
    """
    values = _matrix(group, attention).to_numpy(float)
    nothing = _nothing_to_say(group, attention)
    shown = np.zeros_like(values) if nothing else values
    reach = float(group["value"].abs().max())
    reach = reach if reach > _NOTHING else 1.0  # nothing there: no scale for rounding errors
    low = -reach if attention == "null" else min(0.0, float(np.nanmin(shown)))
    scale = _below_zero(attention, low, reach) if low < 0 and attention != "null" else SCALES[attention]
    mesh = draw_cells(axes, shown, cmap=scale, vmin=low, vmax=reach)
    axes.set_aspect("equal")
    if nothing:
        axes.text(0.5, 0.5, nothing, transform=axes.transAxes, ha="center", va="center", fontsize=7)
    bar = figure.colorbar(mesh, ax=axes, location="bottom", pad=0.02, aspect=28, fraction=0.04, shrink=0.9)
    bar.set_label(attention)
    bar.ax.tick_params(labelsize=6)
    bar.outline.set_visible(False)


def _nothing_to_say(group: DataFrame, attention: str) -> str:
    """Say why a matrix is not drawn: nothing is lost, or no other row has the same output; empty: it is."""
    tokens = group["key"].nunique()
    if attention == "null" and not has_null_part(group):
        return f"{tokens} tokens: no null part,\nevery weight\nreaches the output"
    if attention in EXTRA_MAPS and _is_standard(group, attention):
        return f"{tokens} tokens: as standard,\nno other row has\nthe same output"
    return ""


def _is_standard(group: DataFrame, attention: str) -> bool:
    """Tell whether a map is standard attention itself."""
    apart = _matrix(group, attention) - _matrix(group, "standard")
    return bool(apart.abs().to_numpy(float).max() <= _NOTHING)


def has_null_part(group: DataFrame) -> bool:
    """Tell whether any weight is kept from the output."""
    return bool(group.loc[group["attention"] == "null", "value"].abs().max() > _NOTHING)


def _below_zero(attention: str, low: float, high: float) -> Colormap:
    """Return its colours above zero and orange below, as deep as far from it: a negative weight is no small one."""
    parts = 256
    below = min(parts - 1, max(1, round(parts * -low / (high - low))))
    negative = colormaps["Oranges"](np.linspace(-low / high, 0, below).clip(0, 1))
    positive = colormaps[SCALES[attention]](np.linspace(0, 1, parts - below))
    return ListedColormap([*negative, *positive])


def found_heatmap(table: DataFrame) -> list[str]:
    """Say what of the head's attention is lost, which token gets most of it with and without, and in other maps."""
    said = []
    for panel in panels(table):
        for (layer, head), group in panel.table.groupby(["layer", "head"]):
            front = f"{head_name(layer, head)}, {group['key'].nunique()} tokens"
            if not has_null_part(group):
                said.append(said_of(panel, table, f"{front}: no null part, every weight reaches the output."))
                continue
            sizes = {kind: float(np.linalg.norm(_matrix(group, kind).to_numpy(float))) for kind in ("standard", "null")}
            share = percent(sizes["null"] / sizes["standard"])
            lost = f"{share} of the attention (‖null part‖ / ‖attention‖) does not reach the output"
            most = "; ".join(f"{kind} attention rests most on {_favourite(group, kind)}" for kind in ATTENTIONS)
            said.append(said_of(panel, table, " ".join([f"{front}: {lost}; {most}.", *_found_in_maps(group)])))
    return said


def _means(group: DataFrame, attention: str) -> Series:
    """Return what each token gets, averaged over the tokens that look."""
    return _matrix(group, attention).mean()


def _name(group: DataFrame, key: int) -> str:
    return f"“{token_label(_tokens(group, 'key')[key])}”"


def _favourite(group: DataFrame, attention: str) -> str:
    """Name the token that gets most, and how much."""
    means = _means(group, attention)
    return f"{_name(group, int(np.argmax(means)))} ({number(means.max(), 2)} on average)"


def _found_in_maps(group: DataFrame) -> list[str]:
    """Say what the other maps with the same output have: the favourite's weight, and how few weights are enough."""
    maps = attentions(group, EXTRA_MAPS)
    if not maps:
        return []
    favourite = int(np.argmax(_means(group, "standard")))
    gets = [f"{kind} {number(_means(group, kind).iloc[favourite], 3)}" for kind in (*ATTENTIONS, *maps)]
    said = [f"{_name(group, favourite)} gets on average: {', '.join(gets)}."]
    if "sparse" in maps:
        counts = (_matrix(group, "sparse") > _NOTHING).sum(axis=1)
        few = (
            f"at most {counts.max()} of {group['key'].nunique()} weights a row ({number(counts.mean(), 1)} on average)"
        )
        said.append(f"The sparse map, with the same output, has {few}.")
    return said


CHAPTER = Chapter(
    analysis="heatmap",
    title="One head, one example",
    source="Sun & Marasović 2021, Fig. 2, Fig. 7",
    question="What does one head look at in one text, and which part of that reaches the output?",
    text=(
        "The attention of one head on one text: each row attends to the columns. Standard is the sum of effective and "
        "null; null does not reach the output. All others have the same output as standard: affine is effective "
        "attention whose rows sum to 1. Sparse and smallest have no weight below 0 either, as the conclusion of "
        "Brunner et al. 2020 asks: sparse has at most one weight more in a row than a value has dimensions, and agrees "
        "with standard attention as far as that allows; smallest is the most even."
    ),
    found=found_heatmap,
    figures=(
        Drawing(
            "heatmap",
            "Standard, effective and null attention, and other maps with the same output. A colour is as deep in all "
            "of them for the same weight; orange is below zero.",
            draw_heatmap,
        ),
    ),
)
