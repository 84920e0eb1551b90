"""Show a split to some analyses: one trace per batch, each analysis looks at it, then each answers with its table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from effective_attention.analyses.common.base import Analysis, Study
from effective_attention.analyses.common.progress import progress
from effective_attention.analyses.common.subject import Subject
from effective_attention.attention.precision import without_autocast

Tables = dict[str, pd.DataFrame]


def run_analyses(
    subject: Subject,
    analyses: Mapping[str, Analysis],
    *,
    indices: Sequence[int] | None = None,
    title: str | None = None,
    finished: Callable[[str, pd.DataFrame], None] | None = None,
) -> Tables:
    """Go over the examples once (all, or the chosen ones), then make a table per analysis and check its schema.

    In the precision of the model's weights: autocast is switched off.

    Args:
        subject: Model and examples.
        analyses: The analyses by name, each after its ``setup``.
        indices: The chosen examples; None: all.
        title: Title of the progress bar; None: no bar.
        finished: Called with each table as soon as it is there; those of studies, which take long, come last.
    """
    moved = {name: analysis.to(subject.device) for name, analysis in analyses.items()}
    with without_autocast(subject.device):
        _look(subject, moved, indices, title)
        tables: Tables = {}
        for name, analysis in sorted(moved.items(), key=lambda item: isinstance(item[1], Study)):
            tables[name] = _table(name, analysis)
            if finished is not None:
                finished(name, tables[name])
    return {name: tables[name] for name in moved}


def _look(subject: Subject, moved: Mapping[str, Analysis], indices: Sequence[int] | None, title: str | None) -> None:
    """Show every analysis the batches it wants."""
    asked = [
        (batch, [analysis for analysis in moved.values() if analysis.wants(batch)])
        for batch in subject.batches(indices)
    ]
    wanted = [(batch, asking) for batch, asking in asked if asking]
    for batch, asking in wanted if title is None else progress(wanted, title):
        seen = subject.trace(batch)
        for analysis in asking:
            analysis.update(seen)


def _table(name: str, analysis: Analysis) -> pd.DataFrame:
    with warnings.catch_warnings():  # a process without a batch is no mistake
        warnings.filterwarnings("ignore", message="The ``compute`` method of metric")
        table = analysis.compute()
    if analysis.schema is not None:
        analysis.schema.check(table, name)
    return table
