"""Attention to the delimiters: what the report says and shows of ``delimiters``.

Figures are coloured as in the paper: standard from 0 to 1; effective, which has no fixed range, from the smallest to
the largest of all its weights in the task, hence a colour bar of its own under each panel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing, Scalars
from effective_attention.reports.drawing.style import SCALES, draw_cells, grid, number_cells, styled, width_for
from effective_attention.reports.findings import changes, under_effective
from effective_attention.reports.grid import Grid, number
from effective_attention.reports.reductions import attentions, layer_by_head, mean_where, one_line, panels
from effective_attention.reports.scalars import overall_means

_TITLES = {"cls": "[CLS]", "sep": "[SEP]"}


@dataclass(frozen=True)
class Line:
    """Panels side by side: what stands at their left, and the title and the rows of each."""

    label: str
    panels: list[tuple[str, DataFrame]]


# --- figures ---


def _draw(table: DataFrame, *, delimiters: tuple[str, ...], fitted: bool = False) -> Figure:
    """Draw layers by heads; ``fitted``: coloured over the range of what is shown instead of the paper's."""
    lines = _lines(_fit(table) if fitted else table, delimiters)
    columns = len(lines[0].panels)
    height = (1.8 if columns == 1 else 1.4) * len(lines) + 0.3
    figure, axes = grid(len(lines), columns, width=width_for(columns, narrow=2), height=height)
    for across, line in zip(axes, lines, strict=True):
        meshes = [
            _panel(axis, mine, left=axis is across[0]) for axis, (_, mine) in zip(across, line.panels, strict=True)
        ]
        across[0].set_ylabel(line.label)
        _bars(figure, list(across), meshes)
    for axis, (title, _) in zip(axes[0], lines[0].panels, strict=True):
        axis.set_title(title)
    figure.supxlabel("head", fontsize=7)
    return figure


def _fit(table: DataFrame) -> DataFrame:
    """Return the table with the range of what is shown, from zero, one for each attention.

    The paper's range hides what differs between heads.
    """
    highest = table.groupby("attention")["value"].transform("max")
    lowest = table.groupby("attention")["value"].transform("min")
    return table.assign(scale_min=lowest.clip(upper=0), scale_max=highest)


def _lines(table: DataFrame, delimiters: Sequence[str]) -> list[Line]:
    """Return one column per task; or for a single task one per delimiter, if there are two."""

    def cut(mine: DataFrame, attention: str, delimiter: str) -> DataFrame:
        return mine[(mine["attention"] == attention) & (mine["delimiter"] == delimiter)]

    columns = panels(table)
    kinds = attentions(table)
    if len(columns) == 1:
        title = columns[0].title
        return [
            Line(f"{kind}\nlayer", [(f"{title}, to {_TITLES[name]}", cut(table, kind, name)) for name in delimiters])
            for kind in kinds
        ]
    return [
        Line(f"{kind}, to {_TITLES[name]}\nlayer", [(panel.title, cut(panel.table, kind, name)) for panel in columns])
        for name in delimiters
        for kind in kinds
    ]


def _panel(axes: Axes, table: DataFrame, *, left: bool) -> QuadMesh:
    cells = layer_by_head(table)
    limits = {"vmin": float(table["scale_min"].min()), "vmax": float(table["scale_max"].max())}
    mesh = draw_cells(axes, cells.to_numpy(float), cmap=SCALES[table["attention"].iloc[0]], **limits)
    number_cells(axes, cells, y=left)
    return mesh


def _bars(figure: Figure, across: list[Axes], meshes: list[QuadMesh]) -> None:
    """Add one colour bar where the range is the same for all panels side by side, else one under each."""
    if len({mesh.get_clim() for mesh in meshes}) == 1:
        bars = [figure.colorbar(meshes[0], ax=across, pad=0.01, aspect=14, fraction=0.05)]
    else:
        bars = [
            figure.colorbar(mesh, ax=axes, location="bottom", pad=0.02, aspect=22)
            for axes, mesh in zip(across, meshes, strict=True)
        ]
    for bar in bars:
        bar.locator = MaxNLocator(3 if len(bars) > 1 else 5)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=5.5)


draw_both = styled(partial(_draw, delimiters=("cls", "sep")))
draw_cls = styled(partial(_draw, delimiters=("cls",)))
draw_sep = styled(partial(_draw, delimiters=("sep",)))
draw_fitted = styled(partial(_draw, delimiters=("cls", "sep"), fitted=True))


# --- tables ---


def delimiter_table(table: DataFrame) -> Grid:
    """Set the mean over all layers and heads."""
    kinds = attentions(table)
    rows = []
    for panel in panels(table):
        means = [mean_where(panel.table, attention=kind, delimiter=name) for name in _TITLES for kind in kinds]
        rows.append([one_line(panel.title), *(number(mean) for mean in means)])
    groups = [("", 1), *((f"to {title}", len(kinds)) for title in _TITLES.values())]
    return Grid("Attention to the delimiters, mean over layers and heads.", ["task", *kinds * 2], rows, groups)


def found_delimiters(table: DataFrame) -> list[str]:
    """Say of each delimiter what effective attention leaves of the weight on it, mean over layers and heads."""
    said = []
    for name, title in _TITLES.items():
        weights = changes(table, partial(mean_where, delimiter=name))
        said += under_effective(title, weights)
    return said


CHAPTER = Chapter(
    analysis="delimiters",
    title="Attention to the delimiters",
    source="Sun & Marasović 2021, Fig. 5, Fig. 6",
    question="How much attention rests on [CLS] and [SEP], and how much of that reaches the output?",
    text=(
        "The weight all other tokens give to [CLS] and to [SEP], by layer and head. Effective attention has no fixed "
        "range; as in the paper it is coloured from the smallest to the largest of all its weights in the task."
    ),
    paper_says="Sun & Marasović find that effective attention disregards [SEP] but not [CLS].",
    found=found_delimiters,
    figures=(
        Drawing(
            "delimiters",
            "Attention to [CLS] and to [SEP] from all other tokens, for each task.",
            draw_both,
            on_page=False,
        ),
        Drawing(
            "delimiters_fitted",
            (
                "Attention to [CLS] and to [SEP] from all other tokens, coloured over the range of the values shown. "
                "The two attentions have ranges of their own: read the bars before comparing them."
            ),
            draw_fitted,
        ),
        Drawing(
            "delimiters_cls",
            "Attention to [CLS] in the colours of the paper's Fig. 5: from 0 to 1, and over all weights of the task.",
            draw_cls,
        ),
        Drawing(
            "delimiters_sep",
            "Attention to [SEP] in the colours of the paper's Fig. 6: from 0 to 1, and over all weights of the task.",
            draw_sep,
        ),
    ),
    tables=(delimiter_table,),
    scalars=Scalars(
        "attention to the delimiters", "weight", "delimiters", partial(overall_means, "delimiters", "delimiter")
    ),
)
