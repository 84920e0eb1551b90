"""The page where a notebook shows it: in a frame of its own, saved with the notebook.

A frame and no widget (anywidget): the page needs nothing from the kernel, so it works in Jupyter, Colab and VS Code
without an extension, and in a notebook that is opened again without a kernel. docs/explorer.md has the comparison.
"""

from __future__ import annotations

import html
import logging
from dataclasses import dataclass, replace
from pathlib import Path

from effective_attention.io import write_text

log = logging.getLogger(__name__)
_LARGE = 10_000_000  # bytes
_SMALLEST = 300  # pixels
_UNTRUSTED = (  # what is left of a frame where a notebook lets no HTML through
    "The attention explorer is not shown, as this notebook is not trusted: trust it (in JupyterLab: View, Activate "
    "Command Palette, Trust Notebook), or run the cell again."
)


@dataclass(frozen=True)
class Explorer:
    """The page; a notebook shows it, and ``save`` writes it to a file, which needs neither network nor notebook.

    Attributes:
        html: The page.
        height: Of the frame in a notebook, in pixels.
    """

    html: str
    height: int = 760

    def save(self, path: str | Path) -> Path:
        """Write the page, completely or not at all."""
        write_text(Path(path), self.html)
        return Path(path)

    def show(self, *, height: int) -> Explorer:
        """Return the same page in a frame of another height, in pixels; at the end of a cell, a notebook shows it.

        Raises:
            ValueError: The height is no whole number, or too small to see anything.
        """
        if isinstance(height, bool) or not isinstance(height, int) or height < _SMALLEST:
            raise ValueError(f"height must be a whole number of pixels, at least {_SMALLEST}, got {height!r}")
        return replace(self, height=height)

    def __repr__(self) -> str:
        return f"Explorer({len(self.html) / 1e6:.1f} MB of HTML; .save(path) writes it)"

    def _repr_html_(self) -> str:
        """Show the page in a frame of its own, which can do nothing to the notebook around it."""
        if len(self.html) > _LARGE:
            log.warning(
                "the page has %.0f MB, which are saved with the notebook; .save(path) writes it to a file of its own, "
                "and neurons=False makes it smaller",
                len(self.html) / 1e6,
            )
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-downloads" '
            f'allow="clipboard-write" width="100%" height="{self.height}" '
            f'style="width: 100%; height: {self.height}px; border: 0" title="Attention explorer">{_UNTRUSTED}</iframe>'
        )
