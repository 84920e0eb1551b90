"""What each sub-token of a split is: its word, the word's part of speech and head, or punctuation or a delimiter.

Words come from a tagger, sub-tokens from the model's tokenizer, and they meet through character offsets: a sub-token
belongs to the first word it shares a character with. Where the data has gold words (a treebank does), these count,
whatever the tagger. Which tokens are punctuation or delimiters is read off the tokens themselves, so that much works
without either. Everything is kept on disk under a key of all it depends on, as token ids are.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention.data.annotation.alignment import (
    CUT_AWAY,
    KINDS,
    NO_WORD,
    Arrays,
    align,
    join_words,
    sets_delimiters,
    special_kinds,
)
from effective_attention.data.annotation.pipelines import PENN, UPOS, EmbeddedTagger, SpacyTagger, TaggedText, Tagger
from effective_attention.data.encoding import encoding_key
from effective_attention.data.tables import Marks
from effective_attention.io import read_arrays, write_arrays
from effective_attention.progress import Progress

__all__ = [
    "CUT_AWAY", "KINDS", "NO_WORD", "PENN", "ROLES", "UPOS", "Annotated", "EmbeddedTagger", "SpacyTagger",
    "TaggedText", "Tagger", "annotate", "sets_delimiters", "token_roles",
]  # fmt: skip

ROLES = ("other", "subject", "attractor")
"""What a token of a marked word is to the answer; see `tables.Marks`."""
Gold = Sequence[tuple[TaggedText, ...]] | None  # the words of each text of each example, where they are known
_CHUNK = 1000  # examples at a time: bounds memory, and is the step of the progress that is shown


@dataclass(frozen=True)
class Annotated:
    """What each sub-token of many examples is, end to end in flat arrays that lie beside those of `encoding.Encoded`.

    Attributes:
        word: Number of the token's word within the example, counted over both texts, words without a token left out;
            -1: no word.
        upos: The word's part of speech, an index into `UPOS`; -1: no word.
        xpos: Its finer tag, an index into `PENN`; -1: no word, or a tag of another kind.
        head: Number of the word that is the word's head, its own for a root; -1: no word; -2: the head has no token, be
            it cut away or, rarely, covered by the token of another word (*not* in *cannot*).
        relation: The word's relation to its head, an index into ``relations``; -1: no word.
        first: Whether the token is the first of its word.
        kind: An index into `KINDS`; a piece of a word that is all punctuation (the ' of *don't*) is punctuation.
        offsets: Example ``i`` is ``word[offsets[i] : offsets[i + 1]]``.
        relations: The names of the relations.
    """

    word: NDArray[np.int32]
    upos: NDArray[np.int8]
    xpos: NDArray[np.int8]
    head: NDArray[np.int32]
    relation: NDArray[np.int16]
    first: NDArray[np.bool_]
    kind: NDArray[np.int8]
    offsets: NDArray[np.int64]
    relations: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def span(self, index: int) -> slice:
        """Return where example ``index`` lies in the arrays."""
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))


_PER_TOKEN = ("word", "upos", "xpos", "head", "relation", "first", "kind")


def annotate(
    texts: Sequence[tuple[str, ...]],
    tokenizer: Tokenizer,
    max_length: int,
    tagger: Tagger | None,
    cache_dir: Path | None,
    progress: bool = False,
    gold: Gold = None,
) -> Annotated:
    """Annotate the sub-tokens that `encoding.encode` makes of the same texts, from the cache if it was done before.

    Args:
        texts: One or two texts an example.
        tokenizer: The model's tokenizer; a fast one, for its offsets.
        max_length: The maximum length given to `encoding.encode`.
        tagger: None: only ``kind`` is found, and no token has a word.
        cache_dir: None: nothing is kept.
        progress: Show how far it has got, where it takes long.
        gold: The words of each text, known beforehand (`examples.Examples.words`); the tagger is then not asked.
    """
    if cache_dir is None:
        return _annotate(texts, tokenizer, max_length, tagger, progress, gold)
    path = cache_dir / f"{_key(texts, tokenizer, max_length, tagger, gold)}.npz"
    found = read_arrays(path, lambda arrays: _build(arrays, len(texts)), "annotation")
    if found is not None:
        return found
    annotated = _annotate(texts, tokenizer, max_length, tagger, progress, gold)
    write_arrays(path, _arrays(annotated), "annotation")
    return annotated


def token_roles(
    texts: Sequence[tuple[str, ...]], marks: Sequence[Marks], tokenizer: Tokenizer, max_length: int
) -> list[NDArray[np.int64]]:
    """Tell the role of each sub-token of each example: that of the marked word it shares a character with.

    A role is an index into `ROLES`.

    Every sub-token of a marked word has its role; what was cut away at ``max_length`` has none. Fast enough to be asked
    batch by batch, so nothing is kept.
    """
    columns = [list(column) for column in zip(*texts, strict=True)]
    batch = tokenizer(*columns, truncation="longest_first", max_length=max_length)
    return [_roles(encoding, mark) for encoding, mark in zip(batch.encodings, marks, strict=True)]


def _roles(encoding: Any, marks: Marks) -> NDArray[np.int64]:
    roles = np.zeros(len(encoding.ids), dtype=np.int64)
    in_text = np.array([text == 0 for text in encoding.sequence_ids])  # marks are of the first text
    starts, ends = np.array(encoding.offsets).T
    for role, spans in ((ROLES.index("attractor"), marks.attractors), (ROLES.index("subject"), (marks.subject,))):
        for start, end in spans:
            roles[in_text & (starts < end) & (ends > start)] = role
    return roles


def _annotate(
    texts: Sequence[tuple[str, ...]],
    tokenizer: Tokenizer,
    max_length: int,
    tagger: Tagger | None,
    progress: bool,
    gold: Gold,
) -> Annotated:
    """Annotate all examples, a chunk at a time."""
    rows: list[Arrays] = []
    relations: defaultdict[str, int] = defaultdict()
    relations.default_factory = relations.__len__  # numbered as they come
    is_shown = progress and len(texts) > _CHUNK
    with Progress("parts of speech", len(texts), "examples") if is_shown else nullcontext() as shown:
        for start, words in zip(range(0, len(texts), _CHUNK), _words(texts, tagger, gold), strict=True):
            chunk = texts[start : start + _CHUNK]
            rows += _rows(chunk, tokenizer, max_length, words, relations)
            if shown is not None:
                shown.advance(len(chunk))
    joined: dict[str, Any] = {name: np.concatenate([row[name] for row in rows]) for name in _PER_TOKEN}
    return Annotated(**joined, offsets=np.cumsum([0, *(len(row["kind"]) for row in rows)]), relations=tuple(relations))


def _words(texts: Sequence[tuple[str, ...]], tagger: Tagger | None, gold: Gold) -> Iterator[Gold]:
    """Yield the words of each chunk of texts.

    A text is tagged once, and its words are kept no longer than they are needed.
    """
    tagged: dict[str, TaggedText] = {}
    last_use = {part: index for index, text in enumerate(texts) for part in text}
    for start in range(0, len(texts), _CHUNK):
        chunk = texts[start : start + _CHUNK]
        if gold is not None:
            yield gold[start : start + _CHUNK]
        elif tagger is not None:
            fresh = [part for part in dict.fromkeys(part for text in chunk for part in text) if part not in tagged]
            tagged |= zip(fresh, tagger.tag(fresh), strict=True)
            yield [tuple(tagged[part] for part in text) for text in chunk]
            tagged = {part: words for part, words in tagged.items() if last_use[part] >= start + _CHUNK}
        else:
            yield None


def _rows(
    texts: Sequence[tuple[str, ...]], tokenizer: Tokenizer, max_length: int, words: Gold, relations: Mapping[str, int]
) -> Iterable[Arrays]:
    """Annotate each example of a chunk; the tokenizer is called just as `encoding.encode` does, for the same tokens."""
    columns = [list(column) for column in zip(*texts, strict=True)]
    batch = tokenizer(*columns, truncation="longest_first", max_length=max_length)
    special = special_kinds(tokenizer)
    for text, tokens, known in zip(
        texts, batch.encodings, repeat(None, len(texts)) if words is None else words, strict=True
    ):
        yield align(tokens, text, None if known is None else join_words(known, relations), special)


def _key(
    texts: Sequence[tuple[str, ...]], tokenizer: Tokenizer, max_length: int, tagger: Tagger | None, gold: Gold = None
) -> str:
    """Hash all that decides the annotation: the tokens, the special ones, and the tagger or the gold words."""
    tokens = encoding_key(texts, tokenizer, max_length)
    special = sorted(special_kinds(tokenizer).items())
    who: object = None
    if gold is not None:
        who = ("gold", hashlib.sha256(repr(list(gold)).encode()).hexdigest())
    elif tagger is not None:
        who = (tagger.name, tagger.version)
    return hashlib.sha256(repr(("annotated", 2, tokens, special, who)).encode()).hexdigest()[:32]


def _build(arrays: Mapping[str, NDArray[Any]], count: int) -> Annotated:
    found: dict[str, Any] = {name: arrays[name] for name in Annotated.__dataclass_fields__}
    annotated = Annotated(**found | {"relations": tuple(found["relations"].tolist())})
    if len(annotated) != count or {len(found[name]) for name in _PER_TOKEN} != {int(annotated.offsets[-1])}:
        raise ValueError("its arrays do not fit together")
    return annotated


def _arrays(annotated: Annotated) -> dict[str, Any]:
    arrays: dict[str, Any] = {name: getattr(annotated, name) for name in Annotated.__dataclass_fields__}
    return arrays | {"relations": np.array(annotated.relations, dtype=np.str_)}
