"""Small tables of the report that several chapters share: a column for each layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pandas import DataFrame, Series

from effective_attention.reports.grid import NONE, Grid, number
from effective_attention.reports.reductions import attentions, by_layer, correlation, one_line, panels


def layer_means_grid(
    table: DataFrame,
    *,
    caption: str,
    digits: int,
    last: str,
    largest: bool = True,
    references: Callable[[DataFrame], Mapping[str, float]] = lambda _: {},
) -> Grid:
    """Make a row for each task and attention: the mean of each layer, what to compare with, and the extreme layer.

    Args:
        table: Columns ``attention``, ``layer``, ``value``, one row a head.
        caption: What the numbers are.
        digits: Behind the point.
        last: What to call the extreme layer, such as ``furthest``.
        largest: Whether the extreme layer is that with the largest mean, or the smallest.
        references: From a run's rows to what its values are to be compared with, by name.
    """
    heads = table[table["attention"].isin(attentions(table))]
    layers = sorted(int(layer) for layer in heads["layer"].unique())
    names = list(references(table)) if len(heads) else []
    rows = []
    for panel in panels(table) if len(heads) else ():
        fixed = references(panel.table)
        for kind in attentions(panel.table):
            mine = panel.table[panel.table["attention"] == kind]
            means = by_layer(mine)
            cells = [means.get(layer) for layer in layers] + [fixed.get(name) for name in names]
            front = [one_line(panel.title), kind, *(number(cell, digits) for cell in cells)]
            rows.append([*front, _extreme(means, largest=largest), _depth(mine)])
    columns = [
        "task",
        "attention",
        *(f"layer {layer}" for layer in layers),
        *names,
        f"{last} (depth)",
        "correlation with depth",
    ]
    said = (
        f"{caption}, by layer. Depth is 0 in the first and 1 in the last layer; its correlation is Spearman's over "
        "heads."
    )
    return Grid(said, columns, rows, _groups(len(layers), len(names)), labels=2)


def _groups(layers: int, names: int) -> list[tuple[str, int]]:
    """Return the headings over the columns, without those over none."""
    rules = "fixed rules" if names > 1 else ""
    return [group for group in (("", 2), ("mean over heads", layers), (rules, names), ("", 2)) if group[1]]


def _extreme(means: Series, *, largest: bool) -> str:
    """Return the layer with the largest or smallest mean, such as ``layer 3 (0.60)``."""
    known = means.dropna()
    if known.empty:
        return NONE
    layer = int(known.idxmax() if largest else known.idxmin())
    return f"layer {layer} ({layer / max(int(means.index.max()), 1):.2f})"


def _depth(rows: DataFrame) -> str:
    """Return Spearman's correlation of the heads' values with their layer."""
    return number(correlation(rows["layer"].astype(float), rows["value"].astype(float)), 2)


def quantities_by_layer(wanted: Mapping[str, DataFrame], caption: str, *, percent: bool = False) -> Grid:
    """Make a row for each task and quantity, with the mean of each layer.

    Args:
        wanted: The rows of each quantity, by what to call it.
        caption: Of the table.
        percent: Whether the values are shares to be set as percent.
    """
    layers = sorted({int(layer) for rows in wanted.values() for layer in rows["layer"].dropna().unique()})
    digits = 1 if percent else 3
    lines = []
    for name, rows in wanted.items():
        for panel in panels(rows) if len(rows) else ():
            means = by_layer(panel.table) * (100 if percent else 1)
            lines.append([one_line(panel.title), name, *(number(means.get(layer), digits) for layer in layers)])
    return Grid(caption, ["task", "what", *(f"layer {layer}" for layer in layers)], lines, labels=2)
