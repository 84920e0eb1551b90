"""Fig. 5 and 6: attention to [CLS] and to [SEP] from all other tokens, layer by head.

Coloured as in the paper: standard from 0 to 1; effective, which has no fixed range, from the smallest to the largest of
all its weights in the task, hence a colour bar of its own under each panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from effective_attention.reports.drawing.style import SCALES, draw_cells, grid, number_cells, styled, width_for
from effective_attention.reports.reductions import attentions, layer_by_head, panels

TITLES = {"cls": "[CLS]", "sep": "[SEP]"}
Row = list[tuple[str, DataFrame]]  # titles and tables of the panels side by side


def _draw(table: DataFrame, *, delimiters: tuple[str, ...], fitted: bool = False) -> Figure:
    rows = _rows(_fit(table) if fitted else table, delimiters)
    columns = len(rows[0][1])
    figure, axes = grid(
        len(rows), columns, width=width_for(columns, narrow=2), height=(1.8 if columns == 1 else 1.4) * len(rows) + 0.3
    )
    for index, (label, row) in enumerate(rows):
        meshes = [
            _panel(axis, mine, left=place == 0)
            for place, (axis, (_, mine)) in enumerate(zip(axes[index], row, strict=True))
        ]
        axes[index, 0].set_ylabel(label)
        _bars(figure, list(axes[index]), meshes)
    for axis, (title, _) in zip(axes[0], rows[0][1], strict=True):
        axis.set_title(title)
    figure.supxlabel("head", fontsize=7)
    return figure


def _fit(table: DataFrame) -> DataFrame:
    """The range of what is shown, from zero, one for each attention: the paper's range hides what differs between heads."""
    highest = table.groupby("attention")["value"].transform("max")
    lowest = table.groupby("attention")["value"].transform("min")
    return table.assign(scale_min=lowest.clip(upper=0), scale_max=highest)


def _rows(table: DataFrame, delimiters: Sequence[str]) -> list[tuple[str, Row]]:
    """One column per task; or for a single task one per delimiter, if there are two."""

    def cut(mine: DataFrame, attention: str, delimiter: str) -> DataFrame:
        return mine[(mine["attention"] == attention) & (mine["delimiter"] == delimiter)]

    columns, kinds = panels(table), attentions(table)
    if len(columns) == 1:
        title = columns[0].title
        return [
            (f"{kind}\nlayer", [(f"{title}, to {TITLES[name]}", cut(table, kind, name)) for name in delimiters])
            for kind in kinds
        ]
    return [
        (f"{kind}, to {TITLES[name]}\nlayer", [(panel.title, cut(panel.table, kind, name)) for panel in columns])
        for name in delimiters
        for kind in kinds
    ]


def _panel(axes: Axes, table: DataFrame, *, left: bool) -> QuadMesh:
    cells = layer_by_head(table)
    limits = {"vmin": float(table["scale_min"].min()), "vmax": float(table["scale_max"].max())}
    mesh = draw_cells(axes, cells.to_numpy(float), cmap=SCALES[table["attention"].iloc[0]], **limits)
    number_cells(axes, cells, y=left)
    return mesh


def _bars(figure: Figure, row: list[Axes], meshes: list[QuadMesh]) -> None:
    """One colour bar where the range is the same for the whole row, else one under each panel."""
    if len({mesh.get_clim() for mesh in meshes}) == 1:
        bars = [figure.colorbar(meshes[0], ax=row, pad=0.01, aspect=14, fraction=0.05)]
    else:
        bars = [
            figure.colorbar(mesh, ax=axes, location="bottom", pad=0.02, aspect=22)
            for axes, mesh in zip(row, meshes, strict=True)
        ]
    for bar in bars:
        bar.locator = MaxNLocator(3 if len(bars) > 1 else 5)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=5.5)


delimiters = styled(partial(_draw, delimiters=("cls", "sep")))
delimiters_cls = styled(partial(_draw, delimiters=("cls",)))
delimiters_sep = styled(partial(_draw, delimiters=("sep",)))
delimiters_fitted = styled(partial(_draw, delimiters=("cls", "sep"), fitted=True))
