"""Write figures as PNG and SVG files, with the same bytes every time."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.io import whole_file
from effective_attention.progress import progress
from effective_attention.reports.chapter import Chapter
from effective_attention.reports.drawing.style import style

DPI = 300


def write_figures(folder: Path, tables: Mapping[str, DataFrame], chapters: Iterable[Chapter]) -> list[Path]:
    """Draw all figures that the tables (by analysis) have rows for, into ``folder``; return the PNG files."""
    answered = [(chapter, tables[chapter.analysis]) for chapter in chapters if chapter.analysis in tables]
    drawings = [(one, table) for chapter, table in answered for one in chapter.figures if one.can_draw(table)]
    for drawing, table in progress(drawings, "drawing", "figures"):
        save_figure(drawing.draw(table), folder / drawing.name)
    return [folder / f"{drawing.name}.png" for drawing, _ in drawings]


def save_figure(figure: Figure, path: Path) -> None:
    """Write ``path`` with .png and .svg; the same figure always gives the same bytes."""
    for kind in ("png", "svg"):
        with whole_file(path.with_name(f"{path.name}.{kind}")) as file:
            file.write(figure_bytes(figure, kind, salt=path.name))


def figure_bytes(figure: Figure, kind: str, *, salt: str) -> bytes:
    """Return the figure as a PNG or SVG file.

    Args:
        figure: What to write.
        kind: ``png`` or ``svg``.
        salt: Sets the ids inside an SVG, so that two on one page need not share any.
    """
    out = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with style(), rc_context({"svg.hashsalt": salt}):
        figure.savefig(out, format=kind, dpi=DPI, metadata=metadata)
    return out.getvalue()
