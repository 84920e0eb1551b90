"""The report's contents: for each analysis what was asked, on which data, figures, small tables and the full table."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pandas import DataFrame

from effective_attention.io import csv_text
from effective_attention.reports.chapter import Chapter, Drawing, Highlights
from effective_attention.reports.chapters import all_chapters
from effective_attention.reports.drawing.files import figure_bytes
from effective_attention.reports.grid import Grid
from effective_attention.reports.reductions import Panel, one_line, panels, task_title
from effective_attention.reports.runs import RunResults
from effective_attention.reports.scores import run_fact, scores

_SVG_WIDTH = re.compile(rb'<svg [^>]*?width="([\d.]+)pt"')  # as matplotlib writes it
_POINTS = 72  # an inch
_MOST_ROWS = 60  # of a full table on the page
_MOST_BYTES = 400_000  # of a table inside the page as CSV
_DATA = {"sample": "the embedded sample", "local": "local files", "hub": "the Hugging Face hub"}
_OWN_TEXT = "text"  # of a run on a text of the user's
_PADDED = "as published, with padding inside the null space"


@dataclass(frozen=True)
class Picture:
    """A figure inside the page; it never gets narrower than ``least`` CSS pixels, its box scrolls instead."""

    source: str
    alt: str
    caption: str
    least: int
    most: int


@dataclass(frozen=True)
class FullTable:
    """The beginning of an analysis' table, and the whole as a link (None if too long for the page)."""

    name: str
    columns: list[str]
    rows: list[list[str]]
    length: int
    link: str | None


@dataclass(frozen=True)
class Section:
    identifier: str
    title: str
    paper: str
    text: str
    measured: str
    remarks: list[str]
    pictures: list[Picture]
    grids: list[Grid]
    full: FullTable | None
    highlights: list[Highlights] = field(default_factory=list)


def overview(runs: Sequence[RunResults]) -> dict[str, Any]:
    """Collect the report's title, the runs, and what a reader must know of them."""
    tasks = list(dict.fromkeys(task_title(str(run.facts.get("run/task", "?"))) for run in runs))
    told = [str(run.facts["run/note"]) for run in runs if run.facts.get("run/note")]
    notes = {
        note.partition(";")[0]: note for note in reversed(told)
    }  # beyond the first words they differ in the task only
    names = ("task", "model", "data", "seed", "checkpoint")
    rows = [[*(run_fact(run.facts, name) for name in names), _examples(run.facts), run.name] for run in runs]
    used = [column for column in range(len(names) + 2) if any(row[column] for row in rows)]
    columns = [*names, "examples", "folder"]
    grid = Grid(
        "Runs in this report.", [columns[c] for c in used], [[row[c] for c in used] for row in rows], labels=len(used)
    )
    return {"title": ", ".join(tasks), "notes": list(notes.values()), "runs": grid, "explorers": _explorers(runs)}


def _explorers(runs: Sequence[RunResults]) -> list[tuple[str, str]]:
    """List the interactive pages of the runs: name, and place beside the report."""
    with_page = [run for run in runs if "explorer" in run.tables]
    return [
        (run.name or task_title(str(run.facts.get("run/task", "?"))), quote(str(Path(run.name) / "explorer.html")))
        for run in with_page
    ]


def _examples(facts: Mapping[str, Any]) -> str:
    """Write the number of examples, such as ``validation 408``; of training only if there is nothing else."""
    counts = [name for name in facts if name.startswith("data/") and name.endswith("/examples")]
    splits = {name.split("/")[1]: facts[name] for name in counts}
    tested = {name: count for name, count in splits.items() if name != "train"} or splits
    return ", ".join(f"{name} {count}" for name, count in tested.items())


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
    return found + [_section(chapter, tables, figures) for chapter in (*known, *plain)]


def _scores(facts: Sequence[Mapping[str, Any]]) -> Section:
    counts = dict.fromkeys(f"{task_title(str(fact.get('run/task')))}: {_examples(fact)}" for fact in facts)
    models = " and ".join(dict.fromkeys(str(fact.get("run/model")) for fact in facts))
    text = "The same weights, tested under each attention. Effective attention must change nothing but the time."
    said = f"Measured on examples of {'; '.join(counts)}; model {models}."
    return Section("scores", "Scores", "§3", text, said, [], [], [scores(facts)], None)


