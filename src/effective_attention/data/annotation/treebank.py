"""Load ``task=treebank`` from ``data=local``: the sentences of a treebank, with gold words and without labels."""

from __future__ import annotations

import re
from pathlib import Path

from effective_attention.data.annotation.conllu import BrokenSentenceError, read_conllu
from effective_attention.data.examples import SKIP_BROKEN_ROWS, Examples
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError


def load(task: Task, split: str, *, dir: Path, skip_broken_rows: bool = False) -> Examples:
    """Load a split of the treebank in a folder, or in its subfolder ``treebank``.

    Raises:
        UserError: Not exactly one file for the split, or a sentence that cannot be read (with its line).
    """
    path = find_treebank(dir, task, split)
    broken: list[BrokenSentenceError] = []
    try:
        sentences = list(read_conllu(path, broken=broken if skip_broken_rows else None))
    except BrokenSentenceError as error:
        raise UserError(f"{error}, or leave such sentences out with {SKIP_BROKEN_ROWS}") from error
    return Examples(
        texts=[(sentence.text,) for sentence in sentences],
        labels=None,
        source=f"file {path}",
        skipped_rows=len(broken),
        words=[(sentence.words,) for sentence in sentences],
    )


def find_treebank(folder: Path, task: Task, split: str) -> Path:
    """Find the one ``.conllu`` file that has the split's name in its own, as in ``en_ewt-ud-dev.conllu``.

    The validation split may be called ``dev`` or ``validation``.

    Raises:
        UserError: No folder, no file, or two files in the same folder that could both be meant.
    """
    names = ("dev", "validation") if split == "validation" else (split,)
    looked_for = " or ".join(f"*{name}*.conllu" for name in names)
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "no such folder"
        raise UserError(f"data.dir={folder}: {problem}; give the one that holds {looked_for}")
    for place in (folder / task.tsv_folder, folder):
        found = [
            path
            for path in sorted(place.glob("*.conllu"))
            if set(names) & set(re.split(r"[^a-z0-9]+", path.stem.lower()))
        ]
        if len(found) > 1:
            raise UserError(
                f"data.dir={folder}: two files for the {split} split, {found[0]} and {found[1]}; keep one of them"
            )
        if found:
            return found[0]
    places = f"{task.tsv_folder}/ and the folder itself"
    raise UserError(f"data.dir={folder}: no treebank for the {split} split; looked for {looked_for} in {places}")
