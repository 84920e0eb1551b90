"""The report's beginning: its title, the runs it is about, and what a reader must know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from effective_attention.reports.findings import listed
from effective_attention.reports.grid import Grid
from effective_attention.reports.paths import from_here, without_folders
from effective_attention.reports.reductions import task_title
from effective_attention.reports.runs import RunResults
from effective_attention.reports.scores import run_fact

_NAMES = ("task", "model", "data", "seed", "checkpoint")


def overview(runs: Sequence[RunResults]) -> dict[str, Any]:
    """Collect the report's title, the runs, and what a reader must know of them."""
    tasks = list(dict.fromkeys(task_title(str(run.facts.get("run/task", "?"))) for run in runs))
    told = [without_folders(str(run.facts["run/note"])) for run in runs if run.facts.get("run/note")]
    notes = {
        note.partition(";")[0]: note for note in reversed(told)
    }  # beyond the first words they differ in the task only
    said = [*notes.values(), *_warning(random_heads([run.facts for run in runs]), len(tasks))]
    return {"title": ", ".join(tasks), "notes": said, "runs": _runs(runs), "explorers": _explorers(runs)}


def random_heads(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the tasks whose classification head was never trained; a run that does not say so is not one of them."""
    tasks = [task_title(str(facts.get("run/task", "?"))) for facts in runs if facts.get("run/head") == "random"]
    return list(dict.fromkeys(tasks))


def _warning(tasks: Sequence[str], of: int) -> list[str]:
    whose = f" of {listed(tasks)}" if len(tasks) < of else ""
    said = f"the classification head{whose} is random: it was never trained, so predictions and scores mean nothing."
    return [f"{said} What is said of the encoder's attention does not depend on it."] if tasks else []


def _runs(runs: Sequence[RunResults]) -> Grid:
    rows = [
        [*(run_fact(run.facts, name) for name in _NAMES), examples_of(run.facts), from_here(run.name)] for run in runs
    ]
    used = [column for column in range(len(_NAMES) + 2) if any(row[column] for row in rows)]
    columns = [*_NAMES, "examples", "folder"]
    cells = [[row[column] for column in used] for row in rows]
    return Grid("Runs in this report.", [columns[column] for column in used], cells, labels=len(used))


def _explorers(runs: Sequence[RunResults]) -> list[tuple[str, str]]:
    """List the interactive pages of the runs: name, and place beside the report."""
    with_page = [run for run in runs if "explorer" in run.tables]
    return [
        (
            from_here(run.name) or task_title(str(run.facts.get("run/task", "?"))),
            quote(str(Path(run.name) / "explorer.html")),
        )
        for run in with_page
    ]


def examples_of(facts: Mapping[str, Any]) -> str:
    """Write the number of examples, such as ``validation 408``; of training only if there is nothing else."""
    counts = [name for name in facts if name.startswith("data/") and name.endswith("/examples")]
    splits = {name.split("/")[1]: facts[name] for name in counts}
    tested = {name: count for name, count in splits.items() if name != "train"} or splits
    return ", ".join(f"{name} {count}" for name, count in tested.items())
