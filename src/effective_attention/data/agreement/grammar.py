"""A grammar that writes sentences up to their verb, and knows whose number the verb must have.

The task is that of Linzen et al. (2016) as Abnar & Zuidema (2020) use it: given *the key to the cabinets*, is the verb
singular or plural? The sentences are our own: ``opening subject modifiers adverb``, in Linzen's spelling (lower case,
commas set apart).

* An opening goes before three subjects in four, nearly always with a noun of its own, so that the first noun is often
  not the subject: *near the cabinets ,* | *when the boys left ,* | *the teacher said that* | *the boys laughed and*.
* Modifiers stand between subject and verb: prepositional phrases, coordinated ones, relative clauses, participles,
  asides. Each noun in them either agrees with the subject (a companion) or does not (an attractor); the caller says
  how many of each.
* Only nouns show number. Determiners go with both numbers, and other verbs are in the past tense, which English does
  not inflect. So the answer hangs on one word, and to find it is to parse.

The package's docstring tells what a model could exploit. Sentences depend on the seed alone, not on machine or Python:
the only thing drawn on is ``random.Random.random``, whose sequence Python promises to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import TypeVar

from effective_attention.data.agreement import words as lexicon

Item = TypeVar("Item")
Span = tuple[int, int]

ATTRACTORS = (0,) * 15 + (1,) * 15 + (2,) * 10 + (3,) * 6 + (4,) * 4
"""How many attractors the sentences have: with both numbers, every run of 100 holds these 50 twice."""
_COMPANIONS = (0,) * 5 + (1,) * 3 + (2,) * 2
# How often each of these parts is written, as a share:
_OPENING = 0.75
_ADJECTIVE = 0.3
_ADVERB = 0.3
_ASIDE = 0.15
_MODIFIED = 0.4


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence up to its verb, and which of them decide the verb's number.

    Attributes:
        words: The words in order, punctuation included.
        subject: Place of the verb's subject in ``words``.
        attractors: Places of the nouns of the other number between subject and verb.
        plural: The subject's number, and so the verb's.
    """

    words: tuple[str, ...]
    subject: int
    attractors: tuple[int, ...]
    plural: bool

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def distance(self) -> int:
        """Return how many words stand between the subject and the verb."""
        return len(self.words) - self.subject - 1

    def span(self, place: int) -> Span:
        return word_span(self.words, place)


def word_span(words: Sequence[str], place: int) -> Span:
    """Return where a word starts and ends (one past its last character) in the words joined by blanks.

    >>> word_span(("the", "key"), 1)
    (4, 7)
    """
    start = sum(len(word) + 1 for word in words[:place])
    return start, start + len(words[place])


def generate(count: int, *, seed: int) -> list[Sentence]:
    """Generate different sentences, with the same mixture of numbers and attractors in every hundred.

    The list may therefore be cut anywhere.

    Args:
        count: How many sentences.
        seed: Another seed, other sentences; a larger count with the same seed begins with the same ones.
    """
    draw = Draw(seed)
    found: dict[tuple[str, ...], Sentence] = {}
    while len(found) < count:
        for plural, attractors in draw.shuffled(
            [(plural, number) for plural in (False, True) for number in ATTRACTORS]
        ):
            size = len(found)
            while len(found) == size:  # a sentence that was there already is drawn anew
                sentence = write_sentence(draw, plural=plural, attractors=attractors, companions=draw.one(_COMPANIONS))
                found.setdefault(sentence.words, sentence)
    return list(found.values())[:count]


def write_sentence(draw: Draw, *, plural: bool, attractors: int, companions: int) -> Sentence:
    """Write one sentence up to its verb.

    Args:
        draw: The source of chance.
        plural: Number of the subject.
        attractors: How many nouns of the other number stand between subject and verb.
        companions: How many of the subject's own number do; with ``attractors`` this sets the distance.
    """
    writer = _Writer(draw)
    if draw.chance(_OPENING):
        draw.one(_OPENINGS)(writer)
    subject = writer.noun_phrase(plural, lexicon.NOUNS)
    between = draw.shuffled([not plural] * attractors + [plural] * companions)
    while between:
        if len(between) == 1 and draw.chance(_ASIDE):
            _aside(writer, between)
        else:
            draw.one([write for need, write in _MODIFIERS if need <= len(between)])(writer, between)
    if draw.chance(_ADVERB):
        writer.add(draw.one(lexicon.ADVERBS))
    others = tuple(place for place, is_plural in writer.nouns if place > subject and is_plural != plural)
    return Sentence(tuple(writer.words), subject, others, plural)


