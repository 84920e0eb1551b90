"""What the league says in sentences; two methods are told apart only where their intervals are."""

from __future__ import annotations

from pandas import DataFrame, Series

from effective_attention.reports.chapters.faithfulness.reductions import CORRELATIONS, WITHOUT, league, method_title
from effective_attention.reports.findings import said_of
from effective_attention.reports.grid import number
from effective_attention.reports.reductions import panels

_NAMES = {"spearman_blank_out": "blank-out", "spearman_gradients": "gradients"}


def found_faithfulness(table: DataFrame) -> list[str]:
    """Say which method is most comprehensive, and whether rollout or flow is closer to the references than raw."""
    said = []
    for panel in panels(table):
        rows = league(panel.table)
        said += [said_of(panel, table, sentence) for sentence in (*_best(rows), *_against_raw(rows))]
    return said


def _best(rows: DataFrame) -> list[str]:
    """Name the most comprehensive method, whether it is told apart from the next and from a random ranking."""
    found = rows[(rows["measure"] == "comprehensiveness") & rows["value"].notna() & (rows["method"] != "random")]
    ordered = [row for _, row in found.sort_values("value", ascending=False, kind="stable").iterrows()]
    if not ordered:
        return []
    best = ordered[0]
    said = f"most comprehensive is {_name(best)}: {_number(best)}"
    said += (
        f"; next is {_name(ordered[1])}, {_number(ordered[1])}{_apart(best, ordered[1])}" if len(ordered) > 1 else ""
    )
    chance = rows[(rows["measure"] == "comprehensiveness") & (rows["method"] == "random")]
    said += f"; a random ranking, {_number(chance.iloc[0])}{_apart(best, chance.iloc[0])}" if len(chance) else ""
    return [f"{said}."]


def _against_raw(rows: DataFrame) -> list[str]:
    """Compare rollout and flow with raw attention, by each reference and attention."""
    said = []
    for measure in CORRELATIONS:
        mine = rows[rows["measure"] == measure].set_index(["attention", "method"])["value"]
        for kind in (kind for kind in ("standard", "effective") if (kind, "raw") in mine.index):
            others = [name for name in ("rollout", "flow") if (kind, name) in mine.index]
            raw = mine[kind, "raw"]
            words = [
                f"{name} is {'closer' if mine[kind, name] > raw else 'no closer'} ({mine[kind, name]:.2f})"
                for name in others
            ]
            front = f"{kind} attention, Spearman with {_NAMES[measure]}: raw {raw:.2f}"
            said += [f"{front}; {', '.join(words)}."] if words else []
    return said


def _name(row: Series) -> str:
    kind = "" if row["attention"] == WITHOUT else f" on {row['attention']} attention"
    return f"{method_title(str(row['method']))}{kind}"


def _number(row: Series) -> str:
    interval = f" [{number(row['low'])}, {number(row['high'])}]" if row["low"] == row["low"] else ""
    return f"{number(row['value'])}{interval}"


def _apart(first: Series, second: Series) -> str:
    """Say that two are not told apart where their intervals overlap, or there are none."""
    return "" if first["low"] > second["high"] else " (not told apart by their intervals)"
