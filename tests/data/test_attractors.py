"""Attractors of real sentences: nouns of the other number between subject and verb, by a tagger; rare words' tags."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from effective_attention.data.agreement.attractors import Clause, find_attractors
from effective_attention.data.annotation.pipelines import TaggedText
from effective_attention.data.sources import LocalSource
from effective_attention.data.tables import Marks
from effective_attention.errors import UserError
from helpers.paths import DATA

REAL = DATA / "agreement"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason=f"the files of Linzen et al. are not at {REAL}")
HEADER = "sentence\tsubj_idx\tverb_idx\tverb_pos\tverb\tinflected_verb\n"
FILTERED = "sentence\tverb_idx\tverb\tinflected_verb\tattractors\n"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep attractors that were found out of the user's cache."""
    monkeypatch.setenv("EFFECTIVE_ATTENTION_CACHE", str(tmp_path_factory.getbasetemp() / "attractors"))


class Letters:
    """A tagger that says NNS of what ends in s, NN of the rest, and counts what it is asked."""

    name = "letters"
    version = "1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        self.asked += texts
        return [self._tag(text) for text in texts]

    def _tag(self, text: str) -> TaggedText:
        words = text.split(" ")
        ends = [sum(len(word) + 1 for word in words[: place + 1]) - 1 for place in range(len(words))]
        starts = [end - len(word) for word, end in zip(words, ends, strict=True)]
        tags = tuple("NNS" if word.endswith("s") else "NN" for word in words)
        heads = tuple(range(len(words)))
        return TaggedText(tuple(starts), tuple(ends), tags, tags, heads, tags)


def clause(text: str, subject: int, verb: int, *, plural: bool) -> Clause:
    return Clause(tuple(text.split(" ")), subject, verb, plural)


def test_nouns_of_the_other_number_between_subject_and_verb() -> None:
    one = clause("cars keys cabinets room doors is lost things", 1, 5, plural=False)
    assert find_attractors([one], tagger=Letters()) == [(2, 4)]
    other = clause("cars keys cabinets room doors are lost things", 1, 5, plural=True)
    assert find_attractors([other], tagger=Letters()) == [(3,)]


def test_a_rare_words_tag_counts_and_the_tagger_reads_a_word() -> None:
    tagger = Letters()
    sentence = clause("key NNS NN NNPS NNP JJ is", 0, 6, plural=False)
    assert find_attractors([sentence], tagger=tagger) == [(1, 3)]
    assert tagger.asked == ["key things thing Americans London new is"]
    assert find_attractors([clause("keys NNS NN NNPS NNP JJ are", 0, 6, plural=True)], tagger=tagger)[0][:2] == (2, 4)


def test_only_sentences_with_something_between_are_tagged_and_what_was_found_is_kept(tmp_path: Path) -> None:
    sentences = [clause("the key is", 1, 2, plural=False), clause("the key of cars is", 1, 4, plural=False)]
    tagger = Letters()
    assert find_attractors(sentences, tagger=tagger, cache_dir=tmp_path) == [(), (3,)]
    assert tagger.asked == ["the key of cars is"]
    assert find_attractors(sentences, tagger=tagger, cache_dir=tmp_path) == [(), (3,)]
    assert len(tagger.asked) == 1
    assert find_attractors(sentences[:1], tagger=tagger, cache_dir=tmp_path) == [()]
    (kept, *_) = sorted(tmp_path.glob("*.npz"))
    kept.write_bytes(b"damaged")
    assert find_attractors(sentences, tagger=tagger, cache_dir=tmp_path) == [(), (3,)]


@pytest.mark.parametrize("text", ["don 't ask", "co-op owner 's"])
def test_words_that_a_tagger_divides_keep_their_places(text: str) -> None:
    words = f"keys {text} cabinet are"
    verb = words.count(" ")
    found = find_attractors([clause(words, 0, verb, plural=True)])
    assert verb - 1 in found[0]


# --- in the files ---


@pytest.fixture(scope="module")
def task(make_task: Any) -> Any:
    return make_task("agreement")


def write(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content, encoding="utf-8")


def test_files_are_marked_and_know_their_verbs(task: Any, tmp_path: Path) -> None:
    rows = (
        "broken\nthe key to the old cabinets IS lost .\t1\t6\tVBZ\tIS\tare\nNNS of NN VBP .\t0\t3\tVBP\treact\treacts\n"
    )
    write(tmp_path, "linzen_dev.tsv", HEADER + rows)
    examples = LocalSource(tmp_path, skip_broken_rows=True).load(task, "validation")
    assert examples.marks == [Marks((4, 7), ((19, 27),)), Marks((0, 3), ((7, 9),))]
    assert examples.verbs == [("is", "are"), ("reacts", "react")]
    assert examples.choose([1]).verbs == [("reacts", "react")]


def test_sentences_with_so_many_attractors(task: Any, tmp_path: Path) -> None:
    from dataclasses import replace

    rows = ("the key to the cabinets is\t1\t5\tVBZ\tis\tare", "the key is\t1\t2\tVBZ\tis\tare")
    write(tmp_path, "linzen_dev.tsv", HEADER + "\n".join(rows) + "\n")
    write(
        tmp_path,
        "linzen_filtered.tsv",
        FILTERED + "he is\t1\tis\tare\t0\nshe has\t1\thas\thave\t2\nit is\t1\tis\tare\t?\n",
    )

    def load(least: Any, split: str) -> Any:
        loaders = {"local": {**task.loaders["local"], "attractors": least}}
        return LocalSource(tmp_path).load(replace(task, loaders=loaders), split)

    assert load(1, "validation").texts == [("the key to the cabinets",)]
    assert load(1, "train").texts == [("she",)]
    assert load(0, "train").verbs == [("is", "are"), ("has", "have"), ("is", "are")]
    with pytest.raises(
        UserError, match=r"loaders\.local\.attractors=3: no sentence of .*dev\.tsv has so many, .* are 1"
    ):
        load(3, "validation")
    for wrong in (-1, True, "two"):
        with pytest.raises(UserError, match=r"loaders\.local\.attractors must be a whole number, at least 0, got"):
            load(wrong, "validation")


def test_a_sentence_that_begins_with_nothing_is_refused(task: Any, tmp_path: Path) -> None:
    write(tmp_path, "linzen_dev.tsv", HEADER + " is it\t0\t1\tVBZ\tis\tare\n")
    with pytest.raises(UserError, match=r"line 2: the text in 'sentence' is empty; correct it"):
        LocalSource(tmp_path).load(task, "validation")


@needs_real
@pytest.mark.parametrize(("split", "count"), [("validation", 97), ("test", 364)])
def test_real_files_with_attractors(split: str, count: int, task: Any) -> None:
    examples = LocalSource(REAL).load(task, split)
    marked = [marks for marks in examples.marks if marks.attractors]
    assert len(marked) == count
    assert all(span[0] > marks.subject[1] for marks in marked for span in marks.attractors)
    assert sum(one == other for one, other in examples.verbs) < 10, "two forms, but for what is no verb's number"
