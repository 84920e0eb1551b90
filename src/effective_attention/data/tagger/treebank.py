"""CoNLL-U files, and how well a pipeline finds their tags and trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effective_attention.errors import UserError


@dataclass(frozen=True)
class Sentence:
    """Gold words of a sentence, or of several joined; ``heads`` are indices into the words, a root's is its own."""

    words: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


def read_treebank(path: Path) -> list[list[Sentence]]:
    """The documents of a CoNLL-U file as lists of sentences.

    The syntactic words are the tokens (*do*, *n't*): lines of multi-word tokens (1-2) and of empty nodes (8.1) are left out.

    Raises:
        UserError: There is no such file, or it is something else.
    """
    documents: list[list[Sentence]] = [[]]
    for new_document, number, rows in _blocks(path):
        if new_document:
            documents.append([])
        try:
            documents[-1].append(_sentence(rows))
        except (ValueError, IndexError) as error:
            raise UserError(
                f"{path}: the sentence before line {number} is not CoNLL-U; expected ten columns, heads as numbers"
            ) from error
    if documents == [[]]:
        raise UserError(f"{path}: no sentences; expected a CoNLL-U file such as en_ewt-ud-test.conllu")
    return [document for document in documents if document]


def join(sentences: Sequence[Sentence]) -> Sentence:
    """Consecutive sentences as one text, with as many roots."""
    heads: list[int] = []
    for sentence in sentences:
        base = len(heads)
        heads += [base + head for head in sentence.heads]
    words, upos, xpos, relations = (
        tuple(entry for sentence in sentences for entry in getattr(sentence, name))
        for name in ("words", "upos", "xpos", "relations")
    )
    return Sentence(words, upos, xpos, tuple(heads), relations)


def scores(nlp: Any, texts: Sequence[Sentence], *, punctuation: bool = True) -> dict[str, float]:
    """Share of words with the right tag, head, and head and relation, given the gold words.

    Args:
        nlp: A spaCy pipeline.
        texts: One sentence each, or several joined; where sentences end is for the pipeline to find.
        punctuation: Whether punctuation counts.
    """
    from spacy.tokens import Doc

    hits, total = dict.fromkeys(("UPOS", "XPOS", "UAS", "LAS"), 0), 0
    docs = nlp.pipe((Doc(nlp.vocab, words=list(text.words)) for text in texts), batch_size=128)
    for gold, doc in zip(texts, docs, strict=True):
        for token, upos, xpos, head, relation in zip(doc, gold.upos, gold.xpos, gold.heads, gold.relations, strict=True):
            if not punctuation and upos == "PUNCT":
                continue
            total += 1
            hits["UPOS"] += token.pos_ == upos
            hits["XPOS"] += token.tag_ == xpos
            hits["UAS"] += token.head.i == head
            hits["LAS"] += token.head.i == head and token.dep_.lower() == relation
    return {name: count / total for name, count in hits.items()}


def _blocks(path: Path) -> Iterator[tuple[bool, int, list[list[str]]]]:
    """Sentence by sentence: whether a document starts with it, the line after it, and the rows of its words."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not valid UTF-8"
        raise UserError(
            f"treebank {path} cannot be read ({reason}); expected a CoNLL-U file of Universal Dependencies"
        ) from error
    new_document, rows = False, []
    for number, line in enumerate([*lines, ""], start=1):
        if line.startswith("#"):
            new_document |= line.startswith("# newdoc")
        elif line:
            cells = line.split("\t")
            rows += [cells] if "-" not in cells[0] and "." not in cells[0] else []
        elif rows:
            yield new_document, number, rows
            new_document, rows = False, []


def _sentence(rows: Sequence[Sequence[str]]) -> Sentence:
    _, words, _, upos, xpos, _, heads, relations, _, _ = zip(*rows, strict=True)
    indices = tuple(int(head) - 1 if head != "0" else index for index, head in enumerate(heads))
    if max(indices) >= len(words):
        raise IndexError(max(indices))
    return Sentence(words, upos, xpos, indices, relations)
