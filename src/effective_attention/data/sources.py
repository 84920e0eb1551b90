"""Load examples from the embedded sample, the Hugging Face hub, or a folder of the user's.

A source is chosen in the configuration (``data=sample|hub|local``), never guessed; a missing one says which override to
add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.resources import as_file, files
from itertools import product
from pathlib import Path
from typing import Any, Literal, cast

from effective_attention.data.examples import Examples, read_examples
from effective_attention.data.tables import READERS, Row, Table, read_table
from effective_attention.data.tasks import LABEL, Task
from effective_attention.errors import UserError, first_line, listed
from effective_attention.io import expanded

__all__ = ["Examples", "HubSource", "LocalSource", "SampleSource"]

_OPTIONS = "data.name, data.configuration and data.revision"


class SampleSource:
    """The small sample written for this project and shipped with it: no download, no real GLUE."""

    name = "sample"

    def load(self, task: Task, split: str) -> Examples:
        split = task.split_name(split)
        load = task.loader(self.name)
        if load is not None:
            return load(task, split)
        resource = files("effective_attention.data") / "sample" / task.name / f"{split}.jsonl"
        if not resource.is_file():
            raise UserError(
                f"data=sample: no {split} sample for task {task.name}; "
                "add data=hub, or data=local data.dir=<GLUE folder>"
            )
        with as_file(resource) as path:
            return read_examples(read_table(path), task, source=f"embedded sample {task.name}/{path.name}")


class HubSource:
    """A dataset on the Hugging Face hub, or a folder in the hub's layout, read by the ``datasets`` library.

    Args:
        path: Repository on the hub, or a folder.
        name: Configuration of the dataset; the task's name where ``None``.
        revision: Branch, tag or commit, for runs that must be repeatable.
        cache_dir: Where the library keeps its files; its own default (under ``HF_HOME``) where ``None``.
        skip_broken_rows: Leave out, and count, rows with an empty text (the hub's QQP has two).
    """

    name = "hub"

    def __init__(
        self,
        path: str = "nyu-mll/glue",
        name: str | None = None,
        revision: str | None = None,
        cache_dir: str | None = None,
        skip_broken_rows: bool = False,
    ) -> None:
        self.path = path
        self.configuration = name
        self.revision = revision
        self.cache_dir = cache_dir
        self.skip_broken_rows = skip_broken_rows

    def load(self, task: Task, split: str) -> Examples:
        split = task.split_name(split)
        load: Callable[..., Examples] | None = task.loader(self.name)
        if load is not None:
            return load(task, split)
        configuration = self.configuration if self.configuration is not None else task.name
        place = f"{self.path} {configuration}/{split}"
        dataset = self._download(configuration, split)
        wanted = [column for column in task.columns if column in dataset.column_names]
        rows = hub_rows(dataset, wanted, LABEL, _label_names(dataset, task, place))
        table = Table(place=place, rows=rows, columns=tuple(dataset.column_names), unit="row")
        return read_examples(table, task, source=f"hub {place}", skip_broken_rows=self.skip_broken_rows)

    def download_all(self) -> Any:
        """Load every split of the dataset, by name; its own default configuration, unless one was named."""
        return self._download(self.configuration, None)

    def _download(self, configuration: str | None, split: str | None) -> Any:
        from datasets import load_dataset

        what = " ".join(filter(None, [self.path, configuration]))
        part = "" if split is None else f"{split} of "
        try:
            return load_dataset(self.path, configuration, split=split, revision=self.revision, cache_dir=self.cache_dir)
        except ConnectionError as error:
            sample = "" if split is None else " or data=sample"  # which a task of one's own does not have
            call = ", ".join(repr(word) for word in (self.path, configuration) if word is not None)
            raise UserError(
                f"data=hub: the hub cannot be reached and {what} is not in the cache ({first_line(error)}); "
                f"add data=local data.dir=<folder>{sample} instead, or fetch it where there is a network with "
                f"load_dataset({call}) and set HF_HOME to that machine's cache folder"
            ) from error
        except Exception as error:
            # The library's errors share no class: wrong name, split or revision, damaged file, full disk.
            raise UserError(
                f"data=hub: cannot load {part}{what} ({first_line(error)}); "
                f"check {_OPTIONS}, or add data=local data.dir=<folder>"
            ) from error


def _label_names(dataset: Any, task: Task, place: str) -> list[str] | None:
    """Return the dataset's own label names, in its order, where it has them; refuse names that are not the task's."""
    names = getattr(dataset.features.get(LABEL), "names", None)
    if names is not None and set(names) != set(task.labels):
        theirs = listed(names)
        ours = ", ".join(task.labels) or "scores"
        raise UserError(f"{place}: its labels are {theirs}, those of task {task.name} {ours}; check {_OPTIONS}")
    return names


def hub_rows(dataset: Any, columns: Sequence[str], label_column: str, names: Sequence[str] | None) -> Iterator[Row]:
    """Yield rows with label names, not ids: a dataset may count its labels in another order than the task.

    Args:
        dataset: Of the library.
        columns: Those to read.
        label_column: The one with labels.
        names: Of the labels, in the dataset's order; None: it has none, and the cells stay as they are.
    """
    number = 0
    for batch in dataset.select_columns(list(columns)).iter(batch_size=1000):
        for values in zip(*(batch[column] for column in columns), strict=True):
            number += 1
            cells = dict(zip(columns, values, strict=True))
            label = cells.get(label_column)
            if names is not None and label is not None and 0 <= label < len(names):  # -1 stays: no label
                cells[label_column] = names[label]
            yield Row(number, cells)


class LocalSource:
    """A folder of the user's: the classic GLUE download, or CSV, JSONL or Parquet with the hub's column names.

    A task of plain text is read from a single file instead.

    Args:
        dir: The GLUE folder (``<dir>/MRPC/train.tsv``), a folder of task folders (``<dir>/mrpc/train.csv``), or the
            folder with the task's own files (``<dir>/train.tsv``). Both ``validation.*`` and ``dev.*`` are the
            validation split.
        skip_broken_rows: Leave out, and count, rows with the wrong number of columns or an empty text (the classic QQP
            has some).
        file: The text file of a task of plain text.
        unit: What one text of it is: a line or a paragraph.
        min_words: Leave out, and count, shorter texts of it.
    """

    name = "local"

    def __init__(
        self,
        dir: str | Path | int | None = None,
        skip_broken_rows: bool = False,
        file: str | Path | int | None = None,
        unit: Literal["line", "paragraph"] = "line",
        min_words: int = 1,
    ) -> None:
        self.dir = _path(dir)
        self.skip_broken_rows = skip_broken_rows
        self.file = _path(file)
        self.unit = unit
        self.min_words = min_words

    def load(self, task: Task, split: str) -> Examples:
        place = self.file if task.is_one_file else self.dir
        if place is None:
            raise UserError(f"task {task.name} needs {task.local_options}")
        split = task.split_name(split)
        try:
            return self._load_file(task, split, place) if task.is_one_file else self._load_folder(task, split, place)
        except OSError as error:
            raise UserError(
                f"{error.filename or place}: cannot be read ({error.strerror or first_line(error)})"
            ) from error

    def _load_file(self, task: Task, split: str, file: Path) -> Examples:
        load = cast("Callable[..., Examples]", task.loader("file"))
        return load(task, split, file=file, unit=self.unit, min_words=self.min_words)

    def _load_folder(self, task: Task, split: str, folder: Path) -> Examples:
        load = task.loader(self.name)
        if load is not None:
            return load(task, split, dir=folder, skip_broken_rows=self.skip_broken_rows)
        path = find_file(folder, task, split)
        return read_examples(
            read_table(path, tsv_header=task.tsv_header),
            task,
            source=f"file {path}",
            renamed=task.tsv_renamed if path.suffix == ".tsv" else None,
            skip_broken_rows=self.skip_broken_rows,
        )


def _path(place: str | Path | int | None) -> Path | None:
    return None if place is None else expanded(str(place))  # a folder called 2024 comes as a number


def find_file(folder: Path, task: Task, split: str) -> Path:
    """Find the one file that holds a split.

    The first of these folders that has one counts: GLUE's task folder, the hub's task folder, the folder itself.

    Raises:
        UserError: No folder, no file, or two files in the same folder that could both be meant.
    """
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "no such folder"
        raise UserError(
            f"data.dir={folder}: {problem}; give the one that holds {task.tsv_folder}/train.tsv or train.csv"
        )
    found = look_for(folder, [folder / task.tsv_folder, folder / task.name, folder], split)
    if found is not None:
        return found
    names = _file_names(split)
    raise UserError(
        f"data.dir={folder}: no {task.tsv_folder}/{names[0]} for the {split} split of task {task.name}; "
        f"looked for {', '.join(names)} in {task.tsv_folder}/, {task.name}/ and the folder itself"
    )


def look_for(folder: Path, places: Sequence[Path], split: str) -> Path | None:
    """Return the file of a split in the first of these places that has one; None: none has.

    Raises:
        UserError: Two files could be meant; names the ``folder`` that the user gave.
    """
    for place in places:
        found = [place / name for name in _file_names(split) if (place / name).is_file()]
        if len(found) > 1:
            raise UserError(
                f"data.dir={folder}: two files for the {split} split, {found[0]} and {found[1]}; keep one of them"
            )
        if found:
            return found[0]
    return None


def _file_names(split: str) -> list[str]:
    stems = dict.fromkeys((split.replace("validation", "dev"), split))  # GLUE says dev, the hub says validation
    return [stem + suffix for stem, suffix in product(stems, READERS)]
