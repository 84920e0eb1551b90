"""From the table of ``faithfulness`` to what figures and small tables show: the league of methods, and its order."""

from __future__ import annotations

from pandas import DataFrame, Series

from effective_attention.analyses.faithfulness import COST, MEASURES
from effective_attention.attributions.registry import registered

LAYERED = ("raw", "rollout", "flow")
"""The methods that the paper follows layer by layer."""
CORRELATIONS = ("spearman_blank_out", "spearman_gradients")
TITLES = {**{measure.name: measure.title for measure in MEASURES}, COST: "ms per example"}
"""What measures are called, in the order of figures and small tables."""
_ARROWS = {"high": "↑", "low": "↓", "zero": "→ 0"}
ARROWS = {**{measure.name: _ARROWS[measure.better] for measure in MEASURES}, COST: "↓"}
"""Which values speak for a method."""
LEAGUE = (*(measure.name for measure in MEASURES if measure.part == "league"), COST)
"""The measures by which all methods are compared, whatever the data knows of its words."""
CHECKS = tuple(measure.name for measure in MEASURES if measure.part == "checks")
"""Measures that test the others: against the empty text, a model that has learnt nothing, the same pair exchanged."""
TRUTH = tuple(measure.name for measure in MEASURES if measure.part == "truth")
"""Measures of whether a method finds the word that decides."""
POINTING = tuple(name for name in TRUTH if name != "subject_first")
"""Those that do not ask for attractors."""
WITHOUT = "without"
"""Stands in the column ``attention`` for methods that do not read attention."""


def method_title(method: str) -> str:
    """Return what a method is called in figures and tables; one that has no title keeps its name."""
    titles = {known.name: known.title for known in registered()}
    return titles.get(method, method)


def league(table: DataFrame) -> DataFrame:
    """Return the last layer: a row for each method, attention (or ``without``) and measure, erased in the first way.

    Several runs of one setting are averaged.
    """
    table = in_way(table[table["measure"].isin(TITLES)], *ways_of(table)[:1])
    rows = table.assign(attention=named(table["attention"]))
    last = rows["layer"].isna() | (rows["layer"] == rows["layer"].max())
    numbers = [name for name in ("value", "std", "low", "high", "count") if name in rows]
    return rows[last].groupby(["method", "attention", "measure"], sort=False)[numbers].mean().reset_index()


def named(attention: Series) -> Series:
    """Write ``without`` where no attention is read."""
    return attention.astype(object).where(attention.notna(), WITHOUT)


def ways_of(table: DataFrame) -> list[tuple[str, str]]:
    """Return the ways to erase that a table has, in its order: the unit, and what becomes of it."""
    if "erase" not in table:
        return []
    found = table[["unit", "erase"]].dropna().drop_duplicates()
    return list(found.itertuples(index=False, name=None))


def in_way(table: DataFrame, way: tuple[str, str] | None = None) -> DataFrame:
    """Leave out what was erased in another way; None: nothing was erased."""
    if way is None:
        return table
    return table[table["erase"].isna() | ((table["unit"] == way[0]) & (table["erase"] == way[1]))]


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


def has_checks(table: DataFrame) -> bool:
    """Tell whether any check of the measures, or of the methods, was made."""
    return bool(table["measure"].isin(CHECKS).any())


def has_pointing(table: DataFrame) -> bool:
    """Tell whether the data knew which word decides, and scores were held against it."""
    return bool(table["measure"].isin(POINTING).any())


def has_subjects(table: DataFrame) -> bool:
    """Tell whether the data knew which word decides."""
    return bool((table["measure"] == "subject_first").any())


def preset_of(table: DataFrame) -> str:
    """Return by which protocol a panel was measured; panels of several are never averaged."""
    return str(table["protocol"].iloc[0])
