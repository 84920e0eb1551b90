"""What does effective attention cost? Sun & Marasovic (2021), Table 3: evaluation time with each attention, per task.

The times are those that testing has measured (``run.testing``): nothing is run for this table.
"""

from __future__ import annotations

import pandas as pd

from effective_attention.analyses.common.base import Analysis


class Timing(Analysis):
    """Table 3. Table: attention, seconds, examples_per_second, ratio to standard."""

    def compute(self) -> pd.DataFrame:
        metrics = self.context.facts
        kinds = [name.split("/")[1] for name in metrics if name.startswith("test/") and name.endswith("/seconds")]
        rows = [
            {
                "attention": kind,
                "reading": "padded" if kind == "padded" else "exact",
                "seconds": metrics[f"test/{kind}/seconds"],
                "examples_per_second": metrics[f"test/{kind}/examples_per_second"],
                "ratio": 1.0 if kind == "standard" else metrics.get(f"test/{kind}/seconds_ratio", float("nan")),
            }
            for kind in kinds
        ]
        columns = ["attention", "reading", "seconds", "examples_per_second", "ratio"]
        return pd.DataFrame(rows, columns=columns)