def _section(chapter: Chapter, tables: Mapping[str, DataFrame], figures: Path | None) -> Section:
    name = chapter.analysis
    table = tables[chapter.analysis]
    made = [make(table) for make in chapter.tables]
    made += [] if chapter.across is None else [chapter.across(tables)]
    grids = [grid for grid in made if grid.rows]  # what was not asked for has no rows
    remarks = [*([chapter.paper_says] if chapter.paper_says else []), *chapter.remarks(table)]
    drawn = [drawing for drawing in chapter.figures if drawing.on_page and drawing.can_draw(table)]
    pictures = [_picture(drawing, table, figures) for drawing in drawn]
    words = (name, chapter.title, chapter.source, chapter.text, measured(table), remarks)
    return Section(*words, pictures, grids, _full(name, table), chapter.highlights(table))


def measured(table: DataFrame) -> str:
    """Say in one sentence on which tasks, splits, numbers of examples, model and data the rows were measured."""
    if "text" in table:
        return _of_a_text(table)
    found = panels(table)
    splits = " and ".join(map(str, table["split"].unique()))
    if set(table["data"]) == {_OWN_TEXT}:
        examples = f"the text given with text= ({', '.join(one_line(panel.title) for panel in found)})"
    elif table["examples"].max() == 1:
        examples = f"one {splits} example ({', '.join(one_line(panel.title) for panel in found)})"
    else:
        examples = f"{splits} examples ({', '.join(_count(panel, 'examples') for panel in found)})"
    states = ["pretrained" if empty else "finetuned" for empty in (table["checkpoint"].fillna("") == "").unique()]
    models = f"{' and '.join(map(str, table['model'].unique()))} ({' and '.join(states)})"
    sources = [_DATA.get(str(name), str(name)) for name in table["data"].unique() if name != _OWN_TEXT]
    data = f", data from {' and '.join(sources)}" if sources else ""
    return f"Measured on {examples}, {models}{data}{_reading(table, found)}."


def _of_a_text(table: DataFrame) -> str:
    texts = "; ".join(f"“{text}”" for text in table["text"].unique())
    return f"Read from the text {texts} by {' and '.join(map(str, table['model'].unique()))} (pretrained)."


def _count(panel: Panel, column: str) -> str:
    """Write a panel's title and count, such as ``MRPC 408`` or ``MRPC 408, mean of 3 runs``."""
    runs = panel.table["run"].nunique() if "run" in panel.table else 1
    mean = f", mean of {runs} runs" if runs > 1 else ""
    return f"{one_line(panel.title)} {int(panel.table[column].max())}{mean}"


def _reading(table: DataFrame, found: Sequence[Panel]) -> str:
    """Say how effective attention was read, where that is not the exact reading; else return an empty text."""
    readings = list(table["reading"].dropna().unique()) if "reading" in table else []
    if "padded" not in readings:
        return ""
    if "exact" not in readings:
        return f"; effective attention read {_PADDED}"
    text = f"; effective attention read exactly, and {_PADDED}"
    if "exact_subset" in readings and "count" in table:
        subsets = [replace(panel, table=panel.table[panel.table["reading"] == "padded"]) for panel in found]
        counts = [_count(panel, "count") for panel in subsets if len(panel.table)]
        text += f", the two compared on the same examples ({', '.join(counts)})"
    return text


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


def _full(name: str, table: DataFrame) -> FullTable:
    whole = table.drop(columns="run", errors="ignore")
    head = whole.head(_MOST_ROWS)
    rows = [[_cell(value) for value in row] for row in head.astype(object).to_numpy()]
    return FullTable(name, [str(column) for column in whole.columns], rows, len(whole), _csv_link(whole))


def _csv_link(table: DataFrame) -> str | None:
    """Return the whole table as a link; None where it is too long for the page, which is seen without writing it."""
    if table.size > _MOST_BYTES // 2:  # a cell and its comma
        return None
    csv = csv_text(table)
    return f"data:text/csv;charset=utf-8,{quote(csv)}" if len(csv.encode()) <= _MOST_BYTES else None


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return "" if value is None or str(value) == "<NA>" else str(value)
