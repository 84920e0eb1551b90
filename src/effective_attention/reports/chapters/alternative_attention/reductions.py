"""From the table of ``alternative_attention`` to what figures and small tables show."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from pandas import DataFrame

CHANGE_TITLES = {"head": "this head replaced", "all": "all heads replaced"}


def quantity(table: DataFrame, name: str, **where: str) -> DataFrame:
    """Return the rows of one quantity, and of these the ones whose columns have the given values."""
    rows = table[table["quantity"] == name]
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows


def distances(table: DataFrame) -> DataFrame:
    """Return the furthest map found for each layer, head and query: by linear program, else by the largest step."""
    rows = quantity(table, "distance")
    best = rows[rows["method"] == "program"]
    return best if len(best) else rows


def has_all_heads(table: DataFrame) -> bool:
    """Tell whether the distance is known for every head of every layer."""
    found = quantity(table, "distance").drop_duplicates(["layer", "head"])
    return len(found) > 1 and len(found) == (int(found["layer"].max()) + 1) * (int(found["head"].max()) + 1)


def shown_head(table: DataFrame) -> tuple[int, int]:
    """Return layer and head of the one whose maps the table holds."""
    row = quantity(table, "weight").iloc[0]
    return int(row["layer"]), int(row["head"])


def of_head(rows: DataFrame, place: tuple[int, int]) -> DataFrame:
    """Return the rows of one head, given as (layer, head)."""
    return rows[(rows["layer"] == place[0]) & (rows["head"] == place[1])]


def attention_map(table: DataFrame, attention: str) -> NDArray[Any]:
    """Return the shown head's weights, a line for each query and a column for each key; several runs are averaged."""
    rows = quantity(table, "weight", attention=attention)
    return rows.pivot_table(index="query", columns="key", values="value").to_numpy(float)
