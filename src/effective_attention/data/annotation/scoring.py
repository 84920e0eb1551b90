"""Read the documents of a treebank, and score how well a pipeline finds their tags and trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from effective_attention.data.annotation.conllu import read_conllu


@dataclass(frozen=True)
class Sentence:
    """Gold words of one or several sentences; ``heads`` are indices into the words, a root is its own head."""

    words: tuple[str, ...]
    upos: tuple[str, ...]
    xpos: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


def read_treebank(path: Path) -> list[list[Sentence]]:
    """Read the documents of a CoNLL-U file as lists of sentences; see `conllu.read_conllu`."""
    documents: list[list[Sentence]] = []
    for found in read_conllu(path):
        if found.opens_document or not documents:
            documents.append([])
        words = found.words
        documents[-1].append(Sentence(found.forms, words.upos, words.xpos, words.head, words.relation))
    return documents


def join(sentences: Sequence[Sentence]) -> Sentence:
    """Join consecutive sentences to one text, which keeps the root of each."""
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
    """Return the share of words with the right tag, the right head, and both right head and relation, given gold words.

    Args:
        nlp: A spaCy pipeline.
        texts: One sentence each, or several joined; where sentences end is for the pipeline to find.
        punctuation: Whether punctuation counts.
    """
    from spacy.tokens import Doc

    hits = dict.fromkeys(("UPOS", "XPOS", "UAS", "LAS"), 0)
    total = 0
    docs = nlp.pipe((Doc(nlp.vocab, words=list(text.words)) for text in texts), batch_size=128)
    for gold, doc in zip(texts, docs, strict=True):
        for token, upos, xpos, head, relation in zip(
            doc, gold.upos, gold.xpos, gold.heads, gold.relations, strict=True
        ):
            if not punctuation and upos == "PUNCT":
                continue
            total += 1
            hits["UPOS"] += token.pos_ == upos
            hits["XPOS"] += token.tag_ == xpos
            hits["UAS"] += token.head.i == head
            hits["LAS"] += token.head.i == head and token.dep_.lower() == relation
    return {name: count / total for name, count in hits.items()}
