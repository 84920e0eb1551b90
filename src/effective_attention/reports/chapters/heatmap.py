"""One head, one example: what the report says and shows of ``heatmap``.

The matrices stand side by side, within a paper's width; of one long text standard and effective do, with null below, so
that up to about 40 tokens can each be read. Beyond, every second (third, …) is named.
"""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing
from effective_attention.reports.drawing.matrices import matrix_places, name_both
from effective_attention.reports.drawing.style import DOUBLE, SCALES, draw_cells, grid, styled
from effective_attention.reports.findings import head_name, percent, said_of
from effective_attention.reports.grid import number
from effective_attention.reports.reductions import attentions, one_line, panels, token_label

_MOST_HEADS = 6  # shown at most
_KINDS = ("standard", "effective", "null")
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
    height = len(heads) * places.down * (places.side + 0.95)
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
    """Draw one matrix, and its colour bar below; zero is white, because effective and null can go below.

    A colour is as deep as the weight is far from zero, up to the largest weight of all three: any two can be compared.
    """
    values = _matrix(group, attention).to_numpy(float)
    reach = float(group["value"].abs().max())
    reach = reach if reach > _NOTHING else 1.0  # nothing there: no scale for rounding errors
    low = -reach if attention == "null" else min(0.0, float(np.nanmin(values)))
    scale = _below_zero(low, reach) if low < 0 and attention == "effective" else SCALES[attention]
    mesh = draw_cells(axes, values, cmap=scale, vmin=low, vmax=reach)
    axes.set_aspect("equal")
    if attention == "null" and not has_null_part(group):
        said = f"{values.shape[1]} tokens: no null part,\nevery weight\nreaches the output"
        axes.text(0.5, 0.5, said, transform=axes.transAxes, ha="center", va="center", fontsize=7)
    bar = figure.colorbar(mesh, ax=axes, location="bottom", pad=0.02, aspect=28, fraction=0.04, shrink=0.9)
    bar.set_label(attention)
    bar.ax.tick_params(labelsize=6)
    bar.outline.set_visible(False)


def has_null_part(group: DataFrame) -> bool:
    """Tell whether any weight is kept from the output."""
    return bool(group.loc[group["attention"] == "null", "value"].abs().max() > _NOTHING)


def _below_zero(low: float, high: float) -> Colormap:
    """Return blues above zero and orange below, as deep as far from it: a negative weight is no small positive one."""
    parts = 256
    below = min(parts - 1, max(1, round(parts * -low / (high - low))))
    negative = colormaps["Oranges"](np.linspace(-low / high, 0, below).clip(0, 1))
    positive = colormaps[SCALES["effective"]](np.linspace(0, 1, parts - below))
    return ListedColormap([*negative, *positive])


def found_heatmap(table: DataFrame) -> list[str]:
    """Say what of the head's attention is lost, and which token gets most of it with and without that part."""
    said = []
    for panel in panels(table):
        for (layer, head), group in panel.table.groupby(["layer", "head"]):
            front = f"{head_name(layer, head)}, {group['key'].nunique()} tokens"
            if not has_null_part(group):
                said.append(said_of(panel, table, f"{front}: no null part, every weight reaches the output."))
                continue
            sizes = {kind: float(np.linalg.norm(_matrix(group, kind).to_numpy(float))) for kind in _KINDS}
            lost = f"{percent(sizes['null'] / sizes['standard'])} of the attention (‖null part‖ / ‖attention‖) is lost"
            most = "; ".join(f"{kind} attention rests most on {_favourite(group, kind)}" for kind in _KINDS[:2])
            said.append(said_of(panel, table, f"{front}: {lost}; {most}."))
    return said


def _favourite(group: DataFrame, attention: str) -> str:
    """Name the token that gets most, and its weight averaged over the tokens that look."""
    means = _matrix(group, attention).mean()
    return f"“{token_label(_tokens(group, 'key')[int(np.argmax(means))])}” ({number(means.max(), 2)} on average)"


CHAPTER = Chapter(
    analysis="heatmap",
    title="One head, one example",
    source="Sun & Marasović 2021, Fig. 2, Fig. 7",
    question="What does one head look at in one text, and which part of that reaches the output?",
    text=(
        "The attention of one head on one text: each row attends to the columns. Standard is the sum of effective and "
        "null; null does not reach the output."
    ),
    found=found_heatmap,
    figures=(
        Drawing(
            "heatmap",
            "Standard, effective and null attention on one colour scale; orange is below zero in effective attention, "
            "above zero in null attention.",
            draw_heatmap,
        ),
    ),
)
