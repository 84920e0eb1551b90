"""What the figures and small tables of ``dependency_alignment`` show, from its table, in pandas alone.

A share says little alone, so what fixed rules reach stands beside it: all attention to the previous or next word, or
even. The best head of a relation, and the best rule beside it, are chosen on one half of the texts and measured on the
other.
"""

from __future__ import annotations

from dataclasses import dataclass

from pandas import DataFrame, Series

from effective_attention.reports.reductions import has_values

FIXED_RULES = ("previous", "next", "random")
DIRECTIONS = {"to_head": "dependent looks at its head", "from_head": "head looks at its dependent"}
MOST_RELATIONS = 20


@dataclass(frozen=True)
class Best:
    """The head that finds a relation's partner most often on the half to choose on, and what it finds on the other.

    Attributes:
        relation: Between the two words.
        direction: Which of the two looks.
        layer: Of the head.
        head: Its number in the layer.
        value: How often it finds the partner on the half to measure on.
        count: Arcs of that half.
        rule: The fixed rule of the same direction that finds most on the half to choose on, in words.
        reached: What that rule finds on the half to measure on.
    """

    relation: str
    direction: str
    layer: int
    head: int
    value: float
    count: int
    rule: str
    reached: float

    @property
    def gain(self) -> float:
        """Return how much more the head finds than the best of the fixed rules."""
        return self.value - self.reached


def aligned(table: DataFrame) -> DataFrame:
    """Return the rows of the share of attention between words in any relation, either way, on all texts."""
    either = (table["relation"] == "all") & (table["direction"] == "either") & (table["statistic"] == "share")
    return table[either & (table["sentences"] == "all")]


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

    Of many relations the most frequent. Seeds of one setting are averaged, so that the head is the same in all of them;
    the halves are the same too, so that no text is both chosen on and measured on.
    """
    rows = hits(table)
    often = rows[rows["sentences"] == "all"].groupby("relation")["count"].max().nlargest(MOST_RELATIONS)
    mine = rows[rows["relation"].isin(often.index) & (rows["attention"] == attention)]
    choosing, measuring = (_by_place(mine[mine["sentences"] == half]) for half in ("choosing", "measuring"))
    both = choosing.index.intersection(measuring.index)  # a rare relation may be in one half only
    found = [
        _best(choosing.loc[place], measuring.loc[place], *place)
        for place in choosing.loc[both, "value"].groupby(level="relation").idxmax()
    ]
    return sorted(found, key=lambda best: (-best.gain, best.relation))


def _by_place(rows: DataFrame) -> DataFrame:
    """Average the seeds of one setting; places without a value are left out."""
    numbers = ["value", "fixed", "random", "offset", "count"]
    places = rows.groupby(["relation", "direction", "layer", "head"])[numbers].mean()
    return places[places["value"].notna()]


def _best(choosing: Series, measuring: Series, relation: str, direction: str, layer: int, head: int) -> Best:
    """Tell of one head, by its row on the half to choose on and that on the half to measure on."""
    guess = not choosing["fixed"] >= choosing["random"]
    rule = "random" if guess else offset_name(int(choosing["offset"]))
    reached = float(measuring["random" if guess else "fixed"])
    where = str(relation), str(direction), int(layer), int(head)
    return Best(*where, float(measuring["value"]), int(measuring["count"]), rule, reached)


def offset_name(offset: int) -> str:
    """Name a fixed place.

    >>> [offset_name(offset) for offset in (-1, 1, -3, 2)]
    ['previous word', 'next word', '3 words before', '2 words after']
    """
    side, near = ("before", "previous") if offset < 0 else ("after", "next")
    return f"{near} word" if abs(offset) == 1 else f"{abs(offset)} words {side}"