class Draw:
    """A source of random choices that is the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random

    def one(self, choices: Sequence[Item]) -> Item:
        return choices[int(self._random() * len(choices))]

    def chance(self, share: float) -> bool:
        return self._random() < share

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        left = list(items)
        for last in range(len(left) - 1, 0, -1):
            other = int(self._random() * (last + 1))
            left[last], left[other] = left[other], left[last]
        return left


class _Writer:
    """A sentence in the making: the words so far, where nouns stand among them, and the number of each noun."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.words: list[str] = []
        self.nouns: list[tuple[int, bool]] = []

    def add(self, phrase: str) -> None:
        self.words += phrase.split()

    def some(self, phrases: Sequence[str]) -> None:
        self.add(self.draw.one(phrases))

    def noun_phrase(self, plural: bool, nouns: Sequence[tuple[str, str]]) -> int:
        """Write a determiner, perhaps an adjective, and a noun; return the noun's place among the words."""
        self.some(lexicon.DETERMINERS)
        if self.draw.chance(_ADJECTIVE):
            self.some(lexicon.ADJECTIVES)
        place = len(self.words)
        self.nouns.append((place, plural))
        self.add(self.draw.one(nouns)[plural])
        return place

    def any_number(self) -> bool:
        return self.draw.chance(0.5)


# --- between subject and verb: each takes the numbers of its nouns off the list ---


def _prepositional(writer: _Writer, numbers: list[bool]) -> None:
    writer.some(lexicon.PREPOSITIONS)
    writer.noun_phrase(numbers.pop(), lexicon.NOUNS)


def _coordinated(writer: _Writer, numbers: list[bool]) -> None:
    _prepositional(writer, numbers)
    writer.add("and")
    writer.noun_phrase(numbers.pop(), lexicon.NOUNS)


def _object_relative(writer: _Writer, numbers: list[bool]) -> None:
    writer.add("that")
    writer.noun_phrase(numbers.pop(), lexicon.PEOPLE)
    writer.some(lexicon.TRANSITIVE)


def _long_object_relative(writer: _Writer, numbers: list[bool]) -> None:
    writer.add("that")
    writer.noun_phrase(numbers.pop(), lexicon.PEOPLE)
    _prepositional(writer, numbers)
    writer.some(lexicon.TRANSITIVE)


def _subject_relative(writer: _Writer, numbers: list[bool]) -> None:
    writer.add("that")
    writer.some(lexicon.TRANSITIVE)
    writer.noun_phrase(numbers.pop(), lexicon.NOUNS)


def _participle(writer: _Writer, numbers: list[bool]) -> None:
    writer.some(lexicon.PARTICIPLES)
    writer.add("by")
    writer.noun_phrase(numbers.pop(), lexicon.PEOPLE)


def _aside(writer: _Writer, numbers: list[bool]) -> None:
    writer.add(", according to")
    writer.noun_phrase(numbers.pop(), lexicon.PEOPLE)
    writer.add(",")


_MODIFIERS: tuple[tuple[int, Callable[[_Writer, list[bool]], None]], ...] = (
    (1, _prepositional),
    (1, _prepositional),
    (1, _object_relative),
    (1, _subject_relative),
    (1, _participle),
    (2, _coordinated),
    (2, _long_object_relative),
)


# --- before the subject ---


def _someone(writer: _Writer) -> None:
    writer.noun_phrase(writer.any_number(), lexicon.PEOPLE)
    if writer.draw.chance(_MODIFIED):  # so that the first *that* need not be the one before the subject
        writer.draw.one((_prepositional, _object_relative, _subject_relative))(writer, [writer.any_number()])


def _place(writer: _Writer) -> None:
    _prepositional(writer, [writer.any_number()])
    writer.add(",")


def _circumstance(writer: _Writer) -> None:
    writer.some(lexicon.SUBORDINATORS)
    _someone(writer)
    if writer.draw.chance(0.5):
        writer.some(lexicon.INTRANSITIVE)
    else:
        writer.some(lexicon.TRANSITIVE)
        writer.noun_phrase(writer.any_number(), lexicon.NOUNS)
    writer.add(",")


def _report(writer: _Writer) -> None:
    _someone(writer)
    writer.some(lexicon.REPORTING)
    writer.add("that")


def _first_clause(writer: _Writer) -> None:
    _someone(writer)
    writer.some(lexicon.INTRANSITIVE)
    writer.some(("and", "but"))


def _phrase(writer: _Writer) -> None:
    writer.some(lexicon.PHRASES)


_OPENINGS: tuple[Callable[[_Writer], None], ...] = (
    *(_place, _circumstance, _report, _first_clause),
    *(_place, _circumstance, _report, _first_clause),
    _phrase,
)


def cut(sentences: Sequence[Sentence], counts: Sequence[int]) -> Iterator[Sequence[Sentence]]:
    """Cut the sentences into consecutive pieces of the given sizes."""
    ends = list(accumulate(counts))
    return (sentences[end - count : end] for end, count in zip(ends, counts, strict=True))
