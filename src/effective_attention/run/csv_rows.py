"""``csv/metrics.csv``: what was logged on the way, also before the run was stopped and resumed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers.csv_logs import ExperimentWriter

from effective_attention.io import name_file, write_text

Rows = list[dict[str, Any]]


class WholeRows(ExperimentWriter):
    """Lightning's writer of the CSV logger, which goes on after ``earlier`` rows instead of beginning anew.

    New columns make a new file that takes the old one's place in one step. Errors name the file.
    """

    def __init__(self, log_dir: str, earlier: Rows) -> None:
        super().__init__(log_dir)
        path = Path(self.metrics_file_path)
        if earlier:
            self.metrics_keys = sorted({key for row in earlier for key in row})
            self._write(earlier)
        else:
            path.unlink(missing_ok=True)

    def save(self) -> None:
        """Append the rows that are not in the file yet."""
        try:
            super().save()
        except OSError as error:
            name_file(error, Path(self.metrics_file_path))
            raise

    def _check_log_dir_exists(self) -> None:
        """Keep what is there: ``earlier`` says what becomes of it."""

    def _rewrite_with_new_header(self, fieldnames: list[str]) -> None:
        with Path(self.metrics_file_path).open(newline="") as file:
            self._write(csv.DictReader(file))

    def _write(self, rows: Iterable[dict[str, Any]]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=self.metrics_keys)
        writer.writeheader()
        writer.writerows(rows)
        write_text(Path(self.metrics_file_path), text.getvalue())


def rows_before(path: Path, step: int, *, validation_is_due: bool) -> Rows:
    """Read the rows of a file that a run resumed at ``step`` will not log again.

    A row's step says how many steps were done before: a training step has its number from 0, a validation comes after.
    A process that is killed while it writes leaves half a row at the end, which is left out.
    """
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = [{key: value for key, value in row.items() if value} for row in csv.DictReader(file) if None not in row]
    whole = [row for row in rows if row.get("step", "").isdigit()]
    return [row for row in whole if int(row["step"]) < step + (_is_validation(row) and not validation_is_due)]


def _is_validation(row: dict[str, Any]) -> bool:
    return any(name.startswith("val/") for name in row)
