"""Two training runs are equal: every bit of what was learnt, every number but the clock."""

import csv
from pathlib import Path
from typing import Any

import torch


def scores(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return what must repeat: everything but the clock and where the run was told to begin."""
    return {name: value for name, value in metrics.items() if "second" not in name and name != "run/checkpoint"}


def same_run(one: Path, other: Path) -> None:
    """Check that two run directories hold the same checkpoints and the same log."""
    assert differences(one, other) == []


def differences(one: Path, other: Path) -> list[str]:
    """Name what differs between the checkpoints and the logs of two run directories."""
    found = [f"{name}:{key}" for name in ("last.ckpt", "best.ckpt") for key in _checkpoints(one, other, name)]
    return found + ["csv/metrics.csv"] * (_logged(one) != _logged(other))


def _checkpoints(one: Path, other: Path, name: str) -> list[str]:
    pair = [torch.load(folder / "checkpoints" / name, weights_only=True) for folder in (one, other)]
    here, there = (_learnt(checkpoint) for checkpoint in pair)
    both = here.keys() & there.keys()
    return sorted((here.keys() ^ there.keys()) | {key for key in both if not _equal(here[key], there[key])})


def _learnt(checkpoint: dict[str, Any]) -> dict[str, Any]:
    kept = ("state_dict", "optimizer_states", "lr_schedulers", "epoch", "global_step")
    found = _flat({name: checkpoint[name] for name in kept if name in checkpoint})
    state = checkpoint.get("callbacks", {}).get("LastCheckpoint")
    return found if state is None else found | _flat({"mark": state["mark"], "validation": state["validation"]})


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {key: leaf for part in value for key, leaf in _flat(value[part], f"{name}.{part}").items()}
    if isinstance(value, list | tuple):
        return _flat(dict(enumerate(value)), name)
    return {name: value}


def _equal(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def _logged(folder: Path) -> list[dict[str, str]]:
    with (folder / "csv" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: value for name, value in row.items() if value and "second" not in name} for row in rows]
