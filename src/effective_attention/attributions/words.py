"""From tokens to the words of a text: where each stands, and what it scores when it is of several tokens.

Words are read off the text itself, not off the tokenizer, whose own idea of a word may be a whole sentence: a word is a
run of letters, marks and digits, with an apostrophe between two of them; any other sign stands alone, and so does each
Chinese or Japanese one. A token that reaches into several words joins them, one of blanks alone goes with the word
behind it. Where a token stands, only fast tokenizers tell; of others every token is a word of its own.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from effective_attention.attributions.registry import Pieces

Unit = Literal["word", "token"]
_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}"
_WITHOUT_SPACES = (("\u3040", "\u30ff"), ("\u3400", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0003ffff"))
_SPACE, _LETTER, _ALONE = range(3)


@dataclass(frozen=True)
class Word:
    """What has one score: a word, or a token.

    Attributes:
        text: As the user wrote it; of a special token its name.
        segment: Which of the texts it belongs to, from 0.
        start: Where in that text it begins; None: it is no part of it, or nobody knows.
        end: Behind its last letter.
        tokens: Places of its tokens.
        special: Whether it is a special token that the tokenizer added.
    """

    text: str
    segment: int
    start: int | None
    end: int | None
    tokens: tuple[int, ...]
    special: bool = False


def tokens_of(encoded: Any, texts: Sequence[str], tokenizer: Any) -> list[Word]:
    """Return every token of a text or a pair, special ones too, each as a word of its own.

    Args:
        encoded: What the tokenizer made of ``texts``, as a batch of one.
        texts: One or two.
        tokenizer: Names the tokens.
    """
    ids = encoded["input_ids"][0].tolist()
    names = tokenizer.convert_ids_to_tokens(ids)
    if not encoded.is_fast:
        special = tokenizer.get_special_tokens_mask(ids, already_has_special_tokens=True)
        return [
            Word(name, 0, None, None, (place,), bool(is_special))
            for place, (name, is_special) in enumerate(zip(names, special, strict=True))
        ]
    found: list[Word] = []
    segment = 0
    for place, (number, span) in enumerate(zip(encoded.sequence_ids(0), encoded.encodings[0].offsets, strict=True)):
        segment = segment if number is None else number
        if number is None:
            found.append(Word(names[place], segment, None, None, (place,), special=True))
        else:
            start, end = _trimmed(texts[number], *span)
            found.append(Word(texts[number][start:end] or names[place], number, start, end, (place,)))
    return found


def words_of(tokens: Sequence[Word], texts: Sequence[str]) -> list[Word]:
    """Join tokens to words, and leave special tokens out.

    >>> tokens = [Word("un", 0, 0, 2, (1,)), Word("seen", 0, 2, 6, (2,)), Word("!", 0, 6, 7, (3,))]
    >>> [(word.text, word.tokens) for word in words_of(tokens, ["unseen!"])]
    [('unseen', (1, 2)), ('!', (3,))]
    """
    numbers = [word_numbers(text) for text in texts]
    groups: list[list[Word]] = []
    blanks: list[Word] = []  # tokens of blanks alone, which belong to the word behind them
    last = (-1, -1)  # the text and the word in it that the last group reaches to
    for token in tokens:
        if token.special:
            continue
        inside = [] if token.start is None else numbers[token.segment][token.start : token.end]
        covered = [number for number in inside if number >= 0]
        if token.start is not None and not covered:
            blanks.append(token)
            continue
        if covered and not blanks and groups and (token.segment, min(covered)) <= last:
            groups[-1].append(token)
        else:
            groups.append([*blanks, token])
            blanks = []
        last = (token.segment, max(covered, default=-1))
    return [_joined(group, texts) for group in [*groups, *([blank] for blank in blanks)]]


def join_scores(scores: Sequence[float], words: Sequence[Word], how: Pieces) -> list[float]:
    """Score words by their tokens' scores: the sum, or the largest in absolute value, the first of equals.

    >>> words = [Word("unseen", 0, 0, 6, (1, 2)), Word("!", 0, 6, 7, (3,))]
    >>> join_scores([9.0, 1.0, -3.0, 2.0], words, "sum"), join_scores([9.0, 1.0, -3.0, 2.0], words, "largest")
    ([-2.0, 2.0], [-3.0, 2.0])
    """
    pieces = [[scores[place] for place in word.tokens] for word in words]
    return [sum(mine) if how == "sum" else max(mine, key=abs) for mine in pieces]


def word_numbers(text: str) -> list[int]:
    """Tell for each letter of a text which word it belongs to, counted from 0; -1: to none, a blank.

    >>> word_numbers("Don't go.")
    [0, 0, 0, 0, 0, -1, 1, 1, 2]
    """
    kinds = [_kind(letter) for letter in text]
    for place in range(1, len(text) - 1):
        if text[place] in _APOSTROPHES and kinds[place - 1] == kinds[place + 1] == _LETTER:
            kinds[place] = _LETTER
    numbers: list[int] = []
    current = -1
    for place, kind in enumerate(kinds):
        goes_on = kind == _LETTER and place > 0 and kinds[place - 1] == _LETTER
        current += kind != _SPACE and not goes_on
        numbers.append(-1 if kind == _SPACE else current)
    return numbers


def _kind(letter: str) -> int:
    if letter.isspace():
        return _SPACE
    if any(low <= letter <= high for low, high in _WITHOUT_SPACES):
        return _ALONE
    return _LETTER if unicodedata.category(letter)[0] in "LMN" or letter == "_" else _ALONE


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Take the blanks off both ends of a stretch, which some tokenizers count in; one of nothing else stays."""
    cut = text[start:end]
    if not cut.strip():
        return start, end
    return start + len(cut) - len(cut.lstrip()), end - len(cut) + len(cut.rstrip())


def _joined(group: Sequence[Word], texts: Sequence[str]) -> Word:
    last = group[-1]
    if last.start is None or len(group) == 1:
        return last
    text = texts[last.segment]
    starts = [word.start for word in group if word.start is not None and word.segment == last.segment]
    start, end = _trimmed(text, min(starts), max(word.end or 0 for word in group if word.segment == last.segment))
    return Word(text[start:end], last.segment, start, end, tuple(place for word in group for place in word.tokens))
