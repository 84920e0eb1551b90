"""Words for what was found: sentences made from numbers, which say the opposite when the numbers do.

Two numbers that look the same as they are printed count as the same. Nothing here claims that a difference is more than
chance: chapters whose tables have intervals say so themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from pandas import DataFrame, Series

from effective_attention.reports.grid import number
from effective_attention.reports.reductions import Panel, attentions, by_layer, one_line, panels

WEIGHT = ("gets less weight", "gets as much weight", "gets more weight")
"""What is said of a weight that fell, stayed or rose."""


@dataclass(frozen=True)
class Change:
    """A number under standard and under effective attention, and where it was measured (empty: there is one place)."""

    where: str
    standard: float
    effective: float


def changes(table: DataFrame, measure: Callable[[DataFrame], float]) -> list[Change]:
    """Measure each panel's rows of standard and of effective attention; panels that lack one are left out."""
    found = panels(table) if len(table) else []
    pairs = []
    for panel in found:
        before, after = (measure(panel.table[panel.table["attention"] == kind]) for kind in ("standard", "effective"))
        pairs.append(Change(place(panel.title, len(found)), before, after))
    return [change for change in pairs if isfinite(change.standard) and isfinite(change.effective)]


def place(title: str, of: int) -> str:
    """Name a panel in a sentence; where there is one alone, everybody knows which."""
    return one_line(title) if of > 1 else ""


def said_of(panel: Panel, table: DataFrame, sentence: str) -> str:
    """Begin a sentence with the panel it is about, where the table has several; else with a capital letter."""
    name = place(panel.title, len(panels(table)))
    return f"{name}: {sentence}" if name else sentence[:1].upper() + sentence[1:]


def under_effective(
    what: str, found: Sequence[Change], *, words: tuple[str, str, str] = WEIGHT, digits: int = 3, unit: str = ""
) -> list[str]:
    """Say in one sentence what effective attention changes; nothing where nothing was measured.

    >>> under_effective("[SEP]", [Change("", 0.12, 0.03)])
    ['Under effective attention [SEP] gets less weight: 0.120 → 0.030.']
    >>> under_effective("[SEP]", [Change("RTE", 0.1, 0.1), Change("MRPC", 0.1, 0.3)], digits=1)
    ['Under effective attention [SEP] gets as much weight: RTE 0.1 → 0.1; gets more weight: MRPC 0.1 → 0.3.']
    """
    grouped: dict[str, list[str]] = {}
    for change in found:
        ends = number(change.standard, digits), number(change.effective, digits)
        rise = 0 if ends[0] == ends[1] else (1 if change.effective > change.standard else -1)
        grouped.setdefault(words[rise + 1], []).append(f"{change.where} {ends[0]} → {ends[1]}{unit}".strip())
    parts = [f"{word}: {', '.join(numbers)}" for word, numbers in grouped.items()]
    return [f"Under effective attention {what} {'; '.join(parts)}."] if parts else []


def extreme_layers(
    table: DataFrame,
    what: str,
    *,
    digits: int = 3,
    largest: bool = True,
    means: Callable[[DataFrame], Series] = by_layer,
) -> list[str]:
    """Say for each panel and attention which layer has the largest (or smallest) mean, and where that layer stands.

    ``what`` is the beginning of the sentence, such as ``attention reaches furthest in``.
    """
    found = panels(table) if len(table) else []
    said = []
    for panel in found:
        parts = []
        for kind in attentions(panel.table):
            known = means(panel.table[panel.table["attention"] == kind]).dropna()
            if len(known):
                layer = int(known.idxmax() if largest else known.idxmin())
                where = layer_place(layer, int(known.index.max()))
                parts.append(f"{where} under {kind} attention ({number(known[layer], digits)})")
        said += [said_of(panel, table, f"{what} {', '.join(parts)}.")] if parts else []
    return said


def layer_place(layer: int, last: int) -> str:
    """Name a layer and whether it is the first or the last.

    >>> layer_place(5, 5), layer_place(0, 5), layer_place(2, 5), layer_place(0, 0)
    ('layer 5, the last', 'layer 0, the first', 'layer 2 of 0 to 5', 'layer 0, the only one')
    """
    if last == 0:
        return "layer 0, the only one"
    if layer == last:
        return f"layer {layer}, the last"
    return "layer 0, the first" if layer == 0 else f"layer {layer} of 0 to {last}"


def head_name(layer: int, head: int) -> str:
    """Name a head.

    >>> head_name(2, 10)
    'layer 2, head 10'
    """
    return f"layer {int(layer)}, head {int(head)}"


def listed(parts: Sequence[str]) -> str:
    """Join words as a sentence does.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def percent(share: float, digits: int = 0) -> str:
    """Write a share as percent.

    >>> percent(0.934)
    '93 %'
    """
    return f"{number(100 * share, digits)} %"
