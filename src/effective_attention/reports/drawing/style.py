"""Give every figure one look, and cut a table into panels: one per task, in the paper's order.

Greens are standard attention and blues effective, as in the paper; a diverging scale around zero is the null part.
Letters are drawn as outlines, so a figure looks the same in every viewer. Nothing here touches pyplot's global state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray
from pandas import DataFrame

from effective_attention.attention.variants import VARIANTS

SINGLE = 3.3  # inches: one column of a paper
DOUBLE = 6.8  # inches: two columns
COLOURS = {**{name: variant.colour for name, variant in VARIANTS.items()}, "paper": "#d9d9d9"}
SCALES = {name: variant.scale for name, variant in VARIANTS.items()}
CHANGE_SCALE = "PuOr"
# Of matplotlib's own reds and pinks the upper half is one bright pink in dark reports, where figures are inverted.
_PINKS = ("#fff7fa", "#f5d2e1", "#e6a9c6", "#d280ab", "#b35589", "#832f62", "#42123a")
matplotlib.colormaps.register(LinearSegmentedColormap.from_list("Pinks", _PINKS), force=True)
SERIES = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
    "#999999",
    "#f0e442",
)  # Okabe & Ito
MARKERS = "osD^vPX*h"
_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "xtick.labelsize": 6,
    "ytick.labelsize": 6,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "axes.titlepad": 4,
    "axes.labelpad": 2,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.2,
    "svg.fonttype": "path",
    "text.parse_math": False,  # a dollar sign in a text is a dollar sign
    "axes.unicode_minus": True,
}


@contextmanager
def style() -> Iterator[None]:
    """Use our matplotlib settings inside the block, whatever the user's are; those come back afterwards."""
    with matplotlib.rc_context(
        rc={**matplotlib.rcParamsDefault, "backend": "agg", **_RC}
    ):  # whatever a matplotlibrc says
        yield


def styled(draw: Callable[[DataFrame], Figure]) -> Callable[[DataFrame], Figure]:
    """Wrap a figure function so that it runs under ``style`` and lays everything out once.

    Saving the figure, however often, need not lay it out again.
    """

    @wraps(draw)
    def wrapper(table: DataFrame) -> Figure:
        with style():
            figure = draw(table)
            square = any(axes.get_aspect() != "auto" for axes in figure.axes)
            for _ in range(2 if square else 1):  # square panels find their place only in the second round
                figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
            figure.set_layout_engine(None)  # not "none": for that, too, matplotlib draws before it draws
        return figure

    return wrapper


def grid(rows: int, columns: int, *, width: float, height: float, **options: Any) -> tuple[Figure, NDArray[Any]]:
    """Make a figure of panels with room for every label; return it with the axes as (row, column)."""
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02)
    figure = Figure(figsize=(width, height), layout=layout)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def width_for(columns: int, *, narrow: int = 1) -> float:
    """Return the figure's width: one paper column for up to ``narrow`` panels, two for up to six, more beyond."""
    return SINGLE if columns <= narrow else DOUBLE * max(1.0, columns / 6)


def draw_cells(axes: Axes, values: NDArray[Any], **options: Any) -> QuadMesh:
    """Draw a heatmap with the first row on top; many cells become one picture inside the SVG, few stay outlines."""
    if values.size <= 1000:
        options |= {"edgecolors": "face", "linewidth": 0.3}  # viewers show the page between outlines that only touch
    mesh = axes.pcolormesh(np.ma.masked_invalid(values), rasterized=values.size > 1000, **options)
    axes.set_facecolor("#bdbdbd")  # a missing value is neither low nor high
    axes.invert_yaxis()
    axes.set_aspect("auto")
    axes.tick_params(length=0)
    return mesh


def number_cells(axes: Axes, table: DataFrame, *, x: bool = True, y: bool = True, most: int = 6) -> None:
    """Put ticks in the middle of cells, with the table's column and row numbers, at most ``most`` of each."""
    for wanted, axis, labels in ((x, axes.xaxis, table.columns), (y, axes.yaxis, table.index)):
        step = -(-len(labels) // most) if len(labels) > most else 1
        places = range(0, len(labels), step)
        axis.set_ticks([place + 0.5 for place in places], [str(labels[place]) for place in places] if wanted else [])


def tidy_axes(axes: Axes) -> None:
    """Remove the frame on the sides without an axis."""
    axes.spines[["top", "right"]].set_visible(False)
