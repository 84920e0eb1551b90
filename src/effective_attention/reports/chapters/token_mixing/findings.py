"""What ``token_mixing`` found, in sentences."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapters.token_mixing.reductions import own
from effective_attention.reports.findings import percent, said_of
from effective_attention.reports.reductions import by_layer, panels


def found_mixing(table: DataFrame) -> list[str]:
    """Say what a token's own input contributes at both ends of the model, and where it is not the largest."""
    said = []
    for panel in panels(table):
        rows = own(panel.table)
        medians = by_layer(rows[rows["statistic"] == "median"])
        others = by_layer(panel.table[panel.table["quantity"] == "not_largest"])
        if len(medians):
            first, last = (f"{percent(medians.iloc[end], 1)} after layer {medians.index[end]}" for end in (0, -1))
            word = "falls" if medians.iloc[-1] < medians.iloc[0] else "does not fall"
            said.append(said_of(panel, table, f"a token's own contribution {word}: median {first}, {last}."))
        if len(others):
            most = int(others.idxmax())
            sentence = f"it is not the largest for up to {percent(others.max())} of the tokens (layer {most})."
            none = "it is always the largest."
            said.append(said_of(panel, table, sentence if others.max() > 0 else none))
    return said
