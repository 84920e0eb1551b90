"""What made-up tables of all analyses share: the columns that a command writes in front."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

FRONT: dict[str, Any] = {
    "task": "mrpc",
    "model": "minilm",
    "data": "local",
    "split": "validation",
    "checkpoint": "runs/mrpc",
    "examples": 408,
}


def with_facts(body: pd.DataFrame, front: Mapping[str, Any] = FRONT) -> pd.DataFrame:
    """Add the columns in front as a command does; those the table has itself are kept."""
    columns = pd.DataFrame({"reading": "exact", **front}, index=body.index)
    own = [name for name in columns if name in body]
    return pd.concat([columns.assign(**body[own]), body.drop(columns=own)], axis=1)
