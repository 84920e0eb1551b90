"""What many runs found: one row per setting, mean and standard deviation over its seeds, standard beside effective.

Imports nothing heavy, because Hydra imports what a sweep calls at start-up.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from effective_attention.io import csv_cell, write_text
from effective_attention.reports.runs import recorded_options

Metrics = dict[str, Any]
Row = dict[str, str]
_KEYS = ("task", "model", "data", "setting")
_COMMON = {  # what every task has, beside its scores: title and digits
    "seconds": ("seconds", 1),
    "examples_per_second": ("examples/s", 0),
    "seconds_ratio": ("ratio", 2),
    "output_change": ("output change", 3),
}
_QUARTILES = ("seconds_ratio_low", "seconds_ratio_high")
_DIFFERENCE = "max_logit_difference"
_NOT_SHOWN = ("changed_predictions", "null_space_share", "max_output_change", "timed_batches")
NOT_SCORES = frozenset((*_COMMON, *_QUARTILES, _DIFFERENCE, *_NOT_SHOWN))
"""What testing measures beside the task's own metrics."""


def with_settings(found: Mapping[Path, Metrics]) -> list[tuple[str, Metrics]]:
    """Put beside the facts of each run what was varied in its options, apart from task and seed."""
    overrides = [_overrides(path) for path in found]
    shared = set.intersection(*map(set, overrides)) if overrides else set()
    runs = []
    for facts, texts in zip(found.values(), overrides, strict=True):
        varied = [text for text in texts if text not in shared and not text.startswith(("seed=", "task="))]
        runs.append((" ".join(varied), facts))
    return runs


def _overrides(run: Path) -> list[str]:
    """Read what a run's command line changed; nothing where that was not written down."""
    recorded = recorded_options(run)
    if recorded is not None:
        return [str(text) for text in recorded]
    path = run / ".hydra" / "overrides.yaml"
    if not path.is_file():
        return []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the compiled one is ten times faster, where there is one
    return [str(text) for text in yaml.load(path.read_text(encoding="utf-8"), loader) or []]


def write_summary(found: Mapping[Path, Metrics], *, to: Path) -> list[Row]:
    """Write ``summary.csv`` and ``summary.md`` of runs, by folder, into ``to``; return the rows."""
    rows = summarise(with_settings(found))
    if rows:
        write_text(to / "summary.csv", to_csv(rows))
        write_text(to / "summary.md", to_markdown(rows))
    return rows


def summarise(runs: Sequence[tuple[str, Metrics]]) -> list[Row]:
    """Summarise the runs that were tested, with one row for each (task, model, data, setting, attention)."""
    groups: dict[tuple[str, str, str, str], list[Metrics]] = defaultdict(list)
    for setting, metrics in runs:
        if not any(name.startswith("test/") for name in metrics):
            continue  # of a text of the user's
        groups[metrics["run/task"], metrics["run/model"], metrics["run/data"], setting].append(metrics)
    return [row for key, members in groups.items() for row in _rows(key, members)]


def _rows(key: tuple[str, str, str, str], members: list[Metrics]) -> list[Row]:
    kinds = list(dict.fromkeys(name.split("/")[1] for name in members[0] if name.startswith("test/")))
    return [_row(key, kind, members) for kind in kinds]


def _row(key: tuple[str, str, str, str], kind: str, members: list[Metrics]) -> Row:
    prefix = f"test/{kind}/"
    names = [name.removeprefix(prefix) for name in members[0] if name.startswith(prefix)]
    scores = [name for name in names if name not in NOT_SCORES]
    row = dict(zip(_KEYS, key, strict=True)) | {"attention": kind}
    row["seeds"] = str(len(members)) if len(members) > 1 else ""
    for score in scores:
        row[score] = mean_and_std([run[prefix + score] for run in members], digits=3)
    for name, (title, digits) in _COMMON.items():
        if prefix + name in members[0]:
            row[title] = mean_and_std([run.get(prefix + name) for run in members], digits=digits)
    if all(prefix + name in members[0] for name in _QUARTILES):
        row["quartiles"] = _range(*([run.get(prefix + name) for run in members] for name in _QUARTILES))
    difference = [run[prefix + _DIFFERENCE] for run in members if prefix + _DIFFERENCE in run]
    row["logit difference"] = _largest(difference) if difference else ""
    return row


def mean_and_std(values: Sequence[float | None], *, digits: int) -> str:
    """Write mean and sample standard deviation as text; a single value has no deviation.

    >>> mean_and_std([0.5, 0.7], digits=2), mean_and_std([0.5], digits=2), mean_and_std([None], digits=2)
    ('0.60 ± 0.14', '0.50', 'undefined')
    """
    known = _known(values)
    if known is None:
        return "undefined"
    mean = f"{statistics.fmean(known):.{digits}f}"
    return f"{mean} ± {statistics.stdev(known):.{digits}f}" if len(known) > 1 else mean


def _range(lows: Sequence[float | None], highs: Sequence[float | None]) -> str:
    """Write quartiles as text, of several runs their means.

    >>> _range([1.0, 1.2], [1.5, 1.7])
    '1.10 to 1.60'
    """
    known = _known(lows), _known(highs)
    if known[0] is None or known[1] is None:
        return "undefined"
    return f"{statistics.fmean(known[0]):.2f} to {statistics.fmean(known[1]):.2f}"


def _largest(values: Sequence[float | None]) -> str:
    known = _known(values)
    return "undefined" if known is None else f"{max(known):.1e}"


def _known(values: Sequence[float | None]) -> list[float] | None:
    """Return the numbers, or None if one of them is undefined, which metrics.json writes as null."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return known if len(known) == len(values) else None


def _columns(rows: Sequence[Row]) -> list[str]:
    """List the columns that are not empty everywhere, by first appearance; those that all tasks share go last."""
    titles = [title for title, _ in _COMMON.values()]
    place = titles.index("ratio") + 1
    last = [*titles[:place], "quartiles", *titles[place:], "logit difference"]
    names = dict.fromkeys(name for row in rows for name in row)
    used = [name for name in names if any(row.get(name) for row in rows)]
    return [name for name in used if name not in last] + [name for name in last if name in used]


def to_csv(rows: Sequence[Row]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, _columns(rows), restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, **{name: csv_cell(row[name]) for name in _KEYS}} for row in rows)  # +model.dropout=0
    return out.getvalue()


def to_markdown(rows: Sequence[Row]) -> str:
    columns = _columns(rows)
    lines = [columns, ["---"] * len(columns), *[[row.get(name, "") for name in columns] for row in rows]]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def print_rows(rows: Sequence[Row], *, title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in _columns(rows):
        table.add_column(name, justify="left" if name in (*_KEYS, "attention") else "right", overflow="fold")
    for row in rows:
        table.add_row(*[escape(row.get(name, "")) for name in _columns(rows)])
    console = Console()
    wide = Console(width=10_000).measure(table).maximum
    Console(width=max(console.width, wide)).print(table)  # a log file or a narrow window must not cut numbers
