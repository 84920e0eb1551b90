"""Does the verdict depend on how tokens are erased? Shown where a run erased them in several ways."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapters.faithfulness.reductions import (
    WITHOUT,
    in_way,
    league,
    method_title,
    ranking,
    ways_of,
)
from effective_attention.reports.chapters.faithfulness.tables import interval
from effective_attention.reports.findings import said_of
from effective_attention.reports.grid import NONE, Grid
from effective_attention.reports.reductions import one_line, panels

_MEASURE = "comprehensiveness"
_ERASED = {"delete": "deleted", "blank": "blanked", "hide": "hidden"}


def ways_table(table: DataFrame) -> Grid:
    """Return every method's comprehensiveness for each way to erase, in the order of the first; no rows of one way."""
    ways = ways_of(table)
    rows = []
    for panel in panels(table) if len(ways) > 1 else ():
        found = [league(in_way(panel.table, way)).set_index(["method", "attention", "measure"]) for way in ways]
        mine = found[0].reset_index()
        mine = mine[mine["measure"] == _MEASURE]
        for method in ranking(mine):
            for kind in mine.loc[mine["method"] == method, "attention"]:
                cells = [interval(one, (method, kind, _MEASURE)) for one in found]
                rows.append([one_line(panel.title), method_title(method), NONE if kind == WITHOUT else kind, *cells])
    columns = ["task", "method", "attention", *map(way_title, ways)]
    return Grid(f"Ways to erase, last layer: {_MEASURE} with its 95 % interval.", columns, rows, labels=3)


def found_erasures(table: DataFrame) -> list[str]:
    """Say which method is most comprehensive by each way to erase, where there are several."""
    ways = ways_of(table)
    said = []
    for panel in panels(table) if len(ways) > 1 else ():
        best = {way_title(way): method_title(_best(in_way(panel.table, way))) for way in ways}
        names = "; ".join(f"{title}: {name}" for title, name in best.items())
        word = "the same" if len(set(best.values())) == 1 else "not the same"
        said.append(said_of(panel, table, f"the most comprehensive method is {word} for all ways to erase ({names})."))
    return said


def _best(table: DataFrame) -> str:
    rows = league(table)
    rows = rows[(rows["measure"] == _MEASURE) & (rows["method"] != "random")]
    return ranking(rows)[0] if len(rows) else NONE


def way_title(way: tuple[str, str]) -> str:
    """Return what a way to erase is called.

    >>> way_title(("token", "delete"))
    'tokens deleted'
    """
    return f"{way[0]}s {_ERASED.get(way[1], way[1])}"
