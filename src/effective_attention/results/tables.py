"""Tables on disk: Parquet, which keeps types, and CSV, which everything reads."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from effective_attention.results.files import whole_file


def write_table(path: Path, table: pd.DataFrame) -> None:
    """``path`` without a suffix; both files whole or not at all."""
    with whole_file(path.with_name(f"{path.name}.parquet")) as file:
        table.to_parquet(file, index=False)
    with whole_file(path.with_name(f"{path.name}.csv")) as file:
        table.to_csv(file, index=False, lineterminator="\n")
