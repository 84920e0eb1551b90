"""Files for the agreement task with ``data=local``: those of Linzen et al. (2016) and Gulordava et al. (2018).

==========  =======================  ========================================  =====================================
split       file                     the verb's number is read from            marked words
==========  =======================  ========================================  =====================================
validation  ``linzen_dev.tsv``       ``verb_pos``: VBZ singular, VBP plural    subject (``subj_idx``), attractors
test        ``linzen_test.tsv``      likewise                                  likewise
train       ``linzen_filtered.tsv``  ``verb`` beside ``inflected_verb``        none
==========  =======================  ========================================  =====================================

The input is the words before ``verb_idx``, which counts from 0, blanks between words, as ``subj_idx`` does (checked for
every row: the word there must be the verb, or its tag where a rare word was replaced by that). No file says where
attractors stand: where the subject is known, the embedded tagger finds them (``attractors``). ``verb`` and
``inflected_verb`` are the verb's two forms, by which a language model can be asked (``head=verb``).

There is no training file of Linzen et al. here. All of ``linzen_filtered.tsv`` takes its place: the two forms of a verb
tell which is singular (*is* | *are*, or the one with the *s*), except in 4 of its 7 489 rows, which are refused, or
left out with ``data.skip_broken_rows=true``. It keeps rare words where the other two have tags, three in four of its
verbs follow an attractor, and 22 of the 5 000 development and test sentences are in it too (4 and 18; compared word by
word, a tag standing for any word). The words before the verb, which are all that a model is given, are those of a
training sentence more often: 113 of 1 000 and 430 of 4 000, nearly all of them short (14 have six words or more).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from effective_attention.data.agreement.attractors import Clause, find_attractors
from effective_attention.data.agreement.grammar import word_span
from effective_attention.data.encoding import default_cache_dir
from effective_attention.data.examples import Examples, read_examples
from effective_attention.data.tables import Marks, Row, Table, read_table
from effective_attention.data.tasks import LABEL, Task
from effective_attention.errors import UserError, listed, quoted

_FILES = {"train": "linzen_filtered.tsv", "validation": "linzen_dev.tsv", "test": "linzen_test.tsv"}
_TAGS = {"VBZ": "singular", "VBP": "plural"}
_SINGULAR = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go"}
_SHARED = ("sentence", "verb_idx", "verb", "inflected_verb")
_OPTION = "task.loaders.local.attractors"
_DIGITS = 9  # of a place in a sentence: far more words than any has
Cells = Mapping[str, Any]


class _UnreadableError(Exception):
    """A row holds no readable example; the message says why."""


def load(task: Task, split: str, *, dir: Path, skip_broken_rows: bool = False, attractors: int = 0) -> Examples:
    """Load a split from the files in a folder, or in its subfolder ``agreement``.

    Args:
        task: Has the labels singular and plural.
        split: One of three; see the module's docstring.
        dir: The folder.
        skip_broken_rows: Leave out, and count, what cannot be read.
        attractors: Only sentences with at least so many; in the training file its column of that name counts.

    Raises:
        UserError: No file for the split, a missing column, or a row that cannot be read (with its line); or no sentence
            has so many attractors.
    """
    if isinstance(attractors, bool) or not isinstance(attractors, int) or attractors < 0:
        raise UserError(f"{_OPTION} must be a whole number, at least 0, got {attractors!r}")
    path = _find(dir, task, split)
    table = read_table(path)
    filtered = split == "train"
    own = (("attractors",) if attractors else ()) if filtered else ("verb_pos", "subj_idx")
    missing = [column for column in (*_SHARED, *own) if column not in (table.columns or ())]
    if missing:
        there = listed(table.columns or ())
        raise UserError(
            f"{path}: missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))} (there are: {there})"
        )
    read: list[Cells] = []
    rows = _converted(table.rows, _from_forms if filtered else _from_tag, read)
    made = Table(place=table.place, rows=rows, columns=("sentence", LABEL), unit=table.unit)
    examples = read_examples(made, task, source=f"file {path}", skip_broken_rows=skip_broken_rows)
    examples = examples if filtered else _with_attractors(examples, task, read)
    return examples if attractors == 0 else _with_so_many(examples, read, attractors, path)


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


def _converted(rows: Iterator[Row], label_of: Callable[[Cells], str], read: list[Cells]) -> Iterator[Row]:
    """Turn file rows into (words before the verb, label); `read_examples` reports the rows that cannot be read.

    Args:
        rows: Of the file.
        label_of: Reads the verb's number off a row.
        read: Is given the cells of each row that could be read.
    """
    for row in rows:
        if row.problem is not None:
            yield row
            continue
        try:
            made = _example(row, label_of)
        except _UnreadableError as problem:
            yield replace(row, cells={}, problem=str(problem))
            continue
        read.append(row.cells)
        yield made


def _example(row: Row, label_of: Callable[[Cells], str]) -> Row:
    words = row.cells["sentence"].split(" ")
    verb = _index(row.cells, "verb_idx", len(words))
    _check_verb(words[verb], row.cells)
    text = " ".join(words[:verb])
    if not text.strip():
        raise _UnreadableError("the text in 'sentence' is empty")
    marks = None
    if "subj_idx" in row.cells:
        marks = Marks(word_span(words, _index(row.cells, "subj_idx", verb)))
    label = label_of(row.cells)
    return replace(row, cells={"sentence": text, LABEL: label}, marks=marks, verb=_forms(row.cells, label))


def _forms(cells: Cells, label: str) -> tuple[str, str]:
    """Return the verb's singular and plural."""
    verb, other = cells["verb"].lower(), cells["inflected_verb"].lower()
    return (verb, other) if label == "singular" else (other, verb)


def _with_attractors(examples: Examples, task: Task, read: Sequence[Cells]) -> Examples:
    """Mark the attractors beside the subjects."""
    assert examples.marks is not None
    assert examples.labels is not None
    clauses = [
        Clause(
            words=tuple(cells["sentence"].split(" ")),
            subject=int(cells["subj_idx"]),
            verb=int(cells["verb_idx"]),
            plural=task.labels[int(label)] == "plural",
        )
        for cells, label in zip(read, examples.labels, strict=True)
    ]
    found = find_attractors(clauses, cache_dir=default_cache_dir())
    marked = [
        replace(marks, attractors=tuple(word_span(clause.words, place) for place in places))
        for marks, clause, places in zip(examples.marks, clauses, found, strict=True)
    ]
    return replace(examples, marks=marked)


def _with_so_many(examples: Examples, read: Sequence[Cells], least: int, path: Path) -> Examples:
    """Choose the sentences with at least so many attractors."""
    if examples.marks is not None:
        counts = [len(marks.attractors) for marks in examples.marks]
    else:
        counts = [int(cells["attractors"]) if cells["attractors"].isdecimal() else 0 for cells in read]
    places = [place for place, count in enumerate(counts) if count >= least]
    if not places:
        raise UserError(f"{_OPTION}={least}: no sentence of {path} has so many, the most are {max(counts)}")
    return examples.choose(places)


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
