"""Match words with sub-tokens: both know which characters of the text they cover."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention.data.annotation.pipelines import PENN, UPOS, TaggedText

KINDS = ("word", "punctuation", "cls", "sep", "other special")
NO_WORD = -1  # a special token, or one outside of any word
CUT_AWAY = -2  # the head of a word, where it has no token itself
_WORD, _PUNCTUATION, _CLS, _SEP, _OTHER = range(len(KINDS))
_UPOS_INDEX = {name: index for index, name in enumerate(UPOS)}
_PENN_INDEX = {name: index for index, name in enumerate(PENN)}
_DTYPES = {"word": np.int32, "upos": np.int8, "xpos": np.int8, "head": np.int32, "relation": np.int16}
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Words:
    """The words of an example's texts, numbered from the first text through the second.

    Attributes:
        start: First character of each, in its own text.
        end: One past the last.
        upos: Index into `UPOS`.
        xpos: Index into `PENN`; -1: the finer tag is none of them.
        head: Number of each word's head.
        relation: Number of its relation.
        bounds: Text ``i`` has the words from ``bounds[i]`` to ``bounds[i + 1]``.
    """

    start: tuple[int, ...]
    end: tuple[int, ...]
    upos: NDArray[np.int64]
    xpos: NDArray[np.int64]
    head: NDArray[np.int64]
    relation: NDArray[np.int64]
    bounds: tuple[int, ...]

    def at(self, text: int, start: int, end: int) -> int:
        """Return the first word of a text that shares a character with ``start`` to ``end``, or `NO_WORD`."""
        low, high = self.bounds[text], self.bounds[text + 1]
        word = bisect_right(self.end, start, low, high)
        return word if word < high and self.start[word] < end else NO_WORD


def join_words(texts: Sequence[TaggedText], relations: Mapping[str, int]) -> Words:
    """Join the words of one or two texts to one list, numbered from the first text through the second."""
    bounds = tuple(np.cumsum([0, *map(len, texts)]).tolist())
    return Words(
        start=tuple(chain.from_iterable(text.start for text in texts)),
        end=tuple(chain.from_iterable(text.end for text in texts)),
        upos=np.array([_UPOS_INDEX[name] for text in texts for name in text.upos], dtype=np.int64),
        xpos=np.array([_PENN_INDEX.get(name, NO_WORD) for text in texts for name in text.xpos], dtype=np.int64),
        head=np.array(
            [base + head for text, base in zip(texts, bounds, strict=False) for head in text.head], dtype=np.int64
        ),
        relation=np.array([relations[name] for text in texts for name in text.relation], dtype=np.int64),
        bounds=bounds,
    )


def align(encoding: Any, texts: Sequence[str], words: Words | None, special: Mapping[int, int]) -> Arrays:
    """Tell what each token of one example is; `tagging.Annotated` explains the arrays.

    Args:
        encoding: The encoding of the tokenizers library: ids, offsets, and which text each token is from.
        texts: The example's texts.
        words: Their words; None: not known.
        special: Kinds of the tokens that stand for no text, see `special_kinds`.
    """
    raw = np.full(len(encoding.ids), NO_WORD)
    kind = np.full(len(encoding.ids), _OTHER, dtype=np.int8)
    for token, (number, text, (start, end)) in enumerate(
        zip(encoding.ids, encoding.sequence_ids, encoding.offsets, strict=True)
    ):
        if text is None or number in special:
            kind[token] = special.get(number, _OTHER)
            continue
        covered = texts[text][start:end].lstrip()  # byte-level tokenizers may count the space before a word
        kind[token] = _PUNCTUATION if is_punctuation(covered.rstrip()) else _WORD
        if words is not None:
            raw[token] = words.at(text, end - len(covered), end)
    return {"kind": kind, **_of_words(raw, words)}


def special_kinds(tokenizer: Tokenizer) -> dict[int, int]:
    """Return the ids of special tokens and their kinds; the unknown token is not one, as it stands for a word."""
    special = {number: _OTHER for number in tokenizer.all_special_ids if number != tokenizer.unk_token_id}
    delimiters = {tokenizer.sep_token_id: _SEP, tokenizer.cls_token_id: _CLS}
    return special | {number: kind for number, kind in delimiters.items() if number is not None}


def sets_delimiters(tokenizer: Tokenizer) -> bool:
    """Tell whether a tokenizer sets [CLS] and [SEP], or what stands for them, around a text."""
    kinds = special_kinds(tokenizer)
    set_here = {kinds.get(number) for number in tokenizer("some words")["input_ids"]}
    return {_CLS, _SEP} <= set_here


@lru_cache(maxsize=100_000)
def is_punctuation(text: str) -> bool:
    """Tell whether a text is not empty and all its characters are punctuation or symbols, by Unicode category.

    >>> is_punctuation("..."), is_punctuation("$"), is_punctuation("'s"), is_punctuation("")
    (True, True, False, False)
    """
    return bool(text) and all(unicodedata.category(character)[0] in "PS" for character in text)


def _of_words(raw: NDArray[np.int64], words: Words | None) -> Arrays:
    """Return the facts of the words that tokens belong to, numbering only words that have a token, from 0."""
    known = raw != NO_WORD
    present, firsts, numbers = np.unique(raw[known], return_index=True, return_inverse=True)
    first = np.zeros(len(raw), dtype=np.bool_)
    first[np.flatnonzero(known)[firsts]] = True
    arrays = {name: np.full(len(raw), NO_WORD, dtype) for name, dtype in _DTYPES.items()}
    if words is not None:
        new_number = np.full(len(words.start), CUT_AWAY)
        new_number[present] = np.arange(len(present))
        arrays["word"][known] = numbers
        arrays["upos"][known] = words.upos[raw[known]]
        arrays["xpos"][known] = words.xpos[raw[known]]
        arrays["head"][known] = new_number[words.head[raw[known]]]
        arrays["relation"][known] = words.relation[raw[known]]
    return {"first": first, **arrays}
