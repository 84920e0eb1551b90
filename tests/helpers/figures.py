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


def both_weights(make: Make, analysis: str, **options: Any) -> pd.DataFrame:
    """Make a table of both pretrained and finetuned weights, as a sweep over checkpoints leaves it."""
    return pd.concat(
        [make(checkpoint=name, seed=len(name), **options)[analysis] for name in ("", "runs/x")], ignore_index=True
    )


def line_of(axes: Any, label: str) -> Any:
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return line


def named(size: int) -> tuple[str, ...]:
    return tuple(f"a-rather-long-token{place}" for place in range(size))


def assert_runs_are_named(analysis: str, make: Make) -> None:
    """Assert that every figure of an analysis tells pretrained and finetuned weights apart in words."""
    table = both_weights(make, analysis, layers=1, heads=2)
    for name in figures_of(analysis):
        figure = FIGURES[name](table)
        said = " ".join(axes.get_ylabel() + axes.get_title() for axes in plots(figure))
        said += " ".join(text.get_text() for legend in figure.legends for text in legend.get_texts())
        assert "pretrained" in said, name
        assert "finetuned" in said, name


def said_of_runs(figure: Figure) -> str:
    """List all labels, titles and legends."""
    said = " ".join(axes.get_ylabel() + axes.get_title() for axes in plots(figure))
    return said + " ".join(text.get_text() for legend in figure.legends for text in legend.get_texts())
