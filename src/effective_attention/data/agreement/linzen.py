"""Files for the agreement task with ``data=local``: those of Linzen et al. (2016) and Gulordava et al. (2018).

==========  =======================  ========================================  =====================================
split       file                     the verb's number is read from            gold positions
==========  =======================  ========================================  =====================================
validation  ``linzen_dev.tsv``       ``verb_pos``: VBZ singular, VBP plural    the subject (``subj_idx``)
test        ``linzen_test.tsv``      likewise                                  likewise
train       ``linzen_filtered.tsv``  ``verb`` beside ``inflected_verb``        none
==========  =======================  ========================================  =====================================

The input is the words before ``verb_idx``, which counts from 0, blanks between words, as ``subj_idx`` does (checked for
every row: the word there must be the verb, or its tag where a rare word was replaced by that). No file says where
attractors stand.

There is no training file of Linzen et al. here. All of ``linzen_filtered.tsv`` takes its place: the two forms of a verb
tell which is singular (*is* | *are*, or the one with the *s*), except in 4 of its 7 489 rows, which are refused, or
left out with ``data.skip_broken_rows=true``. It keeps rare words where the other two have tags, three in four of its
verbs follow an attractor, and 22 of the 5 000 development and test sentences are in it too (compared word by word, a
tag standing for any word).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from effective_attention.data.agreement.grammar import word_span
from effective_attention.data.examples import Examples, read_examples
from effective_attention.data.tables import Marks, Row, Table, read_table
from effective_attention.data.tasks import LABEL, Task
from effective_attention.errors import UserError, listed, quoted

_FILES = {"train": "linzen_filtered.tsv", "validation": "linzen_dev.tsv", "test": "linzen_test.tsv"}
_TAGS = {"VBZ": "singular", "VBP": "plural"}
_SINGULAR = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go"}
_SHARED = ("sentence", "verb_idx", "verb", "inflected_verb")
_DIGITS = 9  # of a place in a sentence: far more words than any has
Cells = Mapping[str, Any]


class _UnreadableError(Exception):
    """A row holds no readable example; the message says why."""


def load(task: Task, split: str, *, dir: Path, skip_broken_rows: bool = False) -> Examples:
    """Load a split from the files in a folder, or in its subfolder ``agreement``.

    Raises:
        UserError: No file for the split, a missing column, or a row that cannot be read (with its line).
    """
    path = _find(dir, task, split)
    table = read_table(path)
    filtered = split == "train"
    own = ("verb_pos", "subj_idx") if not filtered else ()
    missing = [column for column in (*_SHARED, *own) if column not in (table.columns or ())]
    if missing:
        there = listed(table.columns or ())
        raise UserError(
            f"{path}: missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))} (there are: {there})"
        )
    rows = _converted(table.rows, _from_forms if filtered else _from_tag)
    made = Table(place=table.place, rows=rows, columns=("sentence", LABEL), unit=table.unit)
    return read_examples(made, task, source=f"file {path}", skip_broken_rows=skip_broken_rows)


def _find(folder: Path, task: Task, split: str) -> Path:
    if split not in _FILES:
        raise UserError(f"data=local: task {task.name} has no split {split!r}; choose one of {', '.join(_FILES)}")
    for place in (folder, folder / task.tsv_folder):
        if (place / _FILES[split]).is_file():
            return place / _FILES[split]
    instead = "take data=sample for that split" if split != "train" else "train with data=sample instead"
    problem = (
        "no such folder" if not folder.exists() else f"no {_FILES[split]} for the {split} split of task {task.name}"
    )
    raise UserError(
        f"data.dir={folder}: {problem}; give the folder that holds {', '.join(_FILES.values())}, or {instead}"
    )


def _converted(rows: Iterator[Row], label_of: Callable[[Cells], str]) -> Iterator[Row]:
    """Turn file rows into (words before the verb, label); `read_examples` reports the rows that cannot be read."""
    for row in rows:
        if row.problem is not None:
            yield row
            continue
        try:
            yield _example(row, label_of)
        except _UnreadableError as problem:
            yield replace(row, cells={}, problem=str(problem))


def _example(row: Row, label_of: Callable[[Cells], str]) -> Row:
    words = row.cells["sentence"].split(" ")
    verb = _index(row.cells, "verb_idx", len(words))
    _check_verb(words[verb], row.cells)
    marks = None
    if "subj_idx" in row.cells:
        marks = Marks(word_span(words, _index(row.cells, "subj_idx", verb)))
    return replace(row, cells={"sentence": " ".join(words[:verb]), LABEL: label_of(row.cells)}, marks=marks)


def _index(cells: Cells, column: str, end: int) -> int:
    """Read a place in the sentence, counted from 0; refuse a verb with nothing before it."""
    least = 1 if column == "verb_idx" else 0
    value = cells[column]
    if not value.isdecimal() or len(value) > _DIGITS or not least <= int(value) < end:
        raise _UnreadableError(
            f"{column} must be a whole number from {least} to {end - 1} (words count from 0), got {quoted(value)}"
        )
    return int(value)


def _check_verb(word: str, cells: Cells) -> None:
    if word.lower() != cells["verb"].lower() and word != cells.get("verb_pos"):
        raise _UnreadableError(
            f"word {cells['verb_idx']} is {quoted(word)}, not the verb {quoted(cells['verb'])} (words count from 0)"
        )


def _from_tag(cells: Cells) -> str:
    tag: str = cells["verb_pos"]
    return _TAGS.get(tag, tag)  # any other is refused as a label


def _from_forms(cells: Cells) -> str:
    verb = cells["verb"].lower()
    other = cells["inflected_verb"].lower()
    if is_singular_of(verb, other):
        return "singular"
    if is_singular_of(other, verb):
        return "plural"
    raise _UnreadableError(
        f"verb {quoted(verb)} and inflected_verb {quoted(other)} do not tell which number the verb has"
    )


def is_singular_of(singular: str, plural: str) -> bool:
    """Tell whether two forms of a verb, in lower case, differ as third person singular and plural do.

    >>> is_singular_of("carries", "carry"), is_singular_of("are", "is")
    (True, False)
    >>> is_singular_of("has", "have"), is_singular_of("en", "en")
    (True, False)
    """
    by_rule = (f"{plural}s", f"{plural}es", f"{plural[:-1]}ies" if plural.endswith("y") else "")
    return _SINGULAR.get(singular) == plural or singular in by_rule
