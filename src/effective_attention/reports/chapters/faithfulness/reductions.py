"""From the table of ``faithfulness`` to what figures and small tables show: the league of methods, and its order."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.analyses.faithfulness import COST, MEASURES
from effective_attention.attributions.registry import registered

LAYERED = ("raw", "rollout", "flow")
"""The methods that the paper follows layer by layer."""
CORRELATIONS = ("spearman_blank_out", "spearman_gradients")
TITLES = {**{measure.name: measure.title for measure in MEASURES}, COST: "ms per example"}
"""What measures are called, in the order of figures and small tables."""
ARROWS = {**{measure.name: "↑" if measure.better == "high" else "↓" for measure in MEASURES}, COST: "↓"}
"""Which values speak for a method."""
LEAGUE = (*(measure.name for measure in MEASURES if not measure.needs), COST)
"""The measures by which all methods are compared, whatever the data knows of its words."""
WITHOUT = "without"
"""Stands in the column ``attention`` for methods that do not read attention."""


def method_title(method: str) -> str:
    """Return what a method is called in figures and tables; one that has no title keeps its name."""
    titles = {known.name: known.title for known in registered()}
    return titles.get(method, method)


def league(table: DataFrame) -> DataFrame:
    """Return the last layer: a row for each method, attention (or ``without``) and measure.

    Several runs of one setting are averaged.
    """
    rows = table.assign(attention=table["attention"].astype(object).where(table["attention"].notna(), WITHOUT))
    last = rows["layer"].isna() | (rows["layer"] == rows["layer"].max())
    numbers = [name for name in ("value", "std", "low", "high", "count") if name in rows]
    return rows[last].groupby(["method", "attention", "measure"], sort=False)[numbers].mean().reset_index()


def ranking(rows: DataFrame) -> list[str]:
    """Return the league's methods, the most comprehensive first; those not measured come last.

    Of a method on two attentions the better one counts.
    """
    best = rows[rows["measure"] == "comprehensiveness"].groupby("method", sort=False)["value"].max()
    order = best.sort_values(ascending=False, kind="stable").index.tolist()
    return order + [name for name in rows["method"].unique() if name not in order]


def has_layers(table: DataFrame) -> bool:
    """Tell whether any of the methods that are followed layer by layer was compared with blank-out or gradients."""
    return bool((table["method"].isin(LAYERED) & table["measure"].isin(CORRELATIONS)).any())


def has_subjects(table: DataFrame) -> bool:
    """Tell whether the data knew which word decides."""
    return bool((table["measure"] == "subject_first").any())


def preset_of(table: DataFrame) -> str:
    """Return by which protocol a panel was measured; panels of several are never averaged."""
    return str(table["protocol"].iloc[0])
