"""The beginning of an analysis' whole table for the page, and the rest as a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pandas import DataFrame

from effective_attention.io import csv_text
from effective_attention.reports.paths import portable

_MOST_ROWS = 60  # on the page
_MOST_BYTES = 400_000  # of a table inside the page as CSV


@dataclass(frozen=True)
class FullTable:
    """The beginning of an analysis' table, and the whole as a link (None if too long for the page)."""

    name: str
    columns: list[str]
    rows: list[list[str]]
    length: int
    link: str | None


def full_table(name: str, table: DataFrame) -> FullTable:
    """Cut a table to what the page shows."""
    whole = portable(table.drop(columns="run", errors="ignore"))
    rows = [[_cell(value) for value in row] for row in whole.head(_MOST_ROWS).astype(object).to_numpy()]
    return FullTable(name, [str(column) for column in whole.columns], rows, len(whole), _csv_link(whole))


def _csv_link(table: DataFrame) -> str | None:
    """Return the whole table as a link; None where it is too long for the page, which is seen without writing it."""
    if table.size > _MOST_BYTES // 2:  # a cell and its comma
        return None
    csv = csv_text(table)
    return f"data:text/csv;charset=utf-8,{quote(csv)}" if len(csv.encode()) <= _MOST_BYTES else None


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return "" if value is None or str(value) == "<NA>" else str(value)
