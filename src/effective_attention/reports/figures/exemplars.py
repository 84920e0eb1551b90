"""Texts that most strongly induce a head's attention (Vig & Belinkov 2019), with the weights as the words' background.

For each layer the head with the strongest exemplar. The word that looks is boxed; the darker a word, the more it is
looked at, relative to the strongest in the line. A piece that continues a word is glued to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import groupby
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path
from pandas import DataFrame

from effective_attention.reports.drawing.style import DOUBLE, SCALES, styled
from effective_attention.reports.reductions import one_line, panels, shortened

_MOST_PANELS = 2
_MOST_LINES = 4  # of one exemplar
_SIZE = 6.0  # points
_LEFT, _LABEL, _TITLE, _LINE, _GAP, _SPACE = 0.1, 1.25, 0.26, 0.14, 0.06, 0.03  # inches
_DARKEST, _LEAST = 0.6, 0.03  # of a scale's range: black stays readable; of the strongest: what is not worth a colour
_SOFT = "#666666"
_NEGATIVE = "Oranges"
_LONGEST = 24  # characters of a token
_BEGINNINGS = (
    "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}",
    "\N{LOWER ONE EIGHTH BLOCK}",
)  # of words, in BPE and SentencePiece
Line = list[tuple["Word", float, float]]  # a word, where it begins and how wide it is, in inches


@dataclass(frozen=True)
class Word:
    """One token as it is shown: ``strength`` from -1 to 1, relative to the exemplar's strongest."""

    text: str
    value: float
    strength: float
    glued: bool
    special: bool
    query: bool


@dataclass(frozen=True)
class Passage:
    """One exemplar of a head."""

    layer: int
    head: int
    rank: int
    example: int
    score: float
    words: list[Word]


def passages(table: DataFrame) -> list[Passage]:
    """All exemplars of one run and one attention, by layer, head and rank; of several seeds those of the first."""
    rows = table[table["run"] == table["run"].iloc[0]] if "run" in table and len(table) else table
    ordered = rows.sort_values(["layer", "head", "rank", "position"], kind="stable")
    return [
        Passage(
            int(first["layer"]),
            int(first["head"]),
            int(first["rank"]),
            int(first["example"]),
            float(first["score"]),
            words,
        )
        for first, words in _each(ordered.to_dict("records"))
    ]


def _each(rows: list[dict[Hashable, Any]]) -> Iterator[tuple[dict[Hashable, Any], list[Word]]]:
    """The first row of each exemplar, and its words."""
    for _, group in groupby(rows, key=lambda row: (row["layer"], row["head"], row["rank"])):
        mine = list(group)
        most = max((abs(row["value"]) for row in mine if not row["special"]), default=0.0) or 1.0
        words = []
        for row, (text, glued) in zip(mine, readable([str(row["token"]) for row in mine]), strict=True):
            strength = max(-1.0, min(1.0, float(row["value"]) / most))
            queried = int(row["position"]) == int(row["query"])
            words.append(Word(text, float(row["value"]), strength, glued, bool(row["special"]), queried))
        yield mine[0], words


def readable(tokens: Sequence[str]) -> list[tuple[str, bool]]:
    """Each token's text, and whether it continues the word before: WordPiece, and vocabularies that mark where words begin.

    >>> readable(["new", "anti", "##biotics", "##"])
    [('new', False), ('anti', False), ('biotics', True), ('##', False)]
    >>> readable(["Anti", "biotics", "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}cost"])
    [('Anti', False), ('biotics', True), ('cost', False)]
    """
    if any(token.startswith(_BEGINNINGS) for token in tokens):
        return [
            (token.lstrip("".join(_BEGINNINGS)) or token, place > 0 and not token.startswith(_BEGINNINGS))
            for place, token in enumerate(tokens)
        ]
    glued = [place > 0 and len(token) > 2 and token.startswith("##") for place, token in enumerate(tokens)]
    return [(token[2:] if inside else token, inside) for token, inside in zip(tokens, glued, strict=True)]


def strongest(found: list[Passage]) -> list[Passage]:
    """For each layer the exemplar with the largest score; of equals that of the first head."""
    best: dict[int, Passage] = {}
    for passage in found:
        if passage.layer not in best or passage.score > best[passage.layer].score:
            best[passage.layer] = passage
    return [best[layer] for layer in sorted(best)]


def has_attention(table: DataFrame, *, attention: str) -> bool:
    return bool((table["attention"] == attention).any())


