"""Read what finished runs have left on disk: their facts and their tables. Imports nothing heavy at the top."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effective_attention.errors import UserError, first_line

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class RunResults:
    """The contents of a run directory: ``metrics.json``, the tables by analysis, and the directory's name."""

    facts: dict[str, Any]
    tables: dict[str, DataFrame] = field(default_factory=dict)
    name: str = ""


def collect_runs(folder: Path) -> list[RunResults]:
    """Read every finished run in or below ``folder``, in the order of its job numbers."""
    found = [path.parent for path in folder.rglob("metrics.json")]
    return [read_run(path, str(path.relative_to(folder))) for path in sorted(found, key=_job_order)]


def _job_order(path: Path) -> tuple[Any, ...]:
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in path.parts)


def read_run(folder: Path, name: str = "") -> RunResults:
    """Read the run in ``folder``; its tables are those in ``tables/*.parquet``."""
    import pandas

    try:
        facts = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{folder / 'metrics.json'} is no JSON ({first_line(error)}); run this job again") from error
    tables = {}
    for path in sorted((folder / "tables").glob("*.parquet")):
        try:
            tables[path.stem] = pandas.read_parquet(path)
        except (ValueError, OSError) as error:  # pyarrow's errors are both
            raise UserError(f"{path} is no Parquet table ({first_line(error)}); run this job again") from error
    return RunResults(facts, tables, name)


def combine(runs: Sequence[RunResults]) -> dict[str, DataFrame]:
    """Put the runs' tables together, by analysis, with a column ``run`` that counts the runs."""
    import pandas

    parts: dict[str, list[DataFrame]] = {}
    for index, run in enumerate(runs):
        for name, table in run.tables.items():
            if len(table):
                parts.setdefault(name, []).append(table.assign(run=index))
    return {name: pandas.concat(tables, ignore_index=True) for name, tables in parts.items()}
