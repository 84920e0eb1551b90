"""Find the tables of the user's own data, whatever they are called, before anything is known of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from effective_attention.data.sources import HubSource, LocalSource, hub_rows, look_for
from effective_attention.data.tables import READERS, Table, read_table
from effective_attention.errors import UserError, first_line, listed

SPLITS = ("train", "validation", "test")
ONE_FILE = "all"
"""The split of data that is a single file."""
_KINDS = f"{', '.join([*READERS][:-1])} or {[*READERS][-1]}"


@dataclass(frozen=True)
class RawSplit:
    """A table that can be opened any number of times.

    Attributes:
        place: What an error names: the file, or the dataset on the hub.
        source: Where it comes from, for the console and the report.
        open: Opens the table.
        label_names: What the data says its labels are called, in its order; None: it does not.
        skip_broken_rows: Whether rows without a text are left out.
    """

    place: str
    source: str
    open: Callable[[], Table]
    label_names: tuple[str, ...] | None = None
    skip_broken_rows: bool = False

    def columns(self) -> tuple[str, ...]:
        """Return the columns; of a file where each row names its own, those of the first."""
        table = self.open()
        if table.columns is not None:
            return table.columns
        return tuple(chain.from_iterable(row.cells for row in [next(iter(table.rows), None)] if row is not None))


def find_splits(source: Any, name: str, label_column: str) -> dict[str, RawSplit]:
    """Find the splits that there are, by name; a single file is the split ``all``.

    Args:
        source: The source that the user chose.
        name: The task's: a folder of that name is looked into.
        label_column: Its names are read where the hub has them.

    Raises:
        UserError: The source has nothing for a task of the user's own, or nothing is where it should be.
    """
    if isinstance(source, HubSource):
        return _of_hub(source, label_column)
    if not isinstance(source, LocalSource):
        raise UserError(
            f"data={source.name}: task={name} reads data of your own; add data=local data.dir=<folder with train.csv>, "
            "data=local data.file=<file>, or data=hub data.name=<dataset>"
        )
    if source.file is not None:
        return {ONE_FILE: _of_file(source.file, source)}
    if source.dir is None:
        raise UserError(f"task={name} needs data.dir=<folder with train.csv> or data.file=<file>")
    return _of_folder(source.dir, name, source)


def _of_file(path: Path, source: LocalSource) -> RawSplit:
    if path.suffix not in READERS:
        raise UserError(f"data.file={path}: its name must end with {_KINDS}, to say what it holds")
    return RawSplit(str(path), f"file {path}", partial(read_table, path), skip_broken_rows=source.skip_broken_rows)


def _of_folder(folder: Path, name: str, source: LocalSource) -> dict[str, RawSplit]:
    paths = {split: look_for(folder, [folder / name, folder], split) for split in SPLITS}
    found = {split: _of_file(path, source) for split, path in paths.items() if path is not None}
    if found:
        return found
    there = sorted(path.name for path in folder.glob("*") if path.suffix in READERS)
    hint = f"there are {listed(there)}: name one with data.file=<file>" if there else "it has no table"
    raise UserError(f"data.dir={folder}: no train file ({_KINDS}); {hint}")


def _of_hub(source: HubSource, label_column: str) -> dict[str, RawSplit]:
    datasets = source.download_all()
    return {split: _of_dataset(source, split, datasets[split], label_column) for split in SPLITS if split in datasets}


def _of_dataset(source: HubSource, split: str, dataset: Any, label_column: str) -> RawSplit:
    configuration = "" if source.configuration is None else f" {source.configuration}"
    place = f"{source.path}{configuration}/{split}"
    names = getattr(dataset.features.get(label_column), "names", None)
    columns = tuple(dataset.column_names)

    def open_table() -> Table:
        rows = hub_rows(dataset, columns, label_column, names)
        return Table(place=place, rows=rows, columns=columns, unit="row")

    known = None if names is None else tuple(names)
    return RawSplit(place, f"hub {place}", open_table, known, source.skip_broken_rows)


@contextmanager
def readable(place: str) -> Iterator[None]:
    """Put an error of the disk into one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or first_line(error)
        raise UserError(f"{error.filename or place}: cannot be read ({reason})") from error
