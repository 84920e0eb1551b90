"""What the figures and small tables of ``dependency_alignment`` show, from its table, in pandas alone.

A share says little alone, so what fixed rules reach stands beside it: all attention to the previous or next word, or
even.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pandas import DataFrame

from effective_attention.reports.reductions import has_values

FIXED_RULES = ("previous", "next", "random")
DIRECTIONS = {"to_head": "dependent looks at its head", "from_head": "head looks at its dependent"}
MOST_RELATIONS = 20


@dataclass(frozen=True)
class Best:
    """The head that finds a relation's partner most often; ``rules`` is what fixed rules reach in its direction."""

    relation: str
    direction: str
    layer: int
    head: int
    value: float
    count: int
    rules: dict[str, float]

    @property
    def gain(self) -> float:
        """Return how much more the head finds than the best of the fixed rules."""
        return self.value - max(self.rules.values(), default=0.0)


def aligned(table: DataFrame) -> DataFrame:
    """Return the rows of the share of attention between words in any relation, either way."""
    return table[(table["relation"] == "all") & (table["direction"] == "either") & (table["statistic"] == "share")]


def fixed_rules(rows: DataFrame) -> dict[str, float]:
    """Return what the fixed rules reach, by name. It is the same for all heads, so the first one's is read."""
    heads = rows.groupby(["attention", "layer", "head"])[list(FIXED_RULES)].mean()
    return {name: float(heads[name].iloc[0]) for name in FIXED_RULES}


def has_alignment(table: DataFrame) -> bool:
    """Tell whether any text had words that are related."""
    return has_values(aligned(table))


def has_relations(table: DataFrame) -> bool:
    """Tell whether any relation was seen often enough to have rows of its own."""
    return has_values(hits(table))


def hits(table: DataFrame) -> DataFrame:
    """Return the rows of how often the largest weight is on the partner, for each relation and direction."""
    arcs = (table["relation"] != "all") & table["direction"].isin(list(DIRECTIONS))
    return table[(table["statistic"] == "hits") & arcs]


def best_heads(table: DataFrame, attention: str) -> list[Best]:
    """Return for each relation its best head, whichever direction it looks in; the largest gain over the rules first.

    Of many relations the most frequent. Seeds of one setting are averaged, so that the head is the same in all of them.
    """
    rows = hits(table)
    often = rows.groupby("relation")["count"].max().nlargest(MOST_RELATIONS)
    mine = rows[rows["relation"].isin(often.index) & (rows["attention"] == attention)]
    heads = mine.groupby(["relation", "direction", "layer", "head"])[["value", *FIXED_RULES]].mean()
    heads = heads[heads["value"].notna()]
    found = []
    for place in heads["value"].groupby(level="relation").idxmax():
        relation, direction, layer, head = place
        reached = {name: float(heads.loc[place, name]) for name in FIXED_RULES}
        rules = {name: value for name, value in reached.items() if np.isfinite(value)}
        where = str(relation), str(direction), int(layer), int(head)
        found.append(Best(*where, float(heads.loc[place, "value"]), int(often[relation]), rules))
    return sorted(found, key=lambda best: (-best.gain, best.relation))
