"""Two runs are equal: every bit of what was learnt, every row that was logged, every number but the clock."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from commands import in_fork


def differences(one: Path, other: Path) -> list[str]:
    """Name what differs between two run directories; times, and the names of the folders, may."""
    return in_fork(_differences, one, other)


def _differences(one: Path, other: Path) -> list[str]:
    found = [f"{name}:{key}" for name in ("last.ckpt", "best.ckpt") for key in _checkpoints(one, other, name)]
    found += ["metrics.json"] * (_metrics(one) != _metrics(other))
    found += ["csv/metrics.csv"] * (_logged(one) != _logged(other))
    names = {path.name for folder in (one, other) for path in (folder / "tables").glob("*.parquet")}
    found += [f"tables/{name}" for name in sorted(names) if not _table(one, name).equals(_table(other, name))]
    found += [str(path) for path in one.rglob(".*.unfinished")]
    return found


def _checkpoints(one: Path, other: Path, name: str) -> list[str]:
    pair = [torch.load(folder / "checkpoints" / name, weights_only=True) for folder in (one, other)]
    here, there = (_learnt(checkpoint) for checkpoint in pair)
    return sorted(key for key in here.keys() | there.keys() if not _equal(here.get(key), there.get(key)))


def _learnt(checkpoint: dict[str, Any]) -> dict[str, Any]:
    kept = ("state_dict", "optimizer_states", "lr_schedulers", "epoch", "global_step")
    state = checkpoint.get("callbacks", {}).get("LastCheckpoint", {})
    chosen = {name: checkpoint[name] for name in kept if name in checkpoint}
    return _flat(chosen | {name: state[name] for name in ("mark", "validation") if name in state})


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {key: leaf for part in value for key, leaf in _flat(value[part], f"{name}.{part}").items()}
    if isinstance(value, list | tuple):
        return _flat(dict(enumerate(value)), name)
    return {name: value}


def _equal(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def _metrics(folder: Path) -> dict[str, Any]:
    values = json.loads((folder / "metrics.json").read_text())
    return {name: value for name, value in values.items() if "second" not in name and name != "run/checkpoint"}


def _logged(folder: Path) -> list[dict[str, str]]:
    with (folder / "csv" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: value for name, value in row.items() if value and "second" not in name} for row in rows]


def _table(folder: Path, name: str) -> pd.DataFrame:
    path = folder / "tables" / name
    return pd.read_parquet(path).drop(columns="checkpoint") if path.is_file() else pd.DataFrame()
