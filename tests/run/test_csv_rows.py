"""The log of a run that was stopped and resumed is one log."""

import csv
from pathlib import Path

from effective_attention.run.csv_rows import WholeRows, rows_before


def _write(path: Path) -> Path:
    path.write_text("step,train/loss,val/loss\n0,0.9,\n1,0.8,\n2,,0.5\n2,0.7,\n3,0.")
    return path


def test_rows_that_will_not_be_logged_again(tmp_path: Path) -> None:
    path = _write(tmp_path / "metrics.csv")
    kept = rows_before(path, 2, validation_is_due=False)
    assert kept == [
        {"step": "0", "train/loss": "0.9"},
        {"step": "1", "train/loss": "0.8"},
        {"step": "2", "val/loss": "0.5"},
    ]
    assert rows_before(path, 2, validation_is_due=True) == kept[:2]
    assert rows_before(path, 3, validation_is_due=True) == [*kept, {"step": "2", "train/loss": "0.7"}]
    assert rows_before(tmp_path / "none.csv", 2, validation_is_due=True) == []


def test_new_rows_follow_the_earlier_ones(tmp_path: Path) -> None:
    folder = tmp_path / "csv"
    folder.mkdir()
    rows = WholeRows(str(folder), rows_before(_write(folder / "metrics.csv"), 1, validation_is_due=False))
    rows.log_metrics({"new": 1.0}, step=1)
    rows.save()
    with (folder / "metrics.csv").open(newline="") as file:
        found = [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]
    assert found == [{"step": "0", "train/loss": "0.9"}, {"step": "1", "new": "1.0"}]
    assert [path.name for path in folder.iterdir()] == ["metrics.csv"]


def test_a_new_run_begins_a_new_log(tmp_path: Path) -> None:
    _write(tmp_path / "metrics.csv")
    WholeRows(str(tmp_path), [])
    assert list(tmp_path.iterdir()) == []
