"""What ``token_identity`` found, in sentences."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapters.token_identity.reductions import (
    DISTANCE_TITLES,
    MAP_TITLES,
    combinations,
    experiment,
    of_pair,
    rates,
)
from effective_attention.reports.findings import percent, said_of
from effective_attention.reports.reductions import panels


def found_identity(table: DataFrame) -> list[str]:
    """Say how many tokens each map finds in the first and the last layer, beside guessing."""
    tested = experiment(table, "input")
    said = []
    for panel in panels(tested) if len(tested) else ():
        parts = []
        for name, distance in combinations(panel.table):
            values = rates(of_pair(panel.table, name, distance))["value"]
            first, last = (f"{percent(values.iloc[end])} in layer {values.index[end]}" for end in (0, -1))
            parts.append(f"{MAP_TITLES[name]} by {DISTANCE_TITLES[distance]} {first}, {last}")
        guess = percent(float(panel.table["baseline"].mean()), 1)
        said.append(said_of(panel, tested, f"tokens identified: {'; '.join(parts)}; guessing {guess}."))
    return said
