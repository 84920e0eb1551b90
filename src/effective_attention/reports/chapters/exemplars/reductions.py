"""From the table of ``exemplars`` to texts whose words have weights, in pandas alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

from pandas import DataFrame

_BEGINNINGS = (
    "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}",
    "\N{LOWER ONE EIGHTH BLOCK}",
)  # of words, in BPE and SentencePiece
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # a token of nothing else


@dataclass(frozen=True)
class Word:
    """One token as it is shown.

    Attributes:
        text: Without the marks of the vocabulary.
        value: The weight on it.
        strength: The weight from -1 to 1, relative to the exemplar's strongest that is no special token.
        glued: Whether it continues the word before.
        special: Whether it is a special token.
        query: Whether it is the token that looks.
    """

    text: str
    value: float
    strength: float
    glued: bool
    special: bool
    query: bool


@dataclass(frozen=True)
class ExemplarText:
    """One exemplar of a head: the text, with what its strongest query gives to each word."""

    layer: int
    head: int
    rank: int
    example: int
    score: float
    words: list[Word]


def has_attention(table: DataFrame, *, attention: str) -> bool:
    """Tell whether the table has exemplars of this attention."""
    return bool((table["attention"] == attention).any())


def exemplar_texts(table: DataFrame) -> list[ExemplarText]:
    """Return the exemplars of one run and attention, by layer, head and rank; of several seeds those of the first."""
    rows = table[table["run"] == table["run"].iloc[0]] if "run" in table and len(table) else table
    ordered = rows.sort_values(["layer", "head", "rank", "position"], kind="stable").to_dict("records")
    found = []
    for _, group in groupby(ordered, key=lambda row: (row["layer"], row["head"], row["rank"])):
        mine = list(group)
        facts = {name: int(mine[0][name]) for name in ("layer", "head", "rank", "example")}
        found.append(ExemplarText(**facts, score=float(mine[0]["score"]), words=list(_words(mine))))
    return found


def _words(rows: list[dict[Hashable, Any]]) -> Iterator[Word]:
    """Make the words of one exemplar from its rows."""
    most = max((abs(row["value"]) for row in rows if not row["special"]), default=0.0) or 1.0
    for row, (text, glued) in zip(rows, readable([str(row["token"]) for row in rows]), strict=True):
        strength = max(-1.0, min(1.0, float(row["value"]) / most))
        queried = int(row["position"]) == int(row["query"])
        yield Word(text, float(row["value"]), strength, glued, bool(row["special"]), queried)


def readable(tokens: Sequence[str]) -> list[tuple[str, bool]]:
    """Return each token's text, and whether it continues the word before.

    Knows WordPiece, and vocabularies that mark where words begin; letters that stand for bytes become what they spell.

    >>> readable(["new", "anti", "##biotics", "##"])
    [('new', False), ('anti', False), ('biotics', True), ('##', False)]
    >>> readable(["Anti", "biotics", "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}cost"])
    [('Anti', False), ('biotics', True), ('cost', False)]
    """
    if any(token.startswith(_BEGINNINGS) for token in tokens):
        in_bytes = any(token.startswith(_BEGINNINGS[0]) for token in tokens)
        shown = [token.lstrip("".join(_BEGINNINGS)) or _SPACE for token in tokens]
        inside = [place > 0 and not token.startswith(_BEGINNINGS) for place, token in enumerate(tokens)]
        return list(zip(map(spelt_out, shown) if in_bytes else shown, inside, strict=True))
    glued = [place > 0 and len(token) > 2 and token.startswith("##") for place, token in enumerate(tokens)]
    return [(token[2:] if inside else token, inside) for token, inside in zip(tokens, glued, strict=True)]


def spelt_out(text: str) -> str:
    r"""Return what a token of a byte-level vocabulary spells, or the token as it is where it ends inside a letter.

    >>> spelt_out("caf\u00c3\u00a9") == "caf\u00e9", spelt_out("\u00e2\u0122") == "\u00e2\u0122"
    (True, True)
    """
    letters = _letters_of_bytes()
    try:
        return bytes(letters[letter] for letter in text).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return text


@cache
def _letters_of_bytes() -> dict[str, int]:
    """Return the byte that each letter of a byte-level vocabulary stands for, as GPT-2 has it.

    Letters that can be seen stand for themselves, those from 256 on for the other bytes in turn.
    """
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + place): byte for place, byte in enumerate(others)}


def strongest(found: list[ExemplarText]) -> list[ExemplarText]:
    """Return for each layer the exemplar with the largest score; of equals that of the first head."""
    best: dict[int, ExemplarText] = {}
    for exemplar in found:
        if exemplar.layer not in best or exemplar.score > best[exemplar.layer].score:
            best[exemplar.layer] = exemplar
    return [best[layer] for layer in sorted(best)]
