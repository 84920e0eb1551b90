"""``data=sample`` of the agreement task: the grammar's sentences as examples, with gold positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from zlib import crc32

from effective_attention.data.agreement.grammar import Sentence, cut, generate
from effective_attention.data.agreement.words import VERBS
from effective_attention.data.examples import Examples
from effective_attention.data.tables import Marks
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError

_OPTION = "task.loaders.sample"


def generated(task: Task, split: str, *, seed: int, counts: Mapping[str, int]) -> Examples:
    """Generate a split of the agreement task.

    Splits are consecutive pieces of one list of different sentences, so no sentence is in two of them.

    Args:
        task: Has the labels singular and plural, in this order.
        split: One of ``counts``.
        seed: Seed of the sentences.
        counts: Split → how many sentences it has.
    """
    if not isinstance(seed, int) or seed < 0:
        raise UserError(f"{_OPTION}.seed must be a whole number, at least 0, got {seed!r}")
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise UserError(f"{_OPTION}.counts.{name} must be a whole number, at least 1, got {count!r}")
    if split not in counts:
        raise UserError(f"data=sample: task {task.name} has no split {split!r}; choose one of {', '.join(counts)}")
    pieces = dict(zip(counts, cut(_sentences(sum(counts.values()), seed), list(counts.values())), strict=True))
    return to_examples(pieces[split], source=f"generated {task.name}/{split}, seed {seed}")


def to_examples(sentences: Sequence[Sentence], *, source: str) -> Examples:
    """Convert sentences to the project's examples; label 0 is singular, 1 plural."""
    return Examples(
        texts=[(sentence.text,) for sentence in sentences],
        labels=[int(sentence.plural) for sentence in sentences],
        source=source,
        marks=[marks_of(sentence) for sentence in sentences],
        verbs=[verb_of(sentence) for sentence in sentences],
    )


def verb_of(sentence: Sentence) -> tuple[str, str]:
    """Return the verb that follows a sentence, singular and plural: one of ``words.VERBS``, by the sentence alone.

    No sentence of the grammar has its verb written, so that any of them would do.
    """
    return VERBS[crc32(sentence.text.encode()) % len(VERBS)]


def marks_of(sentence: Sentence) -> Marks:
    return Marks(sentence.span(sentence.subject), tuple(sentence.span(place) for place in sentence.attractors))


@cache
def _sentences(count: int, seed: int) -> tuple[Sentence, ...]:
    return tuple(generate(count, seed=seed))  # all splits at once: half a second
