"""In how many protocols each conclusion is sure, in sentences that turn with the numbers."""

from __future__ import annotations

from pandas import DataFrame

from effective_attention.analyses.protocols import REFERENCES
from effective_attention.reports.chapters.protocols.reductions import (
    CONCLUSIONS,
    PRESET_TITLES,
    REFERENCE_TITLES,
    SURE,
    SURE_NOT,
    Way,
    verdicts,
    ways,
)
from effective_attention.reports.findings import listed, said_of
from effective_attention.reports.reductions import attentions, panels


def found_protocols(table: DataFrame) -> list[str]:
    """Say for each attention in how many protocols each conclusion holds, and what the two presets say."""
    said = []
    for panel in panels(table):
        found = ways(panel.table)
        for kind in attentions(panel.table):
            parts = [_counted(verdicts(found, kind, difference), name) for difference, name in CONCLUSIONS.items()]
            parts = [part for part in parts if part]
            said += [said_of(panel, table, f"{kind} attention, last layer: {'; '.join(parts)}.")] if parts else []
            said += [said_of(panel, table, sentence) for sentence in _presets(found, kind)]
    return said


def _counted(found: dict[Way, str], name: str) -> str:
    """Count the protocols in which one method is surely above another, and surely below it."""
    if not found:
        return ""
    answers = list(found.values())
    sure, against, every = answers.count(SURE), answers.count(SURE_NOT), len(answers)
    if sure == every:
        return f"{name} surely by all {every} protocols"
    if against == every:
        return f"{name} surely not by any of {every} protocols"
    return f"{name} surely by {sure} of {every} protocols, surely not by {against}"


def _presets(found: dict[Way, DataFrame], kind: str) -> list[str]:
    """Say where our protocol and that of the paper's code answer otherwise."""
    every = {difference: verdicts(found, kind, difference) for difference in CONCLUSIONS}
    said = []
    for reference in REFERENCES:
        parts = []
        for difference, answers in every.items():
            mine = {way.preset: said for way, said in answers.items() if way.reference == reference and way.preset}
            ours, theirs = (mine.get(title) for title in PRESET_TITLES.values())
            if ours is not None and theirs is not None and ours != theirs:
                parts.append(f"{CONCLUSIONS[difference]} {ours} by ours, {theirs} by the paper's code")
        front = f"{kind} attention, with {REFERENCE_TITLES[reference]}"
        said += [f"{front} the presets disagree: {listed(parts)}."] if parts else []
    return said
