"""The few numbers of the tables that a dashboard follows, by name; each chapter says which are its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from effective_attention.reports.chapter import Chapter

FINAL = "final"
"""What the names of numbers of a whole split begin with, in a log."""


def named_scalars(tables: Mapping[str, pd.DataFrame], chapters: Iterable[Chapter]) -> dict[str, float]:
    """Collect the numbers of all chapters whose analysis has a table."""
    scalars: dict[str, float] = {}
    for chapter in chapters:
        if chapter.scalars is not None and chapter.analysis in tables:
            scalars |= chapter.scalars.compute(tables[chapter.analysis])
    return scalars


def final_scalars(scalars: Mapping[str, float]) -> dict[str, float]:
    """Name the numbers of a whole split ``final/<name>``, so that no curve over a few examples ends in them."""
    return {f"{FINAL}/{name}": value for name, value in scalars.items()}


def overall_means(prefix: str, by: str, table: pd.DataFrame) -> dict[str, float]:
    """Name the mean over layers and heads of each value of a column ``<prefix>/<attention>/<value>``."""
    means = table.groupby(["attention", by], sort=False)["value"].mean()
    return {f"{prefix}/{attention}/{name}": float(value) for (attention, name), value in means.items()}


def layer_means(prefix: str, table: pd.DataFrame) -> dict[str, float]:
    """Name the mean over heads of each layer ``<prefix>/<attention>/layer_<number>``."""
    means = table.groupby(["attention", "layer"], sort=False)["value"].mean()
    return {f"{prefix}/{attention}/layer_{layer:02d}": float(value) for (attention, layer), value in means.items()}
