"""The numbers of a chapter that have an interval over examples: a small table; see ``run.intervals``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from effective_attention.reports.grid import Grid, number, span
from effective_attention.reports.reductions import task_title

PREFIX = "interval"


def interval_table(prefix: str, runs: Sequence[Mapping[str, Any]]) -> Grid:
    """Set every number whose name begins with ``prefix/`` beside its interval, run by run; no rows: none has one.

    >>> facts = {"run/task": "mrpc", "cosine/standard/layer_00": 0.9}
    >>> facts |= {"interval/cosine/standard/layer_00/low": 0.85, "interval/cosine/standard/layer_00/high": 0.93}
    >>> interval_table("cosine", [facts]).rows
    [['MRPC', 'standard', 'layer 00', '0.900', '0.850 to 0.930', '']]
    """
    rows = []
    for facts in runs:
        for name, value in facts.items():
            low, high = _ends(facts, name, "low", "high")
            if name.startswith(f"{prefix}/") and low is not None and high is not None:
                attention, what = name.removeprefix(f"{prefix}/").split("/", 1)
                task = task_title(str(facts.get("run/task", "")))
                change = _ends(facts, name, "change_low", "change_high")
                less = "" if change[0] is None else span(*change)
                rows.append([task, attention, what.replace("_", " "), number(value), span(low, high), less])
    caption = (
        "With 95 % intervals over examples, drawn with replacement: another sample of texts, the same model. The last "
        "column is the interval of the difference from standard attention, on the same draws."
    )
    return Grid(caption, ["task", "attention", "what", "value", "95 % interval", "less standard"], rows, labels=3)


def _ends(facts: Mapping[str, Any], name: str, *sides: str) -> tuple[Any, ...]:
    return tuple(facts.get(f"{PREFIX}/{name}/{side}") for side in sides)
