"""What finetuning changes: what the report says and shows of ``finetuning_shift``."""

from __future__ import annotations

import math
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame, Series

from effective_attention.reports.chapter import Chapter, Drawing, Scalars
from effective_attention.reports.drawing.style import (
    COLOURS,
    SCALES,
    draw_cells,
    grid,
    number_cells,
    styled,
    tidy_axes,
    width_for,
)
from effective_attention.reports.findings import listed, said_of
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.reductions import Panel, attentions, layer_by_head, one_line, panels
from effective_attention.reports.scalars import layer_means


@styled
def draw_shift(table: DataFrame) -> Figure:
    """Draw layers by heads, and below the mean of each layer.

    Both attentions share one range, up to 1 (unchanged), so that their panels can be compared.
    """
    columns = panels(table)
    kinds = attentions(table)
    low = max(-1.0, math.floor(float(table["value"].min()) * 10) / 10)
    height = (1.5 if len(columns) == 1 else 1.1) * len(kinds) + 1.35
    ratios = [1.0] * len(kinds) + [0.9]
    figure, axes = grid(len(ratios), len(columns), width=width_for(len(columns)), height=height, height_ratios=ratios)
    for across, attention in zip(axes, kinds, strict=False):
        _heatmaps(figure, list(across), columns, attention, min(low, 0.9))
    for axis, panel in zip(axes[0], columns, strict=True):
        axis.set_title(panel.title)
    for axis, panel in zip(axes[-1], columns, strict=True):
        _lines(axis, panel, kinds)
    _same_range(list(axes[-1]))
    axes[-1, 0].set_ylabel("mean cosine")
    axes[-1, 0].legend(loc="lower left", handlelength=1.4)
    axes[-1, len(columns) // 2].set_xlabel("layer")
    return figure


def _heatmaps(figure: Figure, across: list[Axes], columns: list[Panel], attention: str, low: float) -> None:
    """Draw one attention's panels side by side, with one colour bar."""
    for axes, panel in zip(across, columns, strict=True):
        cells = layer_by_head(panel.table[panel.table["attention"] == attention])
        mesh = draw_cells(axes, cells.to_numpy(float), cmap=SCALES[attention], vmin=low, vmax=1.0)
        number_cells(axes, cells, y=axes is across[0])
    across[0].set_ylabel(f"{attention}\nlayer")
    across[len(across) // 2].set_xlabel("head")
    bar = figure.colorbar(mesh, ax=across, pad=0.01, aspect=14, fraction=0.05)
    bar.set_label("cosine")
    bar.outline.set_visible(False)


def _lines(axes: Axes, panel: Panel, kinds: list[str]) -> None:
    """Draw each attention's mean over heads against layers."""
    for attention in kinds:
        means = layer_by_head(panel.table[panel.table["attention"] == attention]).mean(axis=1)
        marker = "o" if attention == "standard" else "s"
        axes.plot(means.index, means, marker=marker, color=COLOURS[attention], label=attention)
    axes.set_xticks([int(layer) for layer in means.index if layer % (1 if len(means) <= 6 else 2) == 0])
    tidy_axes(axes)


def _same_range(across: list[Axes]) -> None:
    """Give panels side by side one vertical axis, numbered at the left only."""
    limits = [axes.get_ylim() for axes in across]
    for index, axes in enumerate(across):
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        axes.tick_params(labelleft=index == 0)


def shift_table(table: DataFrame) -> Grid:
    """Set the mean cosine of each layer, and the two layers that changed most."""
    layers = sorted(int(layer) for layer in table["layer"].dropna().unique())
    rows = []
    for panel in panels(table):
        for attention in attentions(panel.table):
            means = layer_by_head(panel.table[panel.table["attention"] == attention]).mean(axis=1)
            most = f"layers {listed([str(layer) for layer in sorted(means.nsmallest(2).index)])}"
            rows.append([one_line(panel.title), attention, *(number(means.get(layer)) for layer in layers), most])
    columns = ["task", "attention", *(f"layer {layer}" for layer in layers), "changed most"]
    return Grid("Cosine to the pretrained start, mean over heads.", columns, rows, labels=2)


def found_shift(table: DataFrame) -> list[str]:
    """Say which two layers changed most under each attention, and whether these are the last two."""
    said = []
    for panel in panels(table):
        for attention in attentions(panel.table):
            means = layer_by_head(panel.table[panel.table["attention"] == attention]).mean(axis=1).dropna()
            said += (
                [said_of(panel, table, f"{_changed_most(means)} under {attention} attention.")] if len(means) else []
            )
    return said


def _changed_most(means: Series) -> str:
    """Name the two layers that changed most; of a model with no more than two the one."""
    most = sorted(int(layer) for layer in means.nsmallest(2 if len(means) > 2 else 1).index)
    layers = listed([f"{layer} (cosine {number(means[layer])})" for layer in most])
    if len(most) == 1:
        return f"layer {layers} changes most"
    last = "the last two" if most == sorted(int(layer) for layer in means.index)[-2:] else "not the last two"
    return f"layers {layers}, {last}, change most"


CHAPTER = Chapter(
    analysis="finetuning_shift",
    title="What finetuning changes",
    source="Sun & Marasović 2021, Fig. 3",
    question="Which layers does finetuning change most, and is that the same for effective attention?",
    text=(
        "Cosine similarity of a head's attention before and after finetuning: 1 means that nothing changed. Padding "
        "is left out."
    ),
    paper_says="Sun & Marasović find that the last two layers change most, with either attention.",
    found=found_shift,
    figures=(
        Drawing(
            "finetuning_shift",
            ("Cosine of attention, pretrained against finetuned, by layer and head, and the mean of each layer."),
            draw_shift,
        ),
    ),
    scalars=Scalars("similarity to the pretrained start", "cosine", "cosine", partial(layer_means, "cosine")),
    tables=(shift_table,),
)