def _draw(table: DataFrame, *, attention: str) -> Figure:
    """A block per task or setting (of many the first two), for each layer a passage. Everything is placed in inches."""
    shown = panels(table[(table["attention"] == attention) & (table["rank"] == 0)])[:_MOST_PANELS]
    blocks = [[(passage, _lines(passage.words)) for passage in strongest(passages(panel.table))] for panel in shown]
    height = sum(_TITLE + sum(_LINE * len(lines) + _GAP for _, lines in block) for block in blocks) + 0.1
    figure = Figure(
        figsize=(DOUBLE, height), layout=PlaceHolderLayoutEngine(adjust_compatible=True, colorbar_gridspec=True)
    )
    axes = figure.add_axes((_LEFT / DOUBLE, 0, 1 - _LEFT / DOUBLE, 1), xlim=(0, DOUBLE - _LEFT), ylim=(height, 0))
    axes.set_axis_off()
    top = 0.0
    for panel, block in zip(shown, blocks, strict=True):
        axes.text(0, top + 0.6 * _TITLE, f"{one_line(panel.title)}, {attention} attention", fontsize=7.5, va="center")
        top += _TITLE
        for passage, lines in block:
            axes.text(0, top + _LINE / 2, _said(passage), fontsize=_SIZE, va="center")
            for line in lines:
                _write(axes, line, top + _LINE / 2, attention)
                top += _LINE
            top += _GAP
    return figure


def _said(passage: Passage) -> str:
    return f"layer {passage.layer}, head {passage.head}: {passage.score:.2f}"


def _lines(words: list[Word]) -> list[Line]:
    """Words with their places, in inches; a word of several pieces is not broken. Of many lines those that matter."""
    room = DOUBLE - _LEFT - _LABEL - 0.1
    lines: list[Line] = [[]]
    end = 0.0
    for group in _groups(words):
        widths = [_width(word.text) for word in group]
        if end + sum(widths) > room and lines[-1]:
            lines.append([])
            end = 0.0
        for word, width in zip(group, widths, strict=True):
            lines[-1].append((word, end, width))
            end += width
        end += _SPACE
    return _cropped(lines)


def _groups(words: list[Word]) -> Iterator[list[Word]]:
    """Pieces of one word together; a long token is cut."""
    group: list[Word] = []
    for word in words:
        if group and not word.glued:
            yield group
            group = []
        group.append(replace(word, text=shortened(word.text, _LONGEST)))
    if group:
        yield group


@cache
def _width(text: str) -> float:
    """In inches, of the font every figure is set in."""
    width, _, _ = text_to_path.get_text_width_height_descent(
        text, FontProperties(family="DejaVu Sans", size=_SIZE), ismath=False
    )
    return float(width) / 72


def _cropped(lines: list[Line]) -> list[Line]:
    """At most a few lines: that of the word that looks, that of the strongest word, and what is nearest to them."""
    if len(lines) <= _MOST_LINES:
        return lines
    strengths = [max(0.0 if word.special else abs(word.strength) for word, _, _ in line) for line in lines]
    query = next((index for index, line in enumerate(lines) if any(word.query for word, _, _ in line)), 0)
    anchors = {query, max(range(len(lines)), key=lambda index: strengths[index])}
    near = sorted(range(len(lines)), key=lambda index: (min(abs(index - anchor) for anchor in anchors), index))
    kept = sorted(near[:_MOST_LINES])
    return [_dotted(lines[index], before=index - 1 not in kept and index > 0) for index in kept]


def _dotted(line: Line, *, before: bool) -> Line:
    """With an ellipsis in front where lines were left out."""
    if not before:
        return line
    mark = Word("…", 0.0, 0.0, glued=False, special=True, query=False)
    return [(mark, -_width("… "), _width("…")), *line]


def _write(axes: Axes, line: Line, middle: float, attention: str) -> None:
    for word, start, width in line:
        left = _LABEL + start
        scale = SCALES[attention] if word.strength >= 0 else _NEGATIVE
        colour = colormaps[scale](_DARKEST * abs(word.strength)) if abs(word.strength) > _LEAST else "none"
        if word.query or colour != "none":
            edge, above = (
                ("black", 1.5) if word.query else ("none", 1.0)
            )  # a box is whole even where a piece is glued to it
            place = (left - 0.01, middle - 0.065)
            axes.add_patch(
                Rectangle(place, width + 0.02, 0.13, facecolor=colour, edgecolor=edge, linewidth=0.8, zorder=above)
            )
        axes.text(left, middle + 0.035, word.text, fontsize=_SIZE, color=_SOFT if word.special else "black", zorder=2)


exemplars = styled(partial(_draw, attention="standard"))
exemplars_effective = styled(partial(_draw, attention="effective"))
