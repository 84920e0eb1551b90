"""Texts that most strongly induce a head's attention (after Vig & Belinkov 2019), weights as their background.

For each layer the head with the strongest exemplar. The word that looks is boxed; the darker a word, the more it is
looked at, relative to the strongest in the text. A piece that continues a word is glued to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path
from pandas import DataFrame

from effective_attention.reports.chapters.exemplars.reductions import ExemplarText, Word, exemplar_texts, strongest
from effective_attention.reports.drawing.style import DOUBLE, SCALES, styled
from effective_attention.reports.reductions import one_line, panels, shortened

_MOST_PANELS = 2
_MOST_LINES = 4  # of one exemplar
_SIZE = 6.0  # points
_LEFT = 0.1
_LABEL = 1.25
_TITLE = 0.26
_LINE = 0.14
_GAP = 0.06
_SPACE = 0.03  # inches
_DARKEST = 0.6  # of a colour scale's range: black stays readable
_LEAST = 0.03  # of the strongest: less is not worth a colour
_SOFT = "#666666"
_NEGATIVE = "Oranges"
_LONGEST = 24  # characters of a token
Line = list[tuple[Word, float, float]]  # a word, where it begins and how wide it is, in inches


def _draw(table: DataFrame, *, attention: str) -> Figure:
    """Draw a block per task or setting (of many the first two), for each layer a text. All is placed in inches."""
    shown = panels(table[(table["attention"] == attention) & (table["rank"] == 0)])[:_MOST_PANELS]
    blocks = [[(one, _lines(one.words)) for one in strongest(exemplar_texts(panel.table))] for panel in shown]
    height = sum(_TITLE + sum(_LINE * len(lines) + _GAP for _, lines in block) for block in blocks) + 0.1
    figure, axes = _page(height)
    top = 0.0
    for panel, block in zip(shown, blocks, strict=True):
        axes.text(0, top + 0.6 * _TITLE, f"{one_line(panel.title)}, {attention} attention", fontsize=7.5, va="center")
        top += _TITLE
        for exemplar, lines in block:
            axes.text(0, top + _LINE / 2, _label(exemplar), fontsize=_SIZE, va="center")
            for line in lines:
                _write(axes, line, top + _LINE / 2, attention)
                top += _LINE
            top += _GAP
    return figure


def _page(height: float) -> tuple[Figure, Axes]:
    """Make a figure to write on: x and y in inches from the left and from the top."""
    layout = PlaceHolderLayoutEngine(adjust_compatible=True, colorbar_gridspec=True)
    figure = Figure(figsize=(DOUBLE, height), layout=layout)
    axes = figure.add_axes((_LEFT / DOUBLE, 0, 1 - _LEFT / DOUBLE, 1), xlim=(0, DOUBLE - _LEFT), ylim=(height, 0))
    axes.set_axis_off()
    return figure, axes


def _label(exemplar: ExemplarText) -> str:
    return f"layer {exemplar.layer}, head {exemplar.head}: {exemplar.score:.2f}"


def _lines(words: list[Word]) -> list[Line]:
    """Set words in lines, in inches; a word of several pieces is not broken. Of many lines keep those that matter."""
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
    """Yield the pieces of one word together; a long token is cut."""
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
    """Return the width in inches, in the font every figure is set in."""
    width, _, _ = text_to_path.get_text_width_height_descent(
        text, FontProperties(family="DejaVu Sans", size=_SIZE), ismath=False
    )
    return float(width) / 72


def _cropped(lines: list[Line]) -> list[Line]:
    """Keep a few lines: that of the word that looks, that of the strongest word, and what is nearest to them."""
    if len(lines) <= _MOST_LINES:
        return lines
    strengths = [max(0.0 if word.special else abs(word.strength) for word, _, _ in line) for line in lines]
    query = next((index for index, line in enumerate(lines) if any(word.query for word, _, _ in line)), 0)
    anchors = {query, max(range(len(lines)), key=lambda index: strengths[index])}
    near = sorted(range(len(lines)), key=lambda index: (min(abs(index - anchor) for anchor in anchors), index))
    kept = sorted(near[:_MOST_LINES])
    return [_dotted(lines[index], before=index - 1 not in kept and index > 0) for index in kept]


def _dotted(line: Line, *, before: bool) -> Line:
    """Put an ellipsis in front where lines were left out."""
    if not before:
        return line
    mark = Word("…", 0.0, 0.0, glued=False, special=True, query=False)
    return [(mark, -_width("… "), _width("…")), *line]


def _write(axes: Axes, line: Line, middle: float, attention: str) -> None:
    """Write the words of a line on their backgrounds."""
    for word, start, width in line:
        left = _LABEL + start
        scale = SCALES[attention] if word.strength >= 0 else _NEGATIVE
        colour = colormaps[scale](_DARKEST * abs(word.strength)) if abs(word.strength) > _LEAST else "none"
        if word.query or colour != "none":
            edge = "black" if word.query else "none"
            above = 1.5 if word.query else 1.0  # a box is whole even where a piece is glued to it
            look: dict[str, Any] = {"facecolor": colour, "edgecolor": edge, "linewidth": 0.8, "zorder": above}
            axes.add_patch(Rectangle((left - 0.01, middle - 0.065), width + 0.02, 0.13, **look))
        axes.text(left, middle + 0.035, word.text, fontsize=_SIZE, color=_SOFT if word.special else "black", zorder=2)


exemplars = styled(partial(_draw, attention="standard"))
exemplars_effective = styled(partial(_draw, attention="effective"))
