"""The small table of ``protocols``: by which protocols is which conclusion sure?"""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapters.protocols.reductions import (
    CONCLUSIONS,
    OPEN,
    REFERENCE_TITLES,
    SURE,
    SURE_NOT,
    Way,
    verdict,
    verdicts,
    ways,
)
from effective_attention.reports.grid import NONE, Grid
from effective_attention.reports.reductions import attentions, one_line, panels

_FRONT = ["task", "reference", "gradient", "attention", "ties", "ranked", "preset"]
_CAPTION = (
    "Last layer: is one method's agreement above another's? By the paired 95 % interval of the difference; the last "
    "rows count the protocols."
)


def conclusions(table: DataFrame) -> Grid:
    """Return a row for each protocol, a column for each conclusion and attention, and how often each holds."""
    kinds = attentions(table)
    columns = [(kind, difference) for kind in kinds for difference in CONCLUSIONS]
    rows = []
    for panel in panels(table):
        title, found = one_line(panel.title), ways(panel.table)
        for way, numbers in found.items():
            said = [verdict(numbers, kind, difference) or NONE for kind, difference in columns]
            rows.append([*_front(title, way), *said])
        every = [list(verdicts(found, kind, difference).values()) for kind, difference in columns]
        for answer in (SURE, SURE_NOT, OPEN):
            counts = [f"{one.count(answer)} of {len(one)}" for one in every]
            rows.append([title, "in how many", *[NONE] * 4, answer, *counts])
    groups = [("", len(_FRONT)), *((f"{kind} attention", len(CONCLUSIONS)) for kind in kinds)]
    names = [CONCLUSIONS[difference] for _, difference in columns]
    prose = frozenset(range(len(_FRONT), len(_FRONT) + len(names)))
    return Grid(_CAPTION, [*_FRONT, *names], rows, groups=groups, prose=prose, labels=len(_FRONT))


def _front(title: str, way: Way) -> list[str]:
    words = way.words if way.gradient else [NONE, *way.words]
    return [title, REFERENCE_TITLES[way.reference], *words, way.preset or NONE]
