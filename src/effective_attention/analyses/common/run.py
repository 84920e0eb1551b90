"""Show a split to some analyses: one trace per batch, each analysis looks at it, then each answers with its table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

import pandas as pd

from effective_attention.analyses.common.base import Analysis, Study
from effective_attention.analyses.common.resampling import GroupedSums, Resampling
from effective_attention.analyses.common.subject import Subject
from effective_attention.attention.precision import without_autocast
from effective_attention.progress import Progress, duration, tell

Tables = dict[str, pd.DataFrame]


def run_analyses(
    subject: Subject,
    analyses: Mapping[str, Analysis],
    *,
    indices: Sequence[int] | None = None,
    title: str | None = None,
    finished: Callable[[str, pd.DataFrame], None] | None = None,
    resampling: Resampling | None = None,
) -> Tables:
    """Go over the examples once (all, or the chosen ones), then make a table per analysis and check its schema.

    In the precision of the model's weights: autocast is switched off.

    Args:
        subject: Model and examples.
        analyses: The analyses by name, each after its ``setup``.
        indices: The chosen examples; None: all.
        title: What the progress bar, or the lines where output is redirected, call it; None: neither.
        finished: Called with each table as soon as it is there; those of studies, which take long, come last.
        resampling: Draws the examples again, and gives the tables that allow it intervals, ``value_low`` and
            ``value_high``; None: no intervals.
    """
    moved = {name: analysis.to(subject.device) for name, analysis in analyses.items()}
    grouped = {} if resampling is None else resampling.watch(moved)
    with without_autocast(subject.device):
        _look(subject, moved, grouped, indices, title)
        tables: Tables = {}
        for name, analysis in sorted(moved.items(), key=lambda item: isinstance(item[1], Study)):
            started = time.monotonic()
            tables[name] = _table(name, analysis)
            if resampling is not None and name in grouped:
                tables[name] = resampling.with_intervals(name, grouped[name], tables[name], shown=title is not None)
            if title is not None:
                tell(f"{name}: {len(tables[name])} rows, {duration(time.monotonic() - started)}")
            if finished is not None:
                finished(name, tables[name])
    return {name: tables[name] for name in moved}


def _look(
    subject: Subject,
    moved: Mapping[str, Analysis],
    grouped: Mapping[str, GroupedSums],
    indices: Sequence[int] | None,
    title: str | None,
) -> None:
    """Show every analysis the batches it wants, whole; to those whose examples are drawn again one by one."""
    asked = [
        (batch, [name for name, analysis in moved.items() if analysis.wants(batch)])
        for batch in subject.batches(indices)
    ]
    wanted = [(batch, asking) for batch, asking in asked if asking]
    examples = sum(len(batch) for batch, _ in wanted)
    with Progress(title, examples, "examples") if title is not None else nullcontext() as shown:
        for batch, asking in wanted:
            seen = subject.trace(batch)
            for name in asking:
                if name not in grouped:
                    moved[name].update(seen)
            one_by_one = [grouped[name] for name in asking if name in grouped]
            for row in range(len(batch)) if one_by_one else ():
                alone = seen.example(row)
                for sums in one_by_one:
                    sums.update(alone)
            if shown is not None:
                shown.advance(len(batch))
    for sums in grouped.values():
        sums.gather()


def _table(name: str, analysis: Analysis) -> pd.DataFrame:
    with warnings.catch_warnings():  # a process without a batch is no mistake
        warnings.filterwarnings("ignore", message="The ``compute`` method of metric")
        table = analysis.compute()
    if analysis.schema is not None:
        analysis.schema.check(table, name)
    return table
