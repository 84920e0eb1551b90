"""What the exemplars say in a sentence: which head is set off most, by what."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.reports.chapters.exemplars.reductions import ExemplarText, exemplar_texts
from effective_attention.reports.findings import head_name, layer_place, said_of
from effective_attention.reports.grid import number
from effective_attention.reports.reductions import attentions, panels


def found_exemplars(table: DataFrame) -> list[str]:
    """Say for each attention which head has the largest weight of all, between which words, and how deep it is."""
    said = []
    for panel in panels(table) if len(table) else ():
        for kind in attentions(panel.table):
            found = exemplar_texts(panel.table[panel.table["attention"] == kind])
            best = max(found, key=lambda exemplar: exemplar.score, default=None)
            if best is not None:
                last = max(exemplar.layer for exemplar in found)
                said.append(
                    said_of(panel, table, f"{kind} attention: {_pair(best)} ({layer_place(best.layer, last)}).")
                )
    return said


def _pair(exemplar: ExemplarText) -> str:
    looking = next((word.text for word in exemplar.words if word.query), "?")
    looked_at = max(exemplar.words, key=lambda word: (not word.special, word.value)).text
    head = head_name(exemplar.layer, exemplar.head)
    return f"the largest weight is {number(exemplar.score)}, of {head}, from “{looking}” to “{looked_at}”"
