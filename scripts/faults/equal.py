"""Two runs are equal: every bit of what was learnt, every row that was logged, every number but the clock."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from commands import in_fork

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
from helpers import same_run


def differences(one: Path, other: Path) -> list[str]:
    """Name what differs between two run directories; times, and the names of the folders, may."""
    return in_fork(_differences, one, other)


def _differences(one: Path, other: Path) -> list[str]:
    found = same_run.differences(one, other)
    found += ["metrics.json"] * (_metrics(one) != _metrics(other))
    names = {path.name for folder in (one, other) for path in (folder / "tables").glob("*.parquet")}
    found += [f"tables/{name}" for name in sorted(names) if not _table(one, name).equals(_table(other, name))]
    found += [str(path) for path in one.rglob(".*.unfinished")]
    return found


def _metrics(folder: Path) -> dict[str, Any]:
    return same_run.scores(json.loads((folder / "metrics.json").read_text()))


def _table(folder: Path, name: str) -> pd.DataFrame:
    path = folder / "tables" / name
    return pd.read_parquet(path).drop(columns="checkpoint") if path.is_file() else pd.DataFrame()
