"""Tables on disk."""

import pandas as pd
import pytest

from effective_attention.io import write_table

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
