"""Which tokens are pieces of one word, as the marks of the tokenizer tell.

Vocabularies mark pieces in one of three ways: ``##`` in front of one that continues a word (WordPiece), ``▁`` or ``Ġ``
in front of one that begins a word (SentencePiece, byte-level), or ``</w>`` behind one that ends it. Where beginnings
are marked, a piece that is all punctuation is a word of its own, as it is in WordPiece. A special token is a word of
its own, too. Bytes and letters have no marks: there each token stands alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_CONTINUES = "##"
_BEGINS = ("\u2581", "\u0120")  # ▁ Ġ
_ENDS = "</w>"
_BLANKS = "\u2581\u21b5\u21e5"  # ▁ ↵ ⇥, as ``sides.readable`` writes them

Continues = Callable[[str, str], bool]  # of the token before, and the token: whether it goes on with the same word


@dataclass(frozen=True, eq=False)
class Words:
    """The words of a text.

    Attributes:
        tokens: Their names, without marks.
        starts: The place of each one's first piece; its pieces go on to where the next word starts.
    """

    tokens: list[str]
    starts: list[int]


def words_of(tokens: Sequence[str], special: Sequence[bool], tokenizer: Any) -> Words | None:
    """Join readable tokens (see ``sides.readable``) to words; None where every word is one token."""
    continues = _rule(tokenizer)
    starts = [
        place
        for place, token in enumerate(tokens)
        if place == 0 or special[place] or special[place - 1] or not continues(tokens[place - 1], token)
    ]
    if len(starts) == len(tokens):
        return None
    ends = [*starts[1:], len(tokens)]
    names = [_name(tokens[start:end], special[start]) for start, end in zip(starts, ends, strict=True)]
    return Words(names, starts)


def _rule(tokenizer: Any) -> Continues:
    """Find which marks the vocabulary has: those of most of its entries."""
    vocabulary = tokenizer.get_vocab()
    rules: dict[Continues, int] = {
        _after_mark: sum(name.startswith(_CONTINUES) for name in vocabulary),
        _before_mark: sum(name.startswith(_BEGINS) for name in vocabulary),
        _before_end: sum(name.endswith(_ENDS) for name in vocabulary),
    }
    rule, entries = max(rules.items(), key=lambda item: item[1])
    return rule if entries > 1 else _never


def _after_mark(_: str, token: str) -> bool:
    return token.startswith(_CONTINUES) and token != _CONTINUES


def _before_mark(before: str, token: str) -> bool:
    return bool(token) and token[0] not in _BLANKS and not any(map(_is_punctuation, (before, token)))


def _before_end(before: str, _: str) -> bool:
    return not before.endswith(_ENDS)


def _never(_: str, __: str) -> bool:
    return False


def _is_punctuation(token: str) -> bool:
    letters = token.strip(_BLANKS)
    return not letters or all(unicodedata.category(letter)[0] in "PS" for letter in letters)


def _name(pieces: Sequence[str], special: bool) -> str:
    """Write the pieces of a word as one, without marks; a special token keeps its name."""
    if special:
        return pieces[0]
    bare = [piece.removeprefix(_CONTINUES) if piece != _CONTINUES else piece for piece in pieces[1:]]
    joined = "".join([pieces[0], *bare]).replace(_ENDS, "")
    return joined.strip("\u2581") or joined
