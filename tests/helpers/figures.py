"""What tests of figures look at: tables of several tasks, and the parts of a figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from effective_attention.reports.chapters import CHAPTERS

Make = Callable[..., dict[str, Any]]


def stacked(make: Make, analysis: str, *tasks: str, **options: Any) -> pd.DataFrame:
    return pd.concat([make(task, **options)[analysis] for task in tasks], ignore_index=True)


def plots(figure: Figure) -> list[Any]:
    """List the figure's axes without colour bars."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def meshes(figure: Figure) -> list[QuadMesh]:
    return [part for axes in plots(figure) for part in axes.collections if isinstance(part, QuadMesh)]


def cells(mesh: QuadMesh) -> np.ndarray:
    values: Any = mesh.get_array()
    return np.asarray(values, dtype=float)


DRAWINGS = {drawing.name: drawing for chapter in CHAPTERS for drawing in chapter.figures}
FIGURES = {name: drawing.draw for name, drawing in DRAWINGS.items()}
"""Every figure of every chapter: from a table to the figure."""


def can_draw(name: str, table: pd.DataFrame) -> bool:
    return DRAWINGS[name].can_draw(table)


def figures_of(analysis: str) -> list[str]:
    """List the names of an analysis' figures, in the order of its chapter."""
    return [drawing.name for chapter in CHAPTERS if chapter.analysis == analysis for drawing in chapter.figures]
