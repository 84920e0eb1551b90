"""Is effective attention the more faithful one? Every method that reads attention, under both, on the same examples."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.analyses.faithfulness import CHANGE, MEASURES
from effective_attention.attributions.comparison import LEVEL
from effective_attention.reports.chapters.faithfulness.reductions import TITLES, in_way, method_title, ways_of
from effective_attention.reports.findings import said_of
from effective_attention.reports.grid import NONE, Grid, number, span
from effective_attention.reports.reductions import one_line, panels

_BETTER = {measure.name: measure.better for measure in MEASURES}
_SAID = ("comprehensiveness", "sufficiency")


def changes_table(table: DataFrame) -> Grid:
    """Return what effective attention changes of each method, a column for each measure; empty where nothing was."""
    found = _changes(table)
    measures = [name for name in TITLES if name in set(found["compared"])]
    rows = []
    for panel in panels(table) if measures else ():
        mine = _changes(panel.table)
        if mine.duplicated(["method", "compared"]).any():
            continue  # several runs: a difference belongs to one
        cells = {(row["method"], row["compared"]): _cell(row) for row in mine.to_dict("records")}
        rows += [
            [one_line(panel.title), method_title(name), *(cells.get((name, measure), NONE) for measure in measures)]
            for name in mine["method"].unique()
        ]
    caption = (
        "Effective less standard attention, last layer, on the same examples: mean difference with its 95 % interval; "
        f"* where p is below {LEVEL}, corrected for all methods of a column (Holm). Of Spearman with random layers, "
        "the difference of absolute values."
    )
    return Grid(caption, ["task", "method", *(TITLES[name] for name in measures)], rows, labels=2)


def found_changes(table: DataFrame) -> list[str]:
    """Say with how many methods effective attention is surely more, or less, faithful by the erasure measures."""
    said = []
    for panel in panels(table):
        changes = _changes(panel.table)
        for measure in _SAID:
            mine = changes[changes["compared"] == measure]
            if not len(mine) or mine["method"].duplicated().any():
                continue
            sign = 1 if _BETTER[measure] == "high" else -1
            sure = mine[mine["p"] < LEVEL]
            better, worse = (
                [method_title(name) for name in sure.loc[side * sign * sure["value"] > 0, "method"]] for side in (1, -1)
            )
            sentence = (
                f"by {TITLES[measure]}, effective attention makes {len(better)} of {len(mine)} methods that read "
                f"attention more faithful{_listed(better)}, {len(worse)} less{_listed(worse)}; of the others neither "
                f"is sure at {LEVEL} (paired bootstrap, Holm)."
            )
            said.append(said_of(panel, table, sentence))
    return said


def _changes(table: DataFrame) -> DataFrame:
    """Return the changes in the first way to erase."""
    if "compared" not in table:
        return DataFrame(columns=["method", "compared"])
    return in_way(table[table["measure"] == CHANGE], *ways_of(table)[:1])


def _cell(row: dict[str, float]) -> str:
    star = "*" if row["p"] < LEVEL else ""
    return f"{number(row['value'])}{star} {span(row['low'], row['high'])}"


def _listed(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""
