"""What a chapter of the report is: everything that is said and shown of one analysis, in one place.

A chapter is one module of ``reports.chapters`` (or a package, where it is long) that ends in ``CHAPTER =
Chapter(...)``. The report, the figures, the numbers that loggers follow and the W&B workspace are all derived from the
chapters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from matplotlib.figure import Figure
from pandas import DataFrame

from effective_attention.attention.variants import ATTENTIONS
from effective_attention.reports.grid import Grid


def has_rows(table: DataFrame) -> bool:
    """Tell whether the table has rows to draw."""
    return len(table) > 0


@dataclass(frozen=True)
class Drawing:
    """A figure of a chapter.

    Attributes:
        name: Name of its files, ``figures/<name>.png`` and ``.svg``; no two figures of all chapters share one.
        caption: What it shows, in a sentence or two.
        draw: From the analysis' table, of one run or of several, to the figure.
        condition: Whether the table holds what the figure shows; asked only of tables that have rows.
        on_page: Whether the report shows it; a file is written all the same.
    """

    name: str
    caption: str
    draw: Callable[[DataFrame], Figure]
    condition: Callable[[DataFrame], bool] = has_rows
    on_page: bool = True

    def can_draw(self, table: DataFrame) -> bool:
        """Tell whether the table holds what the figure shows."""
        return has_rows(table) and self.condition(table)


@dataclass(frozen=True)
class Scalars:
    """The few numbers of a table that a dashboard follows.

    Attributes:
        title: Title of their panel.
        unit: Unit of its vertical axis.
        prefix: What their names begin with: ``<prefix>/<attention>/<rest>``.
        compute: From the analysis' table to the numbers by name.
        attentions: Those that have numbers.
    """

    title: str
    unit: str
    prefix: str
    compute: Callable[[DataFrame], dict[str, float]]
    attentions: tuple[str, ...] = ATTENTIONS


@dataclass(frozen=True)
class Piece:
    """A stretch of text with one background.

    ``level`` goes from -LEVELS to LEVELS, 0 is no background; ``value`` is the exact weight.
    """

    text: str
    level: int = 0
    value: str = ""
    query: bool = False


@dataclass(frozen=True)
class Highlighted:
    """A text whose words have backgrounds, ready for the page."""

    title: str
    pieces: list[Piece]


@dataclass(frozen=True)
class Highlights:
    """The highlighted texts of one task and attention, by layer.

    ``is_open`` ones stand at the beginning of the chapter, the others are folded away at its end.
    """

    title: str
    attention: str
    layers: list[tuple[str, list[Highlighted]]]
    is_open: bool = False


@dataclass(frozen=True)
class Chapter:
    """All that the report says of one analysis.

    Attributes:
        analysis: Its name, which is that of its table and of its config.
        title: Title of the chapter.
        source: Which paper shows the same and where, such as ``Sun & Marasović 2021, Fig. 1``.
        text: How it is measured.
        question: What is asked, in plain words, in one sentence.
        paper_says: What the paper found; empty: nothing to compare with.
        found: From the analysis' table to what these runs found, in sentences made from its numbers.
        needs_head: Whether the numbers depend on the classification head: they mean nothing where it is random.
        figures: Its figures, in the order of the page.
        tables: From the analysis' table to small tables; those without rows are left out.
        across: From the tables of all analyses to one more small table; None: there is none.
        scalars: What loggers follow; None: nothing.
        remarks: More sentences that depend on the table.
        highlights: Texts with backgrounds.
    """

    analysis: str
    title: str
    source: str
    text: str
    question: str = ""
    paper_says: str = ""
    found: Callable[[DataFrame], list[str]] = field(default=lambda _: [])
    needs_head: bool = False
    figures: tuple[Drawing, ...] = ()
    tables: tuple[Callable[[DataFrame], Grid], ...] = ()
    across: Callable[[Mapping[str, DataFrame]], Grid] | None = None
    scalars: Scalars | None = None
    remarks: Callable[[DataFrame], list[str]] = field(default=lambda _: [])
    highlights: Callable[[DataFrame], list[Highlights]] = field(default=lambda _: [])
