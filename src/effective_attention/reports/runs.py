"""Read what finished runs have left on disk: their facts and their tables. Imports nothing heavy at the top."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from effective_attention.errors import UserError, first_line

if TYPE_CHECKING:
    from pandas import DataFrame


log = logging.getLogger(__name__)
_NAMES = ("run/task", "run/model", "run/data")
PREDICTIONS = "predictions"
"""The table that testing writes, beside those of analyses: what the model answers for every example."""
OPTIONS_RECORD = "# options: "
"""Begins the first line of a run's ``config.yaml``; what follows are the options it was given, as JSON."""


@dataclass(frozen=True)
class RunResults:
    """The contents of a run directory: ``metrics.json``, the tables by analysis, and the directory's name."""

    facts: dict[str, Any]
    tables: dict[str, DataFrame] = field(default_factory=dict)
    name: str = ""


def find_runs(*folders: Path) -> list[Path]:
    """List every finished run in or below the folders, each once, in the order of job numbers.

    A finished run is a folder with ``metrics.json``. What it holds itself (checkpoints, W&B's files) is not searched,
    which saves most of the time.
    """
    found: dict[Path, Path] = {}
    for folder in folders:
        for place, below, files in os.walk(folder):
            if "metrics.json" in files:
                found.setdefault(Path(place).resolve(), Path(place))
                below.clear()
    return sorted(found.values(), key=job_order)


def job_order(path: Path) -> tuple[Any, ...]:
    """Order names as people do: ``2`` and ``2_task=rte`` before ``10``, numbers before words."""
    found = [(part, re.match(r"\d+", part)) for part in path.parts]
    return tuple((number is None, int(number[0]) if number else 0, part) for part, number in found)


def collect_facts(*folders: Path) -> dict[Path, dict[str, Any]]:
    """Read the facts of every finished run in or below the folders; one that cannot be read is named and left out."""
    found = {}
    for path in find_runs(*folders):
        try:
            found[path] = read_facts(path)
        except UserError as error:
            log.warning("left out: %s", error)
    return found


def collect_runs(found: Mapping[Path, dict[str, Any]], *, to: Path) -> list[RunResults]:
    """Read the tables of runs that ``collect_facts`` found; their names are paths from ``to``.

    A run with a table that cannot be read is named and left out.
    """
    runs = []
    for path, facts in found.items():
        try:
            runs.append(RunResults(facts, _read_tables(path), os.path.relpath(path, to)))
        except UserError as error:
            log.warning("left out of the report: %s", error)
    return runs


def _read_tables(folder: Path) -> dict[str, DataFrame]:
    """Read all tables; none where there are only predictions, as a run without analyses has no report."""
    paths = sorted((folder / "tables").glob("*.parquet"))
    return {path.stem: _read_table(path) for path in paths} if {path.stem for path in paths} - {PREDICTIONS} else {}


def recorded_options(folder: Path) -> list[str] | None:
    """Read from ``config.yaml`` which options a run was given; None where that was not written down.

    Not from Hydra's own files: it writes those even for a command that is refused, into the folder of another run.
    """
    path = folder / "config.yaml"
    first = path.read_text(encoding="utf-8").partition("\n")[0] if path.is_file() else ""
    try:
        return json.loads(first.removeprefix(OPTIONS_RECORD)) if first.startswith(OPTIONS_RECORD) else None
    except ValueError:  # somebody has written into the file
        return None


def read_facts(folder: Path) -> dict[str, Any]:
    """Read the ``metrics.json`` of a run."""
    path = folder / "metrics.json"
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is no JSON ({first_line(error)}); run this job again") from error
    if not isinstance(facts, dict) or not all(isinstance(facts.get(name), str) for name in _NAMES):
        raise UserError(f"{path} holds no results; run this job again")
    return facts


def _read_table(path: Path) -> DataFrame:
    """Read one table without a thread pool: a thousand small files are read in half the time."""
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            return file.read(use_threads=False).to_pandas(use_threads=False)
    except (ValueError, OSError) as error:  # pyarrow's errors are both
        raise UserError(f"{path} is no Parquet table ({first_line(error)}); run this job again") from error


def combine(runs: Sequence[RunResults]) -> dict[str, DataFrame]:
    """Put the runs' tables together, by analysis, with a column ``run`` that counts the runs."""
    import pandas

    parts: dict[str, list[DataFrame]] = {}
    for index, run in enumerate(runs):
        for name, table in run.tables.items():
            if len(table):
                parts.setdefault(name, []).append(_signed(table, run.facts).assign(run=index))
    return {name: pandas.concat(tables, ignore_index=True) for name, tables in parts.items()}


def _signed(table: DataFrame, facts: Mapping[str, Any]) -> DataFrame:
    """Add in front what a table does not say of its run: analyses sign theirs, testing does not."""
    known = {name: facts.get(f"run/{name}") or "" for name in ("task", "model", "data", "checkpoint")}
    splits = [name.split("/")[1] for name in facts if name.startswith("data/") and name.endswith("/examples")]
    known |= {"split": next((name for name in splits if name != "train"), ""), "examples": len(table)}
    if known["checkpoint"] == "" and "val/loss" in facts:
        known["checkpoint"] = "trained in this run"
    missing = {name: value for name, value in known.items() if name not in table}
    return table.assign(**missing)[[*missing, *table.columns]]
