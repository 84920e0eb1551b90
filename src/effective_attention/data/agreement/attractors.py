"""Attractors of real sentences: the nouns between a subject and its verb that have the other number.

Linzen et al. (2016) count them by part-of-speech tags; their files do not say where they stand, so the embedded tagger
looks (``data.annotation.pipelines``): NN and NNP are singular, NNS and NNPS plural. As with them the first parts of
compounds count too (*stone* and *age* in *stone age tools*). A rare word that was replaced by its tag has that tag; the
tagger itself is given a common word of that kind in its place, so that it can read the rest. It reads the whole
sentence; only sentences with words between subject and verb are tagged, and what was found is kept in the user's cache.

Checked on the 22 sentences that ``linzen_filtered.tsv``, which counts attractors, has too: 18 counts are the same, and
all 22 agree whether there is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from effective_attention.data.annotation.pipelines import EmbeddedTagger, TaggedText, Tagger
from effective_attention.io import read_arrays, write_arrays

_PLURAL = {"NN": False, "NNP": False, "NNS": True, "NNPS": True}
_STANDS_FOR = {
    "NN": "thing", "NNS": "things", "NNP": "London", "NNPS": "Americans", "JJ": "new", "JJR": "newer", "JJS": "newest",
    "VB": "make", "VBZ": "makes", "VBP": "make", "VBD": "made", "VBG": "making", "VBN": "made", "RB": "often",
    "CD": "12", "FW": "etc", "UH": "oh",
}  # fmt: skip
"""What the tagger is given in place of a word's tag."""


@dataclass(frozen=True)
class Clause:
    """A sentence whose subject and verb are known.

    Attributes:
        words: Of the whole sentence.
        subject: Place of the subject among them.
        verb: Place of its verb, behind the subject.
        plural: The verb's number.
    """

    words: tuple[str, ...]
    subject: int
    verb: int
    plural: bool

    @property
    def between(self) -> range:
        """Return the places between subject and verb."""
        return range(self.subject + 1, self.verb)


def find_attractors(
    clauses: Sequence[Clause], *, tagger: Tagger | None = None, cache_dir: Path | None = None
) -> list[tuple[int, ...]]:
    """Find the places of each sentence's attractors, from the cache if that was done before.

    Args:
        clauses: The sentences.
        tagger: Gives tags of the Penn Treebank; None: the embedded one.
        cache_dir: Where the result is kept; None: nowhere.
    """
    tagger = EmbeddedTagger() if tagger is None else tagger
    path = None if cache_dir is None else cache_dir / f"{_key(clauses, tagger)}.npz"
    kept = None if path is None else read_arrays(path, lambda arrays: _build(arrays, len(clauses)), "attractor")
    if kept is not None:
        return kept
    open_ones = [number for number, clause in enumerate(clauses) if clause.between]
    tagged = tagger.tag([_readable(clauses[number].words) for number in open_ones])
    found: list[tuple[int, ...]] = [()] * len(clauses)
    for number, tags in zip(open_ones, tagged, strict=True):
        found[number] = tuple(_of_other_number(clauses[number], tags))
    if path is not None:
        write_arrays(path, _arrays(found), "attractor")
    return found


def _of_other_number(clause: Clause, tagged: TaggedText) -> Iterator[int]:
    tags = _tags(clause.words, tagged)
    return (place for place in clause.between if _PLURAL.get(tags[place]) is (not clause.plural))


def _readable(words: Sequence[str]) -> str:
    """Join words, with a common word of its kind in place of each tag."""
    return " ".join(_STANDS_FOR.get(word, word) for word in words)


def _tags(words: Sequence[str], tagged: TaggedText) -> list[str]:
    """Return the tag of each word: its own where it is one, else that of the last of the tagger's words in it."""
    tags = []
    end = -1
    by_end = dict(zip(tagged.end, tagged.xpos, strict=True))
    for word in words:
        end += 1 + len(_STANDS_FOR.get(word, word))
        tags.append(word if word in _PLURAL else by_end.get(end, ""))
    return tags


# --- the cache ---


def _key(clauses: Sequence[Clause], tagger: Tagger) -> str:
    said = repr(("attractors", 1, tagger.name, tagger.version, list(clauses)))
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _arrays(found: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    places = np.array([place for places in found for place in places], dtype=np.int32)
    return {"places": places, "counts": np.array([len(places) for places in found], dtype=np.int32)}


def _build(arrays: Mapping[str, NDArray[Any]], count: int) -> list[tuple[int, ...]]:
    counts, places = arrays["counts"], arrays["places"]
    if len(counts) != count or counts.sum() != len(places):
        raise ValueError("its arrays do not fit together")
    return [tuple(part.tolist()) for part in np.split(places, np.cumsum(counts)[:-1])]
