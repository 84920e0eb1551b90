"""Tables on disk."""

import csv
import io

import pandas as pd
import pytest

from effective_attention.io import csv_text, write_table
from helpers.paths import ROOT

TABLE = pd.DataFrame(
    {"task": ["mrpc", "mrpc"], "head": pd.array([0, None], dtype="Int64"), "value": [0.1, float("nan")]}
)


def test_parquet_keeps_types(tmp_path):
    write_table(tmp_path / "tables" / "some.name", TABLE)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "tables" / "some.name.parquet"), TABLE)


def test_csv_reads_back(tmp_path):
    write_table(tmp_path / "t", TABLE)
    assert (tmp_path / "t.csv").read_text() == "task,head,value\nmrpc,0,0.1\nmrpc,,\n"


def test_an_old_table_survives_a_failure(tmp_path, monkeypatch):
    write_table(tmp_path / "t", TABLE)
    before = (tmp_path / "t.csv").read_bytes()

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(OSError, match="No space left"):
        write_table(tmp_path / "t", TABLE.head(1))
    assert (tmp_path / "t.csv").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.parquet"]


TEXTS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "\nx",
    "\uff1d1",
    "'=1",
    "''-",
    "'",
    "'s",
    "plain",
    "a=b",
    "a\r=1",
]


def test_a_spreadsheet_finds_no_formula_in_csv(tmp_path):
    table = pd.DataFrame({"token": TEXTS, "kind": pd.Categorical(TEXTS), "value": [-1.0] * len(TEXTS)})
    write_table(tmp_path / "t", table)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), table)
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    assert not [cell for row in rows for cell in row[:2] if cell[0] in "=+-@\t\r\n\uff1d"]
    assert [row[0] for row in rows[9:]] == ["'''-", "'", "'s", "plain", "a=b", "a\r=1"]
    assert [row[2] for row in rows] == ["-1.0"] * len(TEXTS), "numbers stay numbers"


def test_texts_come_back_as_the_docs_say(tmp_path):
    rule = r"^'(?='*[=+\-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20])"
    assert rule in (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(csv_text(pd.DataFrame({"token": TEXTS})), newline="")))
    column = pd.Series([cell for (cell,) in rows[1:]])
    assert list(column) != TEXTS
    assert list(column.str.replace(rule, "", regex=True)) == TEXTS
