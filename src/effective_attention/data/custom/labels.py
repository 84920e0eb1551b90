"""Find the labels of the user's own data, and bring them together with those a model was finetuned on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from effective_attention.data.custom.splits import RawSplit
from effective_attention.data.label_names import places, plain, say_nothing
from effective_attention.errors import UserError, listed, quoted, shorten

_LONGEST_NAME = 200
_FEW = 5  # labels that are never too many
_NO_TOKENS = (
    "holds lists: labels of tokens are not supported, only of whole texts; "
    "name a column with one label a row, task.label_column=<column>"
)


@dataclass(frozen=True)
class Classes:
    """The classes of a task.

    Attributes:
        names: In the order of the classes.
        read: Turns a cell into a class; raises ``ValueError`` that says what is allowed.
        counts: How often each label occurs where it was looked for, as it is written there.
        note: What was decided, for the log; None: nothing.
    """

    names: tuple[str, ...]
    read: Callable[[Any], int]
    counts: dict[str, int]
    note: str | None = None


def count_labels(split: RawSplit, column: str) -> Counter[str]:
    """Count how often each label occurs.

    Raises:
        UserError: The cells are lists.
    """
    counts: Counter[str] = Counter(map(_word, _cells(split, column)))
    written_lists = [name for name in counts if name.startswith("[") and name.endswith("]")]
    if counts and len(written_lists) == len(counts):
        raise UserError(f"{split.place}: column {column!r} {_NO_TOKENS}")
    return counts


def _cells(split: RawSplit, column: str) -> Iterator[Any]:
    """Yield the label cells that are not empty; the others are refused, with their line, when examples are read."""
    for row in split.open().rows:
        value = row.cells.get(column)
        if isinstance(value, list | tuple | dict):
            raise UserError(f"{split.place}: column {column!r} {_NO_TOKENS}")
        if value is not None and _word(value):
            yield value


def _word(value: Any) -> str:
    return str(value).strip()


def find_classes(split: RawSplit, column: str, given: Sequence[str] | None) -> Classes:
    """Find the classes in a split.

    Args:
        split: The one that is learnt from.
        column: With the labels.
        given: Their names, if the user has listed them; else those of the data in its order, or sorted.

    Raises:
        UserError: There are too few labels, or so many that they can be no classes.
    """
    counts = count_labels(split, column)
    if given is None and split.label_names is None:
        _check_found(split, column, counts)
        names = sorted_labels(counts)
    else:
        names = [*(given if given is not None else split.label_names or ())]
    return Classes(tuple(names), _reader(names), _in_order(counts, names))


def sorted_labels(names: Counter[str]) -> list[str]:
    """Sort labels: numbers as numbers, all others as words.

    >>> sorted_labels(Counter(["10", "9"])), sorted_labels(Counter(["b", "10", "9"]))
    (['9', '10'], ['10', '9', 'b'])
    """
    numbers = {name: _number(name) for name in names}
    if all(number is not None for number in numbers.values()):
        return sorted(names, key=lambda name: (numbers[name], name))
    return sorted(names)


def _number(name: str) -> float | None:
    try:
        number = float(name)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _check_found(split: RawSplit, column: str, counts: Counter[str]) -> None:
    place = f"{split.place}: column {column!r}"
    rows = counts.total()
    if rows == 0:
        raise UserError(f"{place} holds no label: the file has no rows, or none of them is filled in")
    if len(counts) < 2:
        found = quoted(next(iter(counts)))
        raise UserError(
            f"{place} has only the label {found}, and classes are two or more; "
            "name another with task.label_column=<column>"
        )
    are_numbers = all(_number(name) is not None for name in counts)
    if len(counts) > _FEW and 2 * len(counts) > rows:
        advice = "are they scores? then add task.regression=true" if are_numbers else "are they texts?"
        raise UserError(
            f"{place} has {len(counts)} different labels in {rows} rows; {advice}; "
            "else name another column with task.label_column=<column>"
        )
    long = next((name for name in counts if len(name) > _LONGEST_NAME), None)
    if long is not None:
        raise UserError(f"{place} holds texts, such as {quoted(long)}; name another with task.label_column=<column>")


def known_classes(split: RawSplit, column: str, known: Sequence[str], *, place: str, numbers: bool) -> Classes:
    """Take the classes of a model that was finetuned on them.

    Args:
        split: The data.
        column: With the labels.
        known: What the model calls its outputs, in their order.
        place: The option that names the model.
        numbers: Whether the data may give the outputs' numbers instead of their names, as data for transformers does.

    Raises:
        UserError: The data has other labels.
    """
    counts = count_labels(split, column)
    if places([*counts], known) is not None:
        loose = not set(counts) <= set(known)
        return Classes(tuple(known), _reader(known, loose=loose), _in_order(counts, known))
    ids = [str(number) for number in range(len(known))]
    if numbers and set(counts) <= set(ids):
        note = (
            None
            if say_nothing(known)
            else f"labels are numbers, taken for those of the model's outputs: {_numbered(known)}"
        )
        return Classes(tuple(known), _reader(known, numbers=True), _in_order(counts, ids), note)
    if numbers and say_nothing(known) and len(counts) == len(known):
        names = sorted_labels(counts)  # in which order is said when the model is loaded
        return Classes(tuple(names), _reader(names), _in_order(counts, names))
    raise UserError(
        f"{split.place}: its labels are {listed(sorted_labels(counts))}, those of {place} {listed(known)}; "
        "evaluate on data with the labels the model was finetuned on"
    )


def _numbered(names: Sequence[str]) -> str:
    return listed([f"{number} {name}" for number, name in enumerate(names)])


def _in_order(counts: Counter[str], names: Sequence[str]) -> dict[str, int]:
    return {name: counts[name] for name in [*names, *sorted(set(counts) - set(names))] if counts[name]}


def _reader(names: Sequence[str], *, loose: bool = False, numbers: bool = False) -> Callable[[Any], int]:
    """Return a function that turns a cell into its class."""
    ids = {name: number for number, name in enumerate(names)}
    if loose:
        ids = {plain(name): number for name, number in ids.items()} | ids
    if numbers:
        ids |= {str(number): number for number in range(len(names))}

    def read(value: Any) -> int:
        word = _word(value)
        found = ids.get(word, ids.get(plain(word)) if loose else None)
        if value is None or not word:
            raise ValueError("it has no label")
        if found is None:
            raise ValueError(f"label {quoted(value)} is not one of {listed(names)}")
        return found

    return read


def find_range(splits: Sequence[RawSplit], column: str) -> tuple[float, float]:
    """Return the lowest and the highest score of all splits.

    Raises:
        UserError: A label is not a number, or all are the same.
    """
    scores: list[float] = []
    for split in splits:
        for value in _cells(split, column):
            score = None if isinstance(value, bool) else _number(_word(value))
            if score is None:
                raise UserError(
                    f"{split.place}: label {shorten(_word(value))!r} is not a number; "
                    "task.regression=true needs scores, leave it out for classes"
                )
            scores.append(score)
    if not scores or min(scores) == max(scores):
        raise UserError(
            f"{splits[0].place}: column {column!r} holds no two different scores, so there is nothing to learn"
        )
    return min(scores), max(scores)
