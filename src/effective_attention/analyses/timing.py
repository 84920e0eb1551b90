"""What does effective attention cost? Sun & Marasovic (2021), Table 3: evaluation time with each attention, per task.

The times are those that testing has measured, where the attentions take turns batch by batch (``run.testing``):
nothing is run for this table. Of a handful of batches no time is told, and the numbers are missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from effective_attention.analyses.common.base import Analysis
from effective_attention.analyses.common.schema import Column, Schema, attention_column
from effective_attention.attention.variants import TESTED

SCHEMA = Schema(
    (
        Column("reading", "exact, affine, or padded as published", "name", ("exact", "affine", "padded")),
        attention_column(*TESTED),
        Column("seconds", "of the model over the split, without making batches", low=0),
        Column("examples_per_second", "examples of the split divided by seconds", low=0),
        Column("ratio", "a batch's seconds divided by its seconds with standard attention; median of batches", low=0),
        Column("ratio_low", "lower quartile of the batches' ratios", low=0),
        Column("ratio_high", "upper quartile of the batches' ratios", low=0),
        Column("batches", "that were timed; padded: their examples padded to the maximum length", "whole", low=0),
    )
)


class Timing(Analysis):
    """Table 3. Table: attention, seconds, examples_per_second, ratio to standard with its quartiles, batches."""

    schema = SCHEMA

    def compute(self) -> pd.DataFrame:
        facts = self.context.facts
        ending = "/timed_batches"
        kinds = [name.removesuffix(ending).removeprefix("test/") for name in facts if name.endswith(ending)]
        rows = [_row(kind, {name.rpartition("/")[2]: facts[name] for name in _of(kind, facts)}) for kind in kinds]
        return pd.DataFrame(rows, columns=SCHEMA.names)


def _of(kind: str, facts: Mapping[str, Any]) -> list[str]:
    """List what testing found with one attention."""
    return [name for name in facts if name.startswith(f"test/{kind}/")]


def _row(kind: str, found: Mapping[str, Any]) -> dict[str, Any]:
    unknown = 1.0 if kind == "standard" and "seconds" in found else math.nan
    return {
        "reading": kind if kind in ("affine", "padded") else "exact",
        "attention": kind,
        "seconds": found.get("seconds", math.nan),
        "examples_per_second": found.get("examples_per_second", math.nan),
        "ratio": found.get("seconds_ratio", unknown),
        "ratio_low": found.get("seconds_ratio_low", unknown),
        "ratio_high": found.get("seconds_ratio_high", unknown),
        "batches": found["timed_batches"],
    }
