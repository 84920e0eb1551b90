"""A small table of the report, ready for the page."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

NONE = "\N{EN DASH}"


@dataclass(frozen=True)
class Grid:
    """A table ready for the page.

    ``groups`` are headings over several columns, ``paper`` the columns that are not ours, ``prose`` those of text.
    """

    caption: str
    columns: list[str]
    rows: list[list[str]]
    groups: list[tuple[str, int]] = field(default_factory=list)
    paper: frozenset[int] = frozenset()
    prose: frozenset[int] = frozenset()
    labels: int = 1  # how many columns in front are names, not numbers

    @property
    def full_names(self) -> list[str]:
        """Name each column with the heading over it; a narrow screen shows every row for itself, without headings.

        >>> Grid("", ["task", "ours", "paper"], [], [("", 1), ("block", 2)]).full_names
        ['task', 'block, ours', 'block, paper']
        """
        above = [title for title, columns in self.groups or [("", len(self.columns))] for _ in range(columns)]
        return [f"{over}, {name}" if over else name for over, name in zip(above, self.columns, strict=True)]


def without_empty_columns(grid: Grid) -> Grid:
    """Leave out the columns of numbers that hold nothing in any row, where no headings stand over several columns."""
    kept = [
        place
        for place in range(len(grid.columns))
        if place < grid.labels or any(row[place] != NONE for row in grid.rows)
    ]
    rows = [[row[place] for place in kept] for row in grid.rows]
    return replace(grid, columns=[grid.columns[place] for place in kept], rows=rows)


def number(value: Any, digits: int = 3) -> str:
    """Write a number as text.

    >>> number(0.5), number(3e-7), number(None) == number(float("nan")) == NONE
    ('0.500', '3.0e-07', True)
    """
    if value is None or value != value:
        return NONE
    small = 0 < abs(value) < 0.5 * 10**-digits
    return f"{value:.1e}" if small else f"{value:.{digits}f}"


def span(low: Any, high: Any, digits: int = 3) -> str:
    """Write a range as text, such as quartiles.

    >>> span(1.25, 1.5, 2), span(None, 1.5) == NONE
    ('1.25 to 1.50', True)
    """
    ends = number(low, digits), number(high, digits)
    return NONE if NONE in ends else " to ".join(ends)
