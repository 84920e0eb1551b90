"""What does effective attention cost? Sun & Marasovic (2021), Table 3: evaluation time with each attention, per task.

The times are those that testing has measured (``run.testing``): nothing is run for this table.
"""

from __future__ import annotations

import pandas as pd

from effective_attention.analyses.common.base import Analysis
from effective_attention.analyses.common.schema import Column, Schema, attention_column

SCHEMA = Schema(
    (
        Column("reading", "exact, or padded to a fixed length as published", "name", ("exact", "padded")),
        attention_column("standard", "effective", "padded"),
        Column("seconds", "of one evaluation of the split; of several rounds the median", low=0),
        Column("examples_per_second", "examples of the split divided by seconds", low=0),
        Column("ratio", "seconds divided by those of standard attention in the same round", low=0),
    )
)


class Timing(Analysis):
    """Table 3. Table: attention, seconds, examples_per_second, ratio to standard."""

    schema = SCHEMA

    def compute(self) -> pd.DataFrame:
        metrics = self.context.facts
        kinds = [name.split("/")[1] for name in metrics if name.startswith("test/") and name.endswith("/seconds")]
        rows = [
            {
                "reading": "padded" if kind == "padded" else "exact",
                "attention": kind,
                "seconds": metrics[f"test/{kind}/seconds"],
                "examples_per_second": metrics[f"test/{kind}/examples_per_second"],
                "ratio": 1.0 if kind == "standard" else metrics.get(f"test/{kind}/seconds_ratio", float("nan")),
            }
            for kind in kinds
        ]
        return pd.DataFrame(rows, columns=SCHEMA.names)
