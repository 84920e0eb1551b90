"""Turn the rows of any source into examples; a row that does not fit is refused with its file and line."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from effective_attention.data.annotation.pipelines import TaggedText
from effective_attention.data.tables import Marks, Row, Table
from effective_attention.data.tasks import LABEL, Task
from effective_attention.errors import UserError, listed, quoted

Known = TypeVar("Known")
SKIP_BROKEN_ROWS = "data.skip_broken_rows=true"
"""What to add to leave out what cannot be read."""
_PER_EXAMPLE = ("texts", "labels", "marks", "words", "verbs")
_NO_LABEL = ("", "-1", "-1.0", "None")  # how files and the hub write "this split's labels are secret"


@dataclass(frozen=True)
class Examples:
    """A split, checked: every text is non-empty and every label belongs to the task.

    Args:
        texts: One or two texts per example, untouched (SST-2's trailing blanks included).
        labels: Class ids in the hub's order, or scores; None: the task has no labels.
        source: Where they came from, for the console and the report.
        skipped_rows: Rows left out because they were broken; 0 unless the user asked for that.
        marks: The words that decide each example, where the source knows them for all.
        words: The words of each text, with tags and trees, where the source has them from annotators (a treebank does).
        verbs: The verb that follows each text, singular and plural, where the source knows it (agreement does).
    """

    texts: list[tuple[str, ...]]
    labels: list[int] | list[float] | None
    source: str
    skipped_rows: int = 0
    marks: list[Marks] | None = None
    words: list[tuple[TaggedText, ...]] | None = None
    verbs: list[tuple[str, str]] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def spread(self, count: int) -> Examples:
        """Choose at most ``count`` examples, evenly spread over the split.

        Files are often sorted by source, label or length, so the first ones would not do.
        """
        return self.choose(
            [number * len(self) // count for number in range(count)] if count < len(self) else range(len(self))
        )

    def choose(self, places: Sequence[int]) -> Examples:
        """Return the examples in these places, in this order."""
        known: dict[str, Any] = {name: getattr(self, name) for name in _PER_EXAMPLE}
        chosen: dict[str, Any] = {name: [of[place] for place in places] for name, of in known.items() if of is not None}
        return replace(self, **chosen)


class _BrokenRowError(Exception):
    """A row without a readable example: wrong number of columns, or no text.

    The user may choose to leave such rows out.
    """


def read_examples(
    table: Table,
    task: Task,
    *,
    source: str,
    renamed: Mapping[str, str] | None = None,
    skip_broken_rows: bool = False,
    label_of: Callable[[Any], int | float] | None = None,
) -> Examples:
    """Check and convert every row of a table.

    Args:
        table: The rows.
        task: Decides the columns and the labels.
        source: Passed on to the result.
        renamed: The hub's column name → the table's, for the columns whose names differ.
        skip_broken_rows: Leave out, and count, rows with the wrong number of columns or an empty text, instead of
            refusing the table. A wrong label is refused all the same: it means that the table is not this task's.
        label_of: Turns a cell into its label, or raises `ValueError` that says what is allowed; None: a name of the
            task's or its number, or a score.

    Raises:
        UserError: A column is missing, a row is broken, a label does not fit, or there is no example at all.
    """
    columns = {column: (renamed or {}).get(column, column) for column in task.columns}
    _check_columns(table, columns)
    text_columns = [columns[column] for column in task.text_columns]
    texts: list[tuple[str, ...]] = []
    labels: list[Any] = []
    marks: list[Marks | None] = []
    verbs: list[tuple[str, str] | None] = []
    skipped = 0
    label_of = _label_reader(task) if label_of is None else label_of
    for row in table.rows:
        try:
            texts.append(_texts(row, text_columns))
        except _BrokenRowError as problem:
            if not skip_broken_rows:
                hint = f"correct it, or leave such rows out with {SKIP_BROKEN_ROWS}"
                raise UserError(f"{_at(table, row)}: {problem}; {hint}") from None
            skipped += 1
            continue
        if label_of is not None:
            labels.append(_label(table, row, columns[LABEL], label_of))
        marks.append(row.marks)
        verbs.append(row.verb)
    if not texts:
        raise UserError(f"{table.place}: no examples in it" + (f" ({skipped} broken rows left out)" if skipped else ""))
    found = labels if task.has_labels else None
    return Examples(texts, found, source, skipped, _if_all(marks), verbs=_if_all(verbs))


def _if_all(values: Sequence[Known | None]) -> list[Known] | None:
    """Return what is known of every example; None where one lacks it."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _at(table: Table, row: Row) -> str:
    return f"{table.place}, {table.unit} {row.number}"


def _check_columns(table: Table, columns: Mapping[str, str]) -> None:
    if table.columns is None:
        return
    missing = [column for column in columns.values() if column not in table.columns]
    if missing:
        raise UserError(f"{table.place}: {_missing(missing, columns.get(LABEL), table.columns)}")


def _missing(missing: list[str], label: str | None, present: tuple[str, ...]) -> str:
    there = f"there are: {listed(present) or 'none'}"
    if missing == [label]:
        return f"no label column {label!r} ({there}); an unlabelled split cannot be used, take a labelled one"
    return f"missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))} ({there})"


def _texts(row: Row, columns: list[str]) -> tuple[str, ...]:
    if row.problem is not None:
        raise _BrokenRowError(row.problem)
    return tuple(_text(row, column) for column in columns)


def _text(row: Row, column: str) -> str:
    if column not in row.cells:
        raise _BrokenRowError(_missing([column], None, tuple(row.cells)))
    text = row.cells[column]
    if not isinstance(text, str):
        raise _BrokenRowError(f"{column!r} must be a text, got {quoted(text)}")
    if not text.strip():
        raise _BrokenRowError(f"the text in {column!r} is empty")
    if not is_unicode(text):
        raise _BrokenRowError(f"the text in {column!r} holds half a surrogate pair, which is no character")
    return text


def is_unicode(text: str) -> bool:
    """Tell whether a text holds characters only: half a surrogate pair is none, and no tokenizer takes it."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _label(table: Table, row: Row, column: str, label_of: Callable[[Any], int | float]) -> int | float:
    if column not in row.cells:
        raise UserError(f"{_at(table, row)}: {_missing([column], column, tuple(row.cells))}")
    value = row.cells[column]
    try:
        return label_of(value)
    except ValueError as error:
        advice = "; an unlabelled split cannot be used: fill it in, or take a labelled one"
        raise UserError(f"{_at(table, row)}: {error}{advice if _word(value) in _NO_LABEL else ''}") from None


def _label_reader(task: Task) -> Callable[[Any], int | float] | None:
    """Return a function that turns a cell into its label; None for a task without labels.

    The function raises `ValueError` that says what is allowed.
    """
    if not task.has_labels:
        return None
    return _score_reader(*task.label_range) if task.label_range is not None else _class_reader(task.labels)


def _word(value: Any) -> str:
    """Write a cell as a file would; a list or an object, which may be too deep to write, is no word."""
    return "an object" if isinstance(value, list | dict) else str(value)


def _class_reader(names: Sequence[str]) -> Callable[[Any], int]:
    """Return a function that reads a class label: its name or the hub's id; 1.0 and True are neither."""
    ids = {str(number): number for number in range(len(names))} | {name: number for number, name in enumerate(names)}
    allowed = ", ".join(f"{name} ({number})" for number, name in enumerate(names))

    def read(value: Any) -> int:
        found = ids.get(_word(value))
        if found is None:
            raise ValueError(f"label {quoted(value)} is not one of {allowed}")
        return found

    return read


def _score_reader(low: float, high: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        try:
            score = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            score = math.nan
        if not low <= score <= high:  # also true of NaN
            raise ValueError(f"label {quoted(value)} is not a number from {low:g} to {high:g}")
        return score

    return read
