"""Files that are whole or not there: results, tables, caches, and stores of parts from which long work is resumed.

Imports nothing heavy at the top, because Hydra's callbacks come through here at start-up.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from effective_attention.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from torch import nn

log = logging.getLogger(__name__)
Cached = TypeVar("Cached")
_UNFINISHED = ".unfinished"
"""How the name of a file ends that is being written; whoever is killed leaves it behind."""
_FINGERPRINT = b"effective_attention.fingerprint"


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` in one step: a reader, or a full disk, never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        name_file(error, path)
        raise


def name_file(error: BaseException, path: Path) -> None:
    """Put the name the user knows into what the disk raised, also where a library raised something else on top."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):
            cause.filename = str(path)
            cause.filename2 = None
        cause = cause.__cause__ or cause.__context__


def clear_unfinished(folder: Path, *, older_than: float = 0.0) -> None:
    """Remove, from a folder and those in it, files that a killed process did not finish.

    Args:
        folder: No other process writes in it, or ``older_than`` says how long writing a file can take at most.
        older_than: In seconds.
    """
    for place in (folder, *(part for part in folder.glob("*") if part.is_dir())):
        for path in place.glob(f".*{_UNFINISHED}"):
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                if time.time() - path.stat().st_mtime >= older_than:
                    path.unlink()


