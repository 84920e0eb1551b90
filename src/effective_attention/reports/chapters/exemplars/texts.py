"""The exemplars on the page as text, with the weights as the words' background."""

from __future__ import annotations

from collections.abc import Sequence

from pandas import DataFrame

from effective_attention.reports.chapter import Highlighted, Highlights, Piece
from effective_attention.reports.chapters.exemplars.reductions import ExemplarText, Word, exemplar_texts
from effective_attention.reports.grid import number
from effective_attention.reports.reductions import attentions, one_line, panels

LEVELS = 5  # of a background's strength
_MOST_TEXTS = 600  # on the page; each is a kilobyte or so


def highlights(table: DataFrame) -> list[Highlights]:
    """Set the exemplars of all heads.

    If these are too many for a page, of each layer those with the lowest rank and the largest weight.
    """
    parts = [(panel, kind) for panel in panels(table) for kind in attentions(panel.table)] if len(table) else []
    found = [exemplar_texts(panel.table[panel.table["attention"] == kind]) for panel, kind in parts]
    most = max(1, _MOST_TEXTS // max(1, sum(len({exemplar.layer for exemplar in mine}) for mine in found)))
    return [
        Highlights(f"{one_line(panel.title)}, {kind} attention", kind, _by_layer(mine, most))
        for (panel, kind), mine in zip(parts, found, strict=True)
    ]


def _by_layer(found: Sequence[ExemplarText], most: int) -> list[tuple[str, list[Highlighted]]]:
    """Set at most so many exemplars of each layer, in the order of heads."""
    layers = []
    for layer in sorted({exemplar.layer for exemplar in found}):
        mine = sorted((one for one in found if one.layer == layer), key=lambda one: (one.rank, -one.score, one.head))
        ordered = sorted(mine[:most], key=lambda one: (one.head, one.rank))
        layers.append((f"Layer {layer}", [_highlighted(exemplar) for exemplar in ordered]))
    return layers


def _highlighted(exemplar: ExemplarText) -> Highlighted:
    title = f"head {exemplar.head}, weight {number(exemplar.score)}, example {exemplar.example}"
    return Highlighted(title, pieces(exemplar.words))


def pieces(words: Sequence[Word]) -> list[Piece]:
    """Cut a text where backgrounds change; words without one are joined, so that the page stays small."""
    found: list[Piece] = []
    for place, word in enumerate(words):
        level = round(LEVELS * word.strength)
        gap = "" if word.glued or place == 0 else " "
        if level == 0 and not word.query:
            found.append(Piece(gap + word.text))
            continue
        if gap:
            found.append(Piece(gap))
        found.append(Piece(word.text, level, number(word.value), word.query))
    return _joined(found)


def _joined(found: Sequence[Piece]) -> list[Piece]:
    """Join neighbours that have no background."""
    out: list[Piece] = []
    for piece in found:
        plain = piece.level == 0 and not piece.query
        if plain and out and out[-1].level == 0 and not out[-1].query:
            out[-1] = Piece(out[-1].text + piece.text)
        else:
            out.append(piece)
    return out
