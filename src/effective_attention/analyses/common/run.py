"""Show a split to some analyses: one trace per batch, each analysis looks at it, then each answers with its table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import pandas as pd

from effective_attention.analyses.common.base import Analysis
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
) -> Tables:
    """Go over the examples once (all, or the chosen ones), then make a table per analysis and check its schema.

    In the precision of the model's weights: autocast is switched off.

    Args:
        subject: Model and examples.
        analyses: The analyses by name, each after its ``setup``.
        indices: The chosen examples; None: all.
        title: Title of the progress bar; None: no bar.
    """
    with without_autocast(subject.device):
        tables = _tables(subject, analyses, indices, title)
    for name, table in tables.items():
        schema = analyses[name].schema
        if schema is not None:
            schema.check(table, name)
    return tables


def _tables(
    subject: Subject, analyses: Mapping[str, Analysis], indices: Sequence[int] | None, title: str | None
) -> Tables:
    moved = {name: analysis.to(subject.device) for name, analysis in analyses.items()}
    asked = [
        (batch, [analysis for analysis in moved.values() if analysis.wants(batch)])
        for batch in subject.batches(indices)
    ]
    wanted = [(batch, asking) for batch, asking in asked if asking]
    for batch, asking in wanted if title is None else progress(wanted, title):
        seen = subject.trace(batch)
        for analysis in asking:
            analysis.update(seen)
    with warnings.catch_warnings():  # a process without a batch is no mistake
        warnings.filterwarnings("ignore", message="The ``compute`` method of metric")
        return {name: analysis.compute() for name, analysis in moved.items()}
