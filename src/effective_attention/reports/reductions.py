"""Reduce tables to what figures and small tables show, in pandas alone: panels of runs, averages, correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from pandas import DataFrame, Series

from effective_attention.reports.paths import without_folders

TASK_TITLES = MappingProxyType(
    {
        "rte": "RTE", "mrpc": "MRPC", "qnli": "QNLI", "sst2": "SST-2", "stsb": "STS-B",
        "cola": "CoLA", "mnli": "MNLI", "qqp": "QQP", "wnli": "WNLI",
        "agreement": "Verb number", "treebank": "Treebank",
    }
)  # fmt: skip
"""The paper's five tasks in its order, the rest of GLUE, Abnar & Zuidema's, and annotated text without labels."""

_SETTINGS = ("model", "data", "split", "state", "embeddings", "tagset", "protocol")
"""What runs may differ in, each in a panel of its own; an analysis need not have all of them."""


@dataclass(frozen=True)
class Panel:
    """The rows of a table that one run, or the seeds of one setting, contributed."""

    task: str
    title: str
    table: DataFrame


def panels(table: DataFrame) -> list[Panel]:
    """Cut a table into panels, one per task and setting, in the paper's order; name settings only where they differ."""
    keyed = table.assign(state=np.where(table["checkpoint"].fillna("") == "", "pretrained", "finetuned"))
    settings = [name for name in _SETTINGS if name in keyed]
    varied = [name for name in settings if keyed.groupby("task")[name].nunique().max() > 1]
    found = [
        Panel(str(key[0]), _title(key), group.drop(columns="state"))
        for key, group in keyed.groupby(["task", *varied], sort=False)
    ]
    order = list(TASK_TITLES)
    return sorted(found, key=lambda panel: order.index(panel.task) if panel.task in order else len(order))


def _title(key: Sequence[object]) -> str:
    """Write a panel's title in lines: the task, then the settings that differ."""
    return "\n".join([task_title(str(key[0])), *(shortened(without_folders(str(part))) for part in key[1:])])


def task_title(task: str) -> str:
    """Return the task's usual spelling; a task we do not know keeps its name, shortened to fit a panel."""
    return TASK_TITLES.get(task, shortened(task))


def shortened(text: object, most: int = 16) -> str:
    """Put text from data on one line, short enough not to take a figure's place.

    >>> shortened("a name that goes on")
    'a name that goe…'
    """
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def token_label(token: object, most: int = 16) -> str:
    """Name a token in a figure: short, and with the space before a word as ``▁``, whatever sign the vocabulary has.

    >>> token_label("\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}on"), token_label("##ing")
    ('▁on', '##ing')
    """
    text = str(token)
    return shortened("▁" + text[1:] if text.startswith("\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}") else text, most)


def attentions(table: DataFrame, wanted: Sequence[str] = ("standard", "effective")) -> list[str]:
    """List those of ``wanted`` that the table has, in that order."""
    present = set(table["attention"])
    return [name for name in wanted if name in present]


def layer_by_head(table: DataFrame, value: str = "value") -> DataFrame:
    """Pivot a table to layers as rows and heads as columns; several runs of one setting are averaged."""
    rows = table[table["layer"].notna() & table["head"].notna()].astype({"layer": int, "head": int})
    return rows.pivot_table(index="layer", columns="head", values=value, aggfunc="mean", dropna=False)


def by_layer(rows: DataFrame, layer: str = "layer") -> Series:
    """Average ``value`` by layer, over whatever else the rows hold (heads, folds, seeds)."""
    return rows["value"].groupby(rows[layer].astype(int)).mean()


def some_layers(table: DataFrame) -> list[int]:
    """Choose the first, the middle and the last layer; fewer of a shallow model.

    >>> some_layers(DataFrame({"layer": range(12)})), some_layers(DataFrame({"layer": [0, 1]}))
    ([0, 5, 11], [0, 1])
    """
    layers = sorted(int(layer) for layer in table["layer"].dropna().unique())
    return list(dict.fromkeys([layers[0], layers[(len(layers) - 1) // 2], layers[-1]]))


def by_weights(table: DataFrame) -> list[tuple[Panel, dict[str, DataFrame]]]:
    """Return the panels that hold both pretrained and finetuned weights, with the rows of each."""
    tuned = np.where(table["checkpoint"].fillna("") == "", "pretrained", "finetuned")
    found = panels(table.assign(weights=tuned, checkpoint=""))
    return [(panel, {str(name): rows for name, rows in panel.table.groupby("weights", sort=False)}) for panel in found]


def one_line(title: str) -> str:
    """Return a panel's title without line breaks."""
    return title.replace("\n", ", ")


def correlation(first: Series, second: Series) -> float:
    """Return Spearman's correlation, that of ranks; NaN where one of the two is constant."""
    both = DataFrame({"first": first, "second": second}).dropna().rank()
    return float("nan") if both.nunique().min() < 2 else float(both["first"].corr(both["second"]))


def mean_where(table: DataFrame, **where: str) -> float:
    """Return the mean of ``value`` over the rows whose columns have these values; NaN where there are none."""
    for name, value in where.items():
        table = table[table[name] == value]
    return float(table["value"].mean())


def has_values(table: DataFrame) -> bool:
    """Tell whether anything was measured: texts of special tokens alone may leave nothing."""
    return bool(table["value"].notna().any())
