"""Say on which data a table was measured, in one sentence, and on how many examples in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pandas import DataFrame

from effective_attention.reports.paths import without_folders
from effective_attention.reports.reductions import Panel, one_line, panels

_DATA = {"sample": "the embedded sample", "local": "local files", "hub": "the Hugging Face hub"}
_OWN_TEXT = "text"  # of a run on a text of the user's
_PADDED = "as published, with padding inside the null space"
_AFFINE = "in affine space, where its rows sum to 1"


def measured(table: DataFrame) -> str:
    """Say in one sentence on which tasks, splits, numbers of examples, model and data the rows were measured."""
    if _is_of_a_text(table):
        texts = "; ".join(f"“{text}”" for text in table["text"].unique())
        return f"Read from the text {texts} by {_models(table)}."
    found = panels(table)
    splits = " and ".join(map(str, table["split"].unique()))
    if set(table["data"]) == {_OWN_TEXT}:
        examples = f"the text given with text= ({', '.join(one_line(panel.title) for panel in found)})"
    elif table["examples"].max() == 1:
        examples = f"one {splits} example ({', '.join(one_line(panel.title) for panel in found)})"
    else:
        examples = f"{splits} examples ({', '.join(_count(panel, 'examples') for panel in found)})"
    names = [str(name) for name in table["data"].unique() if name != _OWN_TEXT]
    sources = " and ".join(_DATA.get(name, without_folders(name)) for name in names)
    data = f", data from {sources}" if sources else ""
    return f"Measured on {examples}, {_models(table)}{data}{_reading(table, found)}."


def behind(table: DataFrame) -> str:
    """Say in a few words how much is behind a finding, such as ``24 examples`` or ``one text``."""
    if _is_of_a_text(table) or table["examples"].max() == 1:
        return "one text" if len(panels(table)) == 1 else "one text of each task"
    counts = sorted({int(panel.table["examples"].max()) for panel in panels(table)})
    count = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{count} examples{' of each task' if len(panels(table)) > 1 else ''}"


def _is_of_a_text(table: DataFrame) -> bool:
    """Tell whether all rows are about a user's text; tables with a row for each example of a split have texts too."""
    return "text" in table and "example" not in table


def _models(table: DataFrame) -> str:
    states = ["pretrained" if empty else "finetuned" for empty in (table["checkpoint"].fillna("") == "").unique()]
    return f"{' and '.join(without_folders(str(name)) for name in table['model'].unique())} ({' and '.join(states)})"


def _count(panel: Panel, column: str) -> str:
    """Write a panel's title and count, such as ``MRPC 408`` or ``MRPC 408, mean of 3 runs``."""
    runs = panel.table["run"].nunique() if "run" in panel.table else 1
    mean = f", mean of {runs} runs" if runs > 1 else ""
    return f"{one_line(panel.title)} {int(panel.table[column].max())}{mean}"


def _words(reading: str) -> str:
    """Say in words what is special about a reading without padding, by its name in tables; nothing: it is exact.

    >>> _words("affine within 0.01")
    'in affine space, where its rows sum to 1, as the smallest one that changes no output by more than 0.01'
    """
    name, _, tolerance = reading.partition(" within ")
    smallest = f"as the smallest one that changes no output by more than {tolerance}" if tolerance else ""
    return ", ".join(part for part in (_AFFINE if name == "affine" else "", smallest) if part)


def _reading(table: DataFrame, found: Sequence[Panel]) -> str:
    """Say how effective attention was read, where that is not the exact reading; else return an empty text."""
    readings = list(table["reading"].dropna().unique()) if "reading" in table else []
    if "padded" not in readings:
        return "".join(f"; effective attention read {words}" for words in map(_words, readings) if words)
    if "exact" not in readings:
        return f"; effective attention read {_PADDED}"
    text = f"; effective attention read exactly, and {_PADDED}"
    if "exact_subset" in readings and "count" in table:
        subsets = [replace(panel, table=panel.table[panel.table["reading"] == "padded"]) for panel in found]
        counts = [_count(panel, "count") for panel in subsets if len(panel.table)]
        text += f", the two compared on the same examples ({', '.join(counts)})"
    return text
