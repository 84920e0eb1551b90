"""A text whose words have backgrounds, as HTML: blue speaks for the target, orange and underlined against it.

The line is for who cannot tell the two colours apart, and for paper without colours.
Backgrounds are half transparent and letters keep the colour around them, so that it is readable on light and on dark.
Styles stand in the elements themselves, which notebooks keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from effective_attention.attributions.words import Word

FOR = "33, 113, 181"
AGAINST = "230, 85, 13"
_STRONGEST = 0.6  # opacity of a background
_LEAST = 0.03  # of the strongest: less is not worth a colour
_LINE = "text-decoration: underline dashed .08em; text-underline-offset: .22em"
_TEXT = "margin: .4em 0; line-height: 1.9; white-space: pre-wrap; overflow-wrap: anywhere"


def strengths(scores: Sequence[float], words: Sequence[Word]) -> list[float]:
    """Return the scores from -1 to 1, relative to the strongest that is of no special token.

    >>> strengths([4.0, -2.0, 1.0], [Word("[CLS]", 0, None, None, (0,), True), *[Word("a", 0, 0, 1, (1,))] * 2])
    [1.0, -1.0, 0.5]
    """
    most = max((abs(score) for score, word in zip(scores, words, strict=True) if not word.special), default=0.0) or 1.0
    return [max(-1.0, min(1.0, score / most)) for score in scores]


def highlighted(texts: Sequence[str], words: Sequence[Word], scores: Sequence[float]) -> str:
    """Set a text, or a pair, with its words' scores as their backgrounds; everything in it is escaped."""
    blocks = []
    for segment, text in enumerate(texts):
        parts = []
        end = 0
        for word, score, strength in zip(words, scores, strengths(scores, words), strict=True):
            if word.segment != segment:
                continue
            start = end if word.start is None else max(end, word.start)
            parts += [escape(text[end:start]), _marked(word, score, strength)]
            end = start if word.end is None else max(start, word.end)
        parts.append(escape(text[end:]) if any(word.start is not None for word in words) else "")
        blocks.append(f'<div dir="auto" style="{_TEXT}">{"".join(parts)}</div>')
    return "".join(blocks)


def background(strength: float) -> str:
    """Return the colour of a background, from -1 to 1; ``none`` for hardly anything."""
    if abs(strength) < _LEAST:
        return "none"
    return f"rgba({FOR if strength > 0 else AGAINST}, {_STRONGEST * abs(strength):.3f})"


def look_of(strength: float) -> str:
    """Return the style of a word: its background, and below 0 a broken line under it."""
    line = f"; {_LINE}" if strength <= -_LEAST else ""
    return f"background: {background(strength)}; color: inherit; border-radius: .2em{line}"


def _marked(word: Word, score: float, strength: float) -> str:
    look = f"{look_of(strength)}; padding: .15em 0"
    mark = f'<mark title="{score:+.4g}" style="{look}">{escape(word.text)}</mark>'
    if word.start is not None:
        return mark
    return f'<small style="opacity: .75">{mark}</small> '
