"""Reports of runs: chapters, figures, small tables; what a new chapter is made of is public here.

See ``docs/add-an-analysis.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from effective_attention.lazy import lazy_names

if TYPE_CHECKING:
    from effective_attention.reports.chapter import Chapter, Drawing, Scalars
    from effective_attention.reports.chapters import all_chapters, register
    from effective_attention.reports.drawing.heads import Quantity, layered_heads
    from effective_attention.reports.drawing.style import styled
    from effective_attention.reports.grid import Grid
    from effective_attention.reports.report import write_report

__all__ = [
    "Chapter",
    "Drawing",
    "Grid",
    "Quantity",
    "Scalars",
    "all_chapters",
    "layered_heads",
    "register",
    "styled",
    "write_report",
]

_HERE = "effective_attention.reports"
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Chapter": f"{_HERE}.chapter",
        "Drawing": f"{_HERE}.chapter",
        "Grid": f"{_HERE}.grid",
        "Quantity": f"{_HERE}.drawing.heads",
        "Scalars": f"{_HERE}.chapter",
        "all_chapters": f"{_HERE}.chapters",
        "layered_heads": f"{_HERE}.drawing.heads",
        "register": f"{_HERE}.chapters",
        "styled": f"{_HERE}.drawing.style",
        "write_report": f"{_HERE}.report",
    },
)
