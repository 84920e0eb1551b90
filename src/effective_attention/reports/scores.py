"""The report's first table: scores and time of every run under each attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from effective_attention.reports.grid import NONE, Grid, number, span, without_empty_columns
from effective_attention.reports.paths import without_folders
from effective_attention.reports.reductions import task_title
from effective_attention.reports.sweep import NOT_SCORES


def scores(runs: Sequence[Mapping[str, Any]]) -> Grid:
    """Make a table with one row per run and attention: the task's metrics, and what the attention changed."""
    settings = [name for name in ("seed", "checkpoint") if _differs(runs, name)]
    rows = []
    for facts in runs:
        kinds = dict.fromkeys(name.split("/")[1] for name in facts if name.startswith("test/"))
        front = [task_title(str(facts.get("run/task", ""))), *(run_fact(facts, name) for name in settings)]
        rows += [[*front, kind, *_score_cells(facts, f"test/{kind}/")] for kind in kinds]
    columns = ["task", *settings, "attention", "score", "changed predictions", "largest logit difference"]
    columns += ["change of a head's output", "heads with a null space", "seconds", "ratio", "quartiles"]
    return without_empty_columns(Grid("Scores and time under each attention.", columns, rows, labels=3 + len(settings)))


def _differs(runs: Sequence[Mapping[str, Any]], setting: str) -> bool:
    """Tell whether runs of one task differ in a setting."""
    found = {(facts.get("run/task"), facts.get(f"run/{setting}")) for facts in runs}
    return len(found) > len({task for task, _ in found})


def run_fact(facts: Mapping[str, Any], name: str) -> str:
    """Return what a run says of itself, such as its seed or its checkpoint; empty where it says nothing."""
    value = facts.get(f"run/{name}")
    if value is None and name == "checkpoint":
        return "trained in this run" if "val/loss" in facts else "none: pretrained"
    return "" if value is None else without_folders(str(value))


def _score_cells(facts: Mapping[str, Any], prefix: str) -> list[str]:
    mine = {name.removeprefix(prefix): value for name, value in facts.items() if name.startswith(prefix)}
    metrics = ", ".join(f"{name} {number(value)}" for name, value in mine.items() if name not in NOT_SCORES)
    return [
        metrics or NONE,
        number(mine.get("changed_predictions"), 0),
        number(mine.get("max_logit_difference")),
        number(mine.get("output_change")),
        number(mine.get("null_space_share")),
        number(mine.get("seconds"), 1),
        number(mine.get("seconds_ratio"), 2),
        span(mine.get("seconds_ratio_low"), mine.get("seconds_ratio_high"), 2),
    ]


def scores_found(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say whether effective attention changed an answer, and what padding inside the null space changes."""
    return [*_changed(runs, "effective", "effective attention"), *_changed(runs, "padded", "the padded reading")]


def _changed(runs: Sequence[Mapping[str, Any]], kind: str, name: str) -> list[str]:
    """Say in which tasks predictions change (where there are classes), and by how much logits do at most."""
    tested = [facts for facts in runs if facts.get(f"test/{kind}/max_logit_difference") is not None]
    if not tested:
        return []
    counts = {task_title(str(facts.get("run/task"))): facts.get(f"test/{kind}/changed_predictions") for facts in tested}
    moved = [f"{count} in {task}" for task, count in counts.items() if count]
    answers = f"{name} changes predictions: {', '.join(moved)}" if moved else f"{name} changes no prediction"
    largest = number(max(facts[f"test/{kind}/max_logit_difference"] for facts in tested))
    return [f"{answers[0].upper()}{answers[1:]}; no logit changes by more than {largest}."]
