"""Load ``task=text``: plain texts to look at, without labels; from any text file, or the passages of the sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import as_file, files
from itertools import groupby
from pathlib import Path
from typing import Literal

from effective_attention.data.examples import Examples
from effective_attention.data.tables import numbered_lines, read_table
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError

Unit = Literal["line", "paragraph"]


def load(task: Task, split: str, *, file: Path, unit: Unit = "line", min_words: int = 1) -> Examples:
    """Load the texts of a file; what is empty or too short is left out, and counted.

    Args:
        task: Has no labels.
        split: The task's only one: a text file has no splits.
        file: In UTF-8.
        unit: What one text is: a line, or the lines up to an empty one, joined by a blank.
        min_words: Leave out texts of fewer words (what blanks divide), such as headings.

    Raises:
        UserError: There is no such file, a line is not UTF-8 (with its number), or nothing is left.
    """
    _check_split(task, split)
    check_file(file)
    found = list(_lines(file) if unit == "line" else _paragraphs(file))
    kept = [text for text in found if len(text.split()) >= max(min_words, 1)]
    if not kept:
        hint = f" of {min_words} words or more; add a smaller data.min_words" if min_words > 1 else ""
        raise UserError(f"data.file={file}: there is no text in it{hint}")
    texts: list[tuple[str, ...]] = [(text,) for text in kept]
    return Examples(texts, None, f"file {file}, one text a {unit}", skipped_rows=len(found) - len(kept))


def passages(task: Task, split: str) -> Examples:
    """Load the passages of the embedded sample: the first texts of its task rte, each once."""
    _check_split(task, split)
    with as_file(files("effective_attention.data") / "sample" / "rte" / "validation.jsonl") as path:
        texts = dict.fromkeys(row.cells["sentence1"] for row in read_table(path).rows)
    return Examples([(text,) for text in texts], None, "passages of the embedded sample")


def check_file(file: Path, kind: str = "a text file in UTF-8") -> None:
    """Refuse what is not a file, in one line that says what ``kind`` of file to give."""
    if not file.is_file():
        problem = "is not a file" if file.exists() else "no such file"
        raise UserError(f"data.file={file}: {problem}; give {kind}")


def _check_split(task: Task, split: str) -> None:
    if split not in task.eval_splits:
        raise UserError(f"split={split}: task {task.name} has no splits; leave it out")


def _lines(file: Path) -> Iterator[str]:
    return (line.strip() for _, line in numbered_lines(file))


def _paragraphs(file: Path) -> Iterator[str]:
    blocks: Iterable[tuple[bool, Iterator[str]]] = groupby(_lines(file), key=bool)
    return (" ".join(lines) for is_text, lines in blocks if is_text)