def expanded(place: str | Path) -> Path:
    """Put the user's folder in the place of ``~``; what names a user who does not exist stays as it is."""
    return Path(os.path.expanduser(place))  # noqa: PTH111 (Path.expanduser raises)


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` in one step, as UTF-8."""
    with whole_file(path) as file:
        file.write(text.encode())


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write flat values; a number that is not finite becomes null, because JSON has no word for it."""
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in values.items()
    }
    write_text(path, json.dumps(finite, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_table(path: Path, table: pd.DataFrame, *, fingerprint: str | None = None) -> None:
    """Write ``path``.parquet, which keeps types, and ``path``.csv, which everything reads; each in one step.

    Args:
        path: Of both, without their endings.
        table: What to write.
        fingerprint: Of what the table was made from; kept in the parquet file, for ``read_table``.
    """
    import pyarrow as pa
    from pyarrow import parquet

    arrow = pa.Table.from_pandas(table, preserve_index=False)
    if fingerprint is not None:
        arrow = arrow.replace_schema_metadata({**arrow.schema.metadata, _FINGERPRINT: fingerprint.encode()})
    with whole_file(path.with_name(f"{path.name}.csv")) as file:
        file.write(csv_text(table).encode())
    with whole_file(path.with_name(f"{path.name}.parquet")) as file:  # last: it says that the table is finished
        parquet.write_table(arrow, file)


def read_table(path: Path, fingerprint: str) -> pd.DataFrame | None:
    """Return a table that was made from just this; None: there is none, or it was made from something else."""
    from pyarrow import ArrowException, parquet

    try:
        arrow = parquet.read_table(path.with_name(f"{path.name}.parquet"))
    except (OSError, ArrowException):
        return None
    same = (arrow.schema.metadata or {}).get(_FINGERPRINT) == fingerprint.encode()
    return arrow.to_pandas() if same else None


_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20]")  # the last four: full-width = + - @


def csv_text(table: pd.DataFrame) -> str:
    """Write a table as CSV that is safe to open in a spreadsheet, which would run a text such as ``=1+1`` as a formula.

    An apostrophe, which spreadsheets take for "this is text", goes in front of such a text. Numbers stay as they are.
    Nothing is lost: a text of apostrophes and then one of these signs gets one more, so that taking the first one away
    from any such cell gives the table back. Lines end as RFC 4180 has it: Python before 3.13 would else leave a text
    that holds a carriage return without quotes, and what follows would begin a row.
    """
    safe = table.assign(**{str(name): _as_text(column) for name, column in table.items()})
    return safe.to_csv(index=False, lineterminator="\r\n")


def _as_text(column: pd.Series) -> pd.Series:
    """Put an apostrophe in front of a column's formulas; a column of numbers is returned as it is."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        return column
    return column.astype(object).map(lambda value: csv_cell(value) if isinstance(value, str) else value)


def csv_cell(text: str) -> str:
    """Put an apostrophe in front of a text that a spreadsheet would run as a formula; see ``csv_text``.

    >>> csv_cell("=1+1"), csv_cell("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def cache_root() -> Path:
    """Return where caches are: ``$EFFECTIVE_ATTENTION_CACHE``, or else a folder in the user's cache."""
    chosen = os.environ.get("EFFECTIVE_ATTENTION_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "effective-attention"


# --- caches: what texts were turned into. One that is damaged or cannot be written costs time, never the run ---


def read_arrays(path: Path, build: Callable[[Mapping[str, NDArray[Any]]], Cached], what: str) -> Cached | None:
    """Build from the arrays of an ``.npz`` file; None, and a warning, if they are not what they should be."""
    if not path.is_file():
        return None
    try:
        return build(_load_arrays(path))
    except (
        Exception
    ) as error:  # what a damaged zip raises depends on where the damage is; to make it anew is always right
        log.warning("%s cache %s cannot be read (%s); made anew", what, path, error)
        return None


def write_arrays(path: Path, arrays: Mapping[str, Any], what: str) -> None:
    """Write an ``.npz`` file in one step; warn if that is not possible."""
    import numpy as np

    try:
        with whole_file(path) as file:
            np.savez_compressed(file, **arrays)
    except OSError as error:
        log.warning("%ss are not cached: %s: %s", what, path.parent, error.strerror)


def _load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


# --- finished parts of long work ---


def fingerprint(model: nn.Module, arrays: Iterable[NDArray[Any]]) -> str:
    """Digest every weight and every number: the same in every process and on every machine."""
    import torch

    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    add_arrays(digest, arrays)
    return digest.hexdigest()


def add_arrays(digest: hashlib.blake2b, arrays: Iterable[NDArray[Any]]) -> None:
    """Add every number of some arrays to a digest, with their types and shapes."""
    import numpy as np

    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)


class PartStore:
    """Keep finished parts of long work on disk, so that whoever is killed and started again goes on where they were.

    The folder belongs to one analysis with its options, one model (every weight of it) and one split (every token of
    it), so that nothing is taken for something else. Each part is one file, written whole or not at all; processes that
    share the work share the folder. A part that cannot be read counts as missing, and is made anew.

    Args:
        folder: Made when the first part is written; None: a temporary one, and nothing outlives the store.
    """

    def __init__(self, folder: Path | None) -> None:
        self._temporary = tempfile.TemporaryDirectory() if folder is None else None
        self.folder = Path(self._temporary.name) if self._temporary is not None else folder

    def path(self, name: str) -> Path:
        """Return where a part is, or will be."""
        return self.folder / f"{name}.npz"  # type: ignore[operator]

    def __contains__(self, name: str) -> bool:
        return self.path(name).is_file()

    def write(self, name: str, arrays: Mapping[str, Any]) -> None:
        """Keep a finished part."""
        import numpy as np

        with whole_file(self.path(name)) as file:
            np.savez(file, **arrays)

    def read(self, name: str) -> dict[str, NDArray[Any]] | None:
        """Return a part; None: not there, or damaged."""
        if name not in self:
            return None
        try:
            return _load_arrays(self.path(name))
        except Exception:  # as in ``read_arrays``
            self.path(name).unlink(missing_ok=True)
            return None


_OTHER_DISK = "make room, or choose another disk with data.token_cache=<folder>, or fewer examples with limit=<number>"


def check_disk(option: str, folder: Path | None, size: int, advice: str = _OTHER_DISK) -> None:
    """Refuse, before any work, what does not fit where ``folder`` is, or will be; ``size`` in bytes."""
    place = Path(tempfile.gettempdir()) if folder is None else folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if size > free:
        needed, left = (f"{count / 1e9:.1f} GB" for count in (size, free))
        raise UserError(f"{option}: {needed} are needed in {place}, where {left} are free; {advice}")
