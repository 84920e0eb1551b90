"""The report's chapters, ready for the page: the question, figures, small tables, the answer and the full table."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pandas import DataFrame

from effective_attention.reports.chapter import Chapter, Drawing, Highlights
from effective_attention.reports.chapters import all_chapters
from effective_attention.reports.drawing.files import figure_bytes
from effective_attention.reports.findings import listed
from effective_attention.reports.full_table import FullTable, full_table
from effective_attention.reports.grid import Grid
from effective_attention.reports.intervals import interval_table
from effective_attention.reports.measured import behind, measured
from effective_attention.reports.overview import examples_of, random_heads
from effective_attention.reports.reductions import panels, task_title
from effective_attention.reports.runs import RunResults
from effective_attention.reports.scores import run_fact, scores, scores_found

_SVG_WIDTH = re.compile(rb'<svg [^>]*?width="([\d.]+)pt"')  # as matplotlib writes it
_POINTS = 72  # an inch


@dataclass(frozen=True)
class Picture:
    """A figure inside the page; it never gets narrower than ``least`` CSS pixels, its box scrolls instead."""

    source: str
    alt: str
    caption: str
    least: int
    most: int


@dataclass(frozen=True)
class Section:
    """One chapter of the page.

    ``ours`` are the sentences made from these runs' numbers, ``behind`` says on how much they rest, ``theirs`` is what
    the paper found.
    """

    identifier: str
    title: str
    paper: str
    question: str
    text: str
    measured: str
    remarks: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    highlights: list[Highlights] = field(default_factory=list)
    ours: list[str] = field(default_factory=list)
    behind: str = ""
    theirs: str = ""
    full: FullTable | None = None


def sections(runs: Sequence[RunResults], tables: Mapping[str, DataFrame], figures: Path | None) -> list[Section]:
    """Make the sections: scores first, then each analysis that has a table, in the order of the chapters.

    A table that no chapter speaks of (of a user's own analysis, read by a process that has not loaded it) is shown as
    it is.
    """
    facts = [run.facts for run in runs]
    found = [_scores(facts)] if any(name.startswith("test/") for fact in facts for name in fact) else []
    known = [chapter for chapter in all_chapters() if chapter.analysis in tables]
    others = [name for name in tables if name not in {chapter.analysis for chapter in known}]
    plain = [Chapter(name, name.replace("_", " ").capitalize(), "", "") for name in others]
    caution = _caution(facts)
    return found + [_section(chapter, tables, figures, facts, caution) for chapter in (*known, *plain)]


def _caution(facts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what a random classification head means for numbers that depend on it; nothing where none is."""
    tasks = random_heads(facts)
    where = listed(tasks) if len(tasks) < len({fact.get("run/task") for fact in facts}) else "these runs"
    return (
        [f"The classification head is random in {where}: these numbers depend on it and mean nothing."] if tasks else []
    )


def _scores(facts: Sequence[Mapping[str, Any]]) -> Section:
    counts = dict.fromkeys(f"{task_title(str(fact.get('run/task')))}: {examples_of(fact)}" for fact in facts)
    models = " and ".join(dict.fromkeys(run_fact(fact, "model") for fact in facts))
    return Section(
        "scores",
        "Scores",
        "Sun & Marasović 2021, §3",
        "Does the model answer the same when only effective attention is kept?",
        "The same weights, tested under each attention. Effective attention must change nothing but the time.",
        f"Measured on examples of {'; '.join(counts)}; model {models}.",
        grids=[made for made in (scores(facts), interval_table("test", facts)) if made.rows],
        ours=scores_found(facts) + _caution(facts),
        theirs="Sun & Marasović, after Brunner et al. (2020), define effective attention so that the output stays.",
    )


def _section(
    chapter: Chapter,
    tables: Mapping[str, DataFrame],
    figures: Path | None,
    facts: Sequence[Mapping[str, Any]],
    caution: list[str],
) -> Section:
    table = tables[chapter.analysis]
    made = [make(table) for make in chapter.tables]
    made += [] if chapter.across is None else [chapter.across(tables)]
    made += [] if chapter.scalars is None else [interval_table(chapter.scalars.prefix, facts)]
    drawn = [drawing for drawing in chapter.figures if drawing.on_page and drawing.can_draw(table)]
    ours = chapter.found(table)
    return Section(
        chapter.analysis,
        chapter.title,
        chapter.source,
        chapter.question,
        chapter.text,
        measured(table),
        chapter.remarks(table),
        [_picture(drawing, table, figures) for drawing in drawn],
        [grid for grid in made if grid.rows],  # what was not asked for has no rows
        chapter.highlights(table),
        ours + (caution if chapter.needs_head and ours else []),
        behind(table),
        chapter.paper_says,
        full_table(chapter.analysis, table),
    )


def _picture(drawing: Drawing, table: DataFrame, figures: Path | None) -> Picture:
    name = drawing.name
    caption = drawing.caption
    if figures is None:
        drawn = figure_bytes(drawing.draw(table), "svg", salt=name)
    else:
        drawn = (figures / f"{name}.svg").read_bytes()
    encoded = base64.b64encode(drawn).decode()
    tasks = ", ".join(panel.title.replace("\n", " ") for panel in panels(table))
    inches = float(_SVG_WIDTH.search(drawn)[1]) / _POINTS  # type: ignore[index]
    source = f"data:image/svg+xml;base64,{encoded}"
    return Picture(source, f"{caption} Tasks: {tasks}.", caption, int(92 * inches), int(128 * inches))
