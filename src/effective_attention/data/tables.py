"""Read TSV, CSV, JSONL and Parquet files as one stream of numbered rows.

Readers only take a file apart; what a row must hold is decided in one place, `effective_attention.data.examples`. All
of them stream, so a file is held in memory once, as the examples it becomes.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effective_attention.errors import UserError, first_line, listed


@dataclass(frozen=True)
class Marks:
    """The words of an example's first text that should decide a model's answer, each as (start, end) in characters.

    Attributes:
        subject: The word that decides the label.
        attractors: Words that speak for another label; empty where there are none, or the source does not tell.
    """

    subject: tuple[int, int]
    attractors: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Row:
    """One row of a table.

    ``problem`` says why it could not be taken apart; its cells are then empty. ``marks``, and the ``verb``'s forms
    (singular, plural), are None where they are unknown.
    """

    number: int
    cells: Mapping[str, Any]
    problem: str | None = None
    marks: Marks | None = None
    verb: tuple[str, str] | None = None


@dataclass(frozen=True)
class Table:
    """Rows that can be read once.

    Args:
        place: What an error names: the file, or the dataset on the hub.
        rows: The rows, numbered from 1 as an editor or a viewer would.
        columns: The columns every row has; ``None`` for JSONL, where each line names its own.
        unit: What ``Row.number`` counts.
    """

    place: str
    rows: Iterator[Row]
    columns: tuple[str, ...] | None
    unit: str = "line"


def read_table(path: Path, *, tsv_header: Sequence[str] | None = None) -> Table:
    """Open a file by its extension, one of `READERS`.

    Args:
        path: The file.
        tsv_header: Column names of a TSV file that has no header line.

    Raises:
        UserError: The file is empty or not what its extension says. Errors in later lines come while the rows are read.
    """
    return read_tsv(path, header=tsv_header) if path.suffix == ".tsv" else READERS[path.suffix](path)


def read_tsv(path: Path, *, header: Sequence[str] | None = None) -> Table:
    """Read tab-separated values as GLUE means them: a quote is a character like any other, without escaping."""
    split_lines = ((number, line.rstrip("\r\n").split("\t")) for number, line in numbered_lines(path))
    lines = ((number, cells) for number, cells in split_lines if cells != [""])
    return _with_header(path, lines, header)


def read_csv(path: Path) -> Table:
    """Read comma-separated values with quoting; a cell may hold commas, quotes and line breaks."""
    return _with_header(path, _csv_records(path), None)


def read_jsonl(path: Path) -> Table:
    """Read a file with one JSON object a line."""
    rows = (_json_row(number, line) for number, line in numbered_lines(path) if line.strip("\r\n"))
    return Table(place=str(path), rows=rows, columns=None)


def read_parquet(path: Path) -> Table:
    """Read a Parquet file, a batch of rows at a time."""
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowException as error:
        raise UserError(f"{path}: not a Parquet file ({first_line(error)})") from error
    return Table(place=str(path), rows=_parquet_rows(path, file), columns=tuple(file.schema_arrow.names), unit="row")


READERS = {".tsv": read_tsv, ".csv": read_csv, ".jsonl": read_jsonl, ".parquet": read_parquet}


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield numbered lines with their line ends; only a newline ends a line.

    Lines are decoded one by one, so that the error about bad bytes can name the line.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}, line {number}: not valid UTF-8 "
                    f"(byte 0x{raw[error.start]:02x} at position {error.start + 1}); "
                    "save the file as UTF-8"
                ) from error
            yield number, line.removeprefix("\ufeff") if number == 1 else line


def _csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield numbered records; a record that spans lines has the number of its first one."""
    reader = csv.reader((line for _, line in numbered_lines(path)), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(
                f"{path}, line {number}: broken CSV ({error}); quote cells that hold commas or quotes"
            ) from error
        if cells:
            yield number, cells


def _with_header(path: Path, lines: Iterator[tuple[int, list[str]]], header: Sequence[str] | None) -> Table:
    if header is None:
        _, header = next(lines, (1, []))
        if not header:
            raise UserError(f"{path}: the file is empty; expected a header line and then examples")
    columns = tuple(header)
    if len(set(columns)) < len(columns):
        raise UserError(f"{path}, line 1: a column name appears twice in the header: {listed(columns)}")
    return Table(place=str(path), rows=(_named_row(number, cells, columns) for number, cells in lines), columns=columns)


def _named_row(number: int, cells: list[str], columns: tuple[str, ...]) -> Row:
    if len(cells) != len(columns):
        return Row(
            number, {}, f"{len(cells)} column{'s' * (len(cells) != 1)}, expected {len(columns)} ({listed(columns)})"
        )
    return Row(number, dict(zip(columns, cells, strict=True)))


def _json_row(number: int, line: str) -> Row:
    try:
        cells = json.loads(line)
    except json.JSONDecodeError as error:
        return Row(number, {}, f"not valid JSON ({error.msg} at column {error.colno})")
    except (ValueError, RecursionError) as error:  # a number too long to read, or nesting too deep
        return Row(number, {}, f"not valid JSON ({first_line(error)})")
    if not isinstance(cells, dict):
        return Row(number, {}, f"expected a JSON object with the columns as keys, got {type(cells).__name__}")
    return Row(number, cells)


def _parquet_rows(path: Path, file: Any) -> Iterator[Row]:
    import pyarrow

    number = 0
    try:
        for batch in file.iter_batches(batch_size=4096):
            for cells in batch.to_pylist():
                number += 1
                yield Row(number, cells)
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{path}, after row {number}: the file is damaged ({first_line(error)})") from error
