"""What figures and small tables of several chapters take from their tables."""

from __future__ import annotations

import pandas as pd

from effective_attention.reports.reductions import some_layers


def test_first_middle_and_last_layer() -> None:
    assert [some_layers(pd.DataFrame({"layer": range(count)})) for count in (1, 2, 6, 12)] == [
        [0],
        [0, 1],
        [0, 2, 5],
        [0, 5, 11],
    ]
