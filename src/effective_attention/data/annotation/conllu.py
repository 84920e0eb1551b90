"""Read CoNLL-U, the files of Universal Dependencies treebanks: gold words, parts of speech and dependency trees.

A word lies where its form stands in the sentence's text, which is the comment ``# text = ``, or else the forms joined
as ``SpaceAfter=No`` says. The words of a multi-word token (``2-3 don't``) share its characters: *do* and *n't* divide
them, because joined they are the token; of those that are not (French *du*, which is *de le*) each has all of them, and
as a sub-token belongs to the first word it shares a character with, only the first word gets tokens. Empty nodes
(``8.1``) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from effective_attention.data.annotation.pipelines import UPOS, TaggedText
from effective_attention.data.tables import numbered_lines
from effective_attention.errors import UserError, quoted

_COLUMNS = 10
_IDENTIFIER = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|(\.[0-9]{1,9}))?")
_HEAD = re.compile(r"[0-9]{1,9}")
_TEXT = re.compile(r"#\s*text\s*=\s*(.*)")
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b")


@dataclass(frozen=True)
class GoldSentence:
    """One sentence of a treebank.

    Attributes:
        text: The sentence as it was written.
        forms: The syntactic words (*do*, *n't*), which may differ from the characters they lie on.
        words: Where each lies in the text, its tags (X where the file has no part of speech), head and relation.
        opens_document: Whether a document begins with it.
    """

    text: str
    forms: tuple[str, ...]
    words: TaggedText
    opens_document: bool = False


class BrokenSentenceError(UserError):
    """A sentence that does not keep to the CoNLL-U format."""


@dataclass(frozen=True)
class _Row:
    path: Path
    number: int
    cells: list[str]

    @property
    def form(self) -> str:
        return self.cells[1]

    def refuse(self, problem: str) -> NoReturn:
        raise BrokenSentenceError(f"{self.path}, line {self.number}: {problem}")


@dataclass(frozen=True)
class _Surface:
    """What stands between blanks: one word or a multi-word token; it holds the words from ``first`` up to ``end``."""

    row: _Row
    first: int
    end: int


@dataclass
class _Block:
    """The lines of one sentence, which a blank line ends."""

    opens_document: bool = False
    text: str = ""
    rows: list[tuple[int, str]] = field(default_factory=list)


def read_conllu(path: Path, *, broken: list[BrokenSentenceError] | None = None) -> Iterator[GoldSentence]:
    """Read the sentences of a file, one by one.

    Args:
        path: The file.
        broken: Where to put the errors of sentences that cannot be read, which are then left out; None: the first is
            raised.

    Raises:
        UserError: There is no such file, a line is wrong (with its number), or there is not one sentence.
    """
    count = 0
    for block in _blocks(path):
        try:
            sentence = _sentence(path, block)
        except BrokenSentenceError as error:
            if broken is None:
                raise
            broken.append(error)
            continue
        count += 1
        yield sentence
    if not count:
        left_out = f" ({len(broken)} broken ones left out)" if broken else ""
        raise UserError(f"{path}: no sentences{left_out}; expected a CoNLL-U file such as en_ewt-ud-test.conllu")


def _blocks(path: Path) -> Iterator[_Block]:
    block = _Block()
    try:
        for number, line in numbered_lines(path):
            if line.startswith("#"):
                _read_comment(line, block)
            elif line.strip():
                block.rows.append((number, line.rstrip("\r\n")))
            elif block.rows:
                yield block
                block = _Block()
            else:
                block.text = ""  # of comments without a sentence
    except OSError as error:
        raise UserError(
            f"treebank {path} cannot be read ({error.strerror}); expected a CoNLL-U file of Universal Dependencies"
        ) from error
    if block.rows:
        yield block


def _read_comment(line: str, block: _Block) -> None:
    text = _TEXT.match(line)
    if text is not None:
        block.text = text[1].rstrip()
    block.opens_document |= _NEW_DOCUMENT.match(line) is not None


def _sentence(path: Path, block: _Block) -> GoldSentence:
    words, surfaces = _words_and_surfaces([_row(path, number, line) for number, line in block.rows])
    text = block.text or _joined(surfaces)
    start, end = zip(*_spans(text, surfaces, words), strict=True)
    return GoldSentence(
        text,
        forms=tuple(word.form for word in words),
        words=TaggedText(
            start=start,
            end=end,
            upos=tuple(_upos(word) for word in words),
            xpos=tuple("" if word.cells[4] == "_" else word.cells[4] for word in words),
            head=tuple(_head(word, index, len(words)) for index, word in enumerate(words)),
            relation=tuple(word.cells[7].lower() for word in words),
        ),
        opens_document=block.opens_document,
    )


def _row(path: Path, number: int, line: str) -> _Row:
    row = _Row(path, number, line.split("\t"))
    count = len(row.cells)
    if count != _COLUMNS:
        row.refuse(
            f"{count} column{'s' * (count != 1)}, expected {_COLUMNS} with tabs between them; give a CoNLL-U file"
        )
    if not row.form.strip():
        row.refuse("the form is empty; write the word in the second column")
    return row


def _words_and_surfaces(rows: Sequence[_Row]) -> tuple[list[_Row], list[_Surface]]:
    """Return the syntactic words and the surface tokens they stand in; refuse ids that do not count up."""
    words: list[_Row] = []
    surfaces: list[_Surface] = []
    covered = 0  # words up to this one lie in a multi-word token
    for row in rows:
        last, is_empty_node = _identifier(row, following=len(words) + 1, covered=covered)
        if is_empty_node:
            continue
        if last is not None:
            covered = last
            surfaces.append(_Surface(row, len(words), covered))
            continue
        if len(words) >= covered:
            surfaces.append(_Surface(row, len(words), len(words) + 1))
        words.append(row)
    if not words:
        rows[0].refuse("no word in the sentence; delete it")
    if covered > len(words):
        surfaces[-1].row.refuse(
            f"the multi-word token {quoted(surfaces[-1].row.cells[0])} goes on after the sentence; correct its id"
        )
    return words, surfaces


def _identifier(row: _Row, *, following: int, covered: int) -> tuple[int | None, bool]:
    """Return the last word of a multi-word token (None for any other row), and whether the row is an empty node."""
    found = _IDENTIFIER.fullmatch(row.cells[0])
    if found is None or int(found[1]) != (following - 1 if found[3] else following):
        hint = "count up from 1, and end a sentence with a blank line"
        row.refuse(f"id {quoted(row.cells[0])} where {following} should follow; {hint}")
    last = int(found[2]) if found[2] else None
    if last is not None and (last < following or following <= covered):
        row.refuse(f"the multi-word token {quoted(row.cells[0])} is empty or begins in another; correct its id")
    return last, bool(found[3])


def _joined(surfaces: Sequence[_Surface]) -> str:
    """Join the forms to a text, as ``SpaceAfter=No`` says."""
    blanks = ["" if "SpaceAfter=No" in surface.row.cells[9].split("|") else " " for surface in surfaces]
    return "".join(surface.row.form + blank for surface, blank in zip(surfaces, blanks, strict=True)).rstrip()


def _spans(text: str, surfaces: Sequence[_Surface], words: Sequence[_Row]) -> Iterator[tuple[int, int]]:
    """Yield where each word starts in the text, and one past where it ends."""
    position = 0
    for surface in surfaces:
        form = surface.row.form
        position = len(text) - len(text[position:].lstrip())
        if not text.startswith(form, position):
            rest = text[position : position + 30]
            surface.row.refuse(
                f"the form {quoted(form)} is not what comes next in the text ({quoted(rest)}); {_CORRECT_TEXT}"
            )
        yield from _divided(position, form, [word.form for word in words[surface.first : surface.end]])
        position += len(form)
    if text[position:].strip():
        surfaces[-1].row.refuse(
            f"the text goes on after the last form ({text[position:].strip()[:30]!r}); {_CORRECT_TEXT}"
        )


_CORRECT_TEXT = "correct the comment '# text =', or delete it: the text is then made of the forms"


def _divided(start: int, surface: str, forms: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the characters of each word of a surface token.

    The words divide the token's characters if joined they are the token; else each has all of them.
    """
    joined = "".join(forms)
    if len(joined) != len(surface) or joined.lower() != surface.lower():
        yield from ((start, start + len(surface)) for _ in forms)
        return
    for form in forms:
        yield start, start + len(form)
        start += len(form)


def _upos(word: _Row) -> str:
    tag = word.cells[3]
    if tag != "_" and tag not in UPOS:
        word.refuse(f"the part of speech {quoted(tag)} is not universal; expected _ or one of {', '.join(UPOS)}")
    return "X" if tag == "_" else tag


def _head(word: _Row, index: int, count: int) -> int:
    """Read the index of a word's head; a root is its own head."""
    cell = word.cells[6]
    head = int(cell) if _HEAD.fullmatch(cell) else count + 1
    if head > count or head == index + 1:
        word.refuse(
            f"the head must be the number of another word, up to {count}, or 0 for the root, "
            f"got {quoted(cell)}; correct it"
        )
    return head - 1 if head else index
