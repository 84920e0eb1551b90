"""The agreement task: sentences of the grammar, the files of Linzen et al., and the tokens at the gold positions."""

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.data.agreement import linzen, words
from effective_attention.data.agreement.grammar import ATTRACTORS, Draw, Sentence, generate, write_sentence
from effective_attention.data.annotation.tagging import ROLES, token_roles
from effective_attention.data.examples import Examples
from effective_attention.data.sources import LocalSource, SampleSource
from effective_attention.data.tables import Marks
from effective_attention.errors import UserError
from helpers.paths import DATA

REAL = DATA / "agreement"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason=f"the files of Linzen et al. are not at {REAL}")
COUNTS = {"train": 20000, "validation": 2000, "test": 4000}
IS_PLURAL = {form: bool(number) for forms in words.NOUNS for number, form in enumerate(forms)}
NUMBERLESS = (
    words.DETERMINERS + words.ADJECTIVES + words.PREPOSITIONS + words.TRANSITIVE + words.PARTICIPLES
    + words.INTRANSITIVE + words.REPORTING + words.SUBORDINATORS + words.ADVERBS + words.PHRASES
    + ("that", "and", "but", "by", ",", "according to")
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep attractors that were found out of the user's cache."""
    monkeypatch.setenv("EFFECTIVE_ATTENTION_CACHE", str(tmp_path_factory.getbasetemp() / "attractors"))


@pytest.fixture(scope="module")
def sentences() -> list[Sentence]:
    return generate(sum(COUNTS.values()), seed=0)


@pytest.fixture(scope="module")
def task(make_task: Callable[[str], Any]) -> Any:
    return make_task("agreement")


@pytest.fixture(scope="module")
def splits(task: Any) -> dict[str, Examples]:
    return {split: SampleSource().load(task, split) for split in COUNTS}


def nouns(sentence: Sentence) -> list[int]:
    return [place for place, word in enumerate(sentence.words) if word in IS_PLURAL]


# --- the grammar ---


def test_sentences_are_the_same_on_every_machine(sentences: list[Sentence]) -> None:
    joined = "\n".join(f"{sentence.text}\t{sentence.subject}\t{sentence.attractors}" for sentence in sentences)
    assert hashlib.sha256(joined.encode()).hexdigest()[:16] == "bd4ae451f4499d46"
    assert (
        sentences[0].text
        == "her red men that saw her expensive watches smiled but the roads from their old shelf usually"
    )


def test_same_seed_same_sentences_other_seed_others(sentences: list[Sentence]) -> None:
    assert generate(500, seed=0) == sentences[:500], "a shorter list is the longer one's beginning"
    other = {sentence.text for sentence in generate(500, seed=1)}
    assert len(other & {sentence.text for sentence in sentences[:500]}) < 25, "only short ones can be in both"


def test_no_sentence_twice(sentences: list[Sentence]) -> None:
    assert len({sentence.text for sentence in sentences}) == len(sentences)


def test_every_noun_has_two_forms_and_no_form_two_meanings() -> None:
    forms = [form for pair in words.NOUNS for form in pair]
    assert len(set(forms)) == len(forms)
    assert not set(forms) & {word for phrase in NUMBERLESS for word in phrase.split()}


def test_only_nouns_show_number(sentences: list[Sentence]) -> None:
    allowed = {word for phrase in NUMBERLESS for word in phrase.split()}
    telling = {
        "a",
        "an",
        "this",
        "these",
        "that's",
        "those",
        "many",
        "is",
        "are",
        "was",
        "were",
        "has",
        "have",
        "each",
        "every",
    }
    used = {word for sentence in sentences for word in sentence.words} - set(IS_PLURAL)
    assert used <= allowed
    assert used & telling <= {"a"}, "in *as a rule*, an opening"
    assert {sentence.words[place - 1] for sentence in sentences for place in nouns(sentence)} <= {
        *words.DETERMINERS, *words.ADJECTIVES,
    }  # fmt: skip


def test_what_comes_before_a_subject_does_not_depend_on_its_number(sentences: list[Sentence]) -> None:
    counts = {
        plural: Counter(s.words[s.subject - 1] for s in sentences if s.plural == plural) for plural in (False, True)
    }
    for word in counts[True]:
        one, many = counts[False][word], counts[True][word]
        assert abs(one - many) < 5 * (one + many) ** 0.5, word


def test_the_subject_is_a_noun_of_the_labels_number(sentences: list[Sentence]) -> None:
    assert all(IS_PLURAL[sentence.words[sentence.subject]] == sentence.plural for sentence in sentences)


def test_attractors_are_all_nouns_of_the_other_number_before_the_verb(sentences: list[Sentence]) -> None:
    for sentence in sentences:
        after = [place for place in nouns(sentence) if place > sentence.subject]
        other = [place for place in after if IS_PLURAL[sentence.words[place]] != sentence.plural]
        assert list(sentence.attractors) == other


def test_every_hundred_has_the_same_mixture(sentences: list[Sentence]) -> None:
    expected = Counter((plural, number) for plural in (False, True) for number in ATTRACTORS)
    for start in range(0, len(sentences), 100):
        found = Counter((sentence.plural, len(sentence.attractors)) for sentence in sentences[start : start + 100])
        assert found == expected


@pytest.mark.parametrize("split", COUNTS)
def test_simple_rules_do_not_solve_it(split: str, sentences: list[Sentence]) -> None:
    """Check the figures in the package's docstring."""
    starts = dict(zip(COUNTS, (0, 20000, 22000), strict=True))
    chosen = sentences[starts[split] : starts[split] + COUNTS[split]]
    numbers = [[IS_PLURAL[sentence.words[place]] for place in nouns(sentence)] for sentence in chosen]
    labels = np.array([sentence.plural for sentence in chosen])
    assert labels.mean() == 0.5
    assert np.mean([found[0] for found in numbers] == labels) == pytest.approx(0.67, abs=0.03)
    assert np.mean([found[-1] for found in numbers] == labels) == pytest.approx(0.455, abs=0.03)
    votes = np.array([np.sign(np.mean(found) - 0.5) for found in numbers])
    most = np.where(votes == 0, 0.5, (votes > 0) == labels).mean()
    assert most == pytest.approx(0.59, abs=0.03)


def test_the_first_noun_is_often_not_the_subject(sentences: list[Sentence]) -> None:
    share = np.mean([nouns(sentence)[0] != sentence.subject for sentence in sentences])
    assert 0.6 < share < 0.75


def test_distance_grows_with_the_nouns_between(sentences: list[Sentence]) -> None:
    assert write_sentence(Draw(0), plural=True, attractors=0, companions=0).distance <= 2
    by_number = [np.mean([s.distance for s in sentences if len(s.attractors) == number]) for number in range(5)]
    assert by_number == sorted(by_number)
    assert max(len(sentence.words) for sentence in sentences) <= 60, "fits 128 tokens with room"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.integers(0, 6), st.integers(0, 6))
def test_the_caller_decides_number_attractors_and_companions(
    seed: int, plural: bool, attractors: int, companions: int
) -> None:
    sentence = write_sentence(Draw(seed), plural=plural, attractors=attractors, companions=companions)
    between = [IS_PLURAL[word] for word in sentence.words[sentence.subject + 1 :] if word in IS_PLURAL]
    assert (sentence.plural, len(sentence.attractors)) == (plural, attractors)
    assert (between.count(not plural), between.count(plural)) == (attractors, companions)
    assert "  " not in sentence.text
    assert ", ," not in sentence.text
    for place in (sentence.subject, *sentence.attractors):
        start, end = sentence.span(place)
        assert sentence.text[start:end] == sentence.words[place]


# --- as a source ---


@pytest.mark.parametrize("split", COUNTS)
def test_sample_splits(split: str, splits: dict[str, Examples], task: Any) -> None:
    examples = splits[split]
    assert len(examples) == COUNTS[split]
    assert examples.source == f"generated agreement/{split}, seed 0"
    assert 2 * sum(examples.labels) == len(examples)
    assert task.labels == ("singular", "plural")
    for (text,), label, marks in zip(examples.texts, examples.labels, examples.marks, strict=True):
        assert IS_PLURAL[text[slice(*marks.subject)]] == label
        assert all(IS_PLURAL[text[slice(*span)]] != label and span[0] > marks.subject[1] for span in marks.attractors)


def test_no_sentence_is_in_two_splits(splits: dict[str, Examples]) -> None:
    seen = [set(examples.texts) for examples in splits.values()]
    assert len(set.union(*seen)) == sum(map(len, seen)) == sum(COUNTS.values())


def test_options_of_the_sample(compose: Callable[..., Any], splits: dict[str, Examples]) -> None:
    from hydra.utils import instantiate

    changes = ["task.loaders.sample.seed=3", "task.loaders.sample.counts.train=150"]
    small = SampleSource().load(instantiate(compose("train", "task=agreement", *changes).task), "train")
    assert len(small) == 150
    assert small.texts != splits["train"].texts[:150]


@pytest.mark.parametrize(
    ("changes", "split", "message"),
    [
        ({}, "dev", r"data=sample: task agreement has no split 'dev'; choose one of train, validation, test"),
        ({"seed": -1}, "train", r"task\.loaders\.sample\.seed must be a whole number, at least 0, got -1"),
        (
            {"counts": {"train": 0}},
            "train",
            r"task\.loaders\.sample\.counts\.train must be a whole number, at least 1, got 0",
        ),
        ({"counts": {"train": "many"}}, "train", r"counts\.train must be .* got 'many'"),
    ],
)
def test_wrong_options_of_the_sample(changes: dict[str, Any], split: str, message: str, task: Any) -> None:
    from dataclasses import replace

    sample = task.loaders["sample"] | changes
    with pytest.raises(UserError, match=message):
        SampleSource().load(replace(task, loaders={"sample": sample}), split)


def test_marks_are_kept_when_examples_are_spread(splits: dict[str, Examples]) -> None:
    some = splits["test"].spread(7)
    assert len(some.marks) == 7
    for (text,), label, marks in zip(some.texts, some.labels, some.marks, strict=True):
        assert IS_PLURAL[text[slice(*marks.subject)]] == label


def test_other_tasks_have_no_marks_and_no_loaders(make_task: Callable[[str], Any]) -> None:
    other = make_task("sst2")
    assert SampleSource().load(other, "validation").marks is None
    assert other.loader("sample") is None


# --- the files of Linzen et al. ---

HEADER = "sentence\tsubj_idx\tverb_idx\tverb_pos\tverb\tinflected_verb\n"
FILTERED = "sentence\tverb_idx\tverb\tinflected_verb\tattractors\n"
DEV = HEADER + "the key to the cabinets is lost .\t1\t5\tVBZ\tis\tare\n" + "NNS VBP .\t0\t1\tVBP\treact\treacts\n"


def write(folder: Path, name: str, content: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content, encoding="utf-8")
    return folder


@pytest.mark.parametrize(("name", "split"), [("linzen_dev.tsv", "validation"), ("linzen_test.tsv", "test")])
@pytest.mark.parametrize("inside", ["", "agreement"])
def test_words_before_the_verb_with_the_subject_marked(
    name: str, split: str, inside: str, task: Any, tmp_path: Path
) -> None:
    write(tmp_path / inside, name, DEV)
    examples = LocalSource(tmp_path).load(task, split)
    assert examples.texts == [("the key to the cabinets",), ("NNS",)]
    assert examples.labels == [0, 1]
    assert examples.marks == [Marks((4, 7), ((15, 23),)), Marks((0, 3))]
    assert examples.source == f"file {tmp_path / inside / name}"


def test_training_labels_come_from_the_two_forms(task: Any, tmp_path: Path) -> None:
    rows = ("he is <eos>\t1\tIs\tAre\t0", "they carry it <eos>\t1\tcarry\tcarries\t2", "she goes <eos>\t1\tgoes\tgo\t0")
    write(tmp_path, "linzen_filtered.tsv", FILTERED + "\n".join(rows) + "\n")
    examples = LocalSource(tmp_path).load(task, "train")
    assert (examples.texts, examples.labels, examples.marks) == ([("he",), ("they",), ("she",)], [0, 1, 0], None)


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("is", "are"),
        ("has", "have"),
        ("does", "do"),
        ("goes", "go"),
        ("reaches", "reach"),
        ("tries", "try"),
        ("plays", "play"),
    ],
)
def test_forms_of_verbs(singular: str, plural: str) -> None:
    assert linzen.is_singular_of(singular, plural)
    assert not linzen.is_singular_of(plural, singular)
    assert not linzen.is_singular_of(singular, singular)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("the key is\t1\t2\tVBZ\tis", r"line 2: 5 columns, expected 6"),
        (
            "the key is\t1\t3\tVBZ\tis\tare",
            r"line 2: verb_idx must be a whole number from 1 to 2 .*count from 0.*, got '3'",
        ),
        ("the key is\t1\tx\tVBZ\tis\tare", r"line 2: verb_idx must be a whole number from 1 to 2 .*, got 'x'"),
        ("is it\t0\t0\tVBZ\tis\tare", r"line 2: verb_idx must be a whole number from 1 to 1 .*, got '0'"),
        ("the key is\t2\t2\tVBZ\tis\tare", r"line 2: subj_idx must be a whole number from 0 to 1 .*, got '2'"),
        ("the key is\t-1\t2\tVBZ\tis\tare", r"line 2: subj_idx must be .*, got '-1'"),
        (
            "the key is it\t1\t3\tVBZ\tis\tare",
            r"line 2: word 3 is 'it', not the verb 'is' \(words count from 0\); correct it, or",
        ),
        ("the key was\t1\t2\tVBD\twas\twere", r"line 2: label 'VBD' is not one of singular \(0\), plural \(1\)"),
    ],
)
def test_bad_rows_are_refused_with_their_line(row: str, message: str, task: Any, tmp_path: Path) -> None:
    write(tmp_path, "linzen_dev.tsv", HEADER + row + "\n")
    with pytest.raises(UserError, match=rf"linzen_dev\.tsv, {message}") as caught:
        LocalSource(tmp_path).load(task, "validation")
    assert "\n" not in str(caught.value)


def test_bad_rows_can_be_left_out(task: Any, tmp_path: Path) -> None:
    rows = (
        "wherein it lies <eos>\t0\twherein\twherein\t0",
        "they edit it <eos>\t1\tedit\tedit\t0",
        "he is <eos>\t1\tis\tare\t0",
    )
    write(tmp_path, "linzen_filtered.tsv", FILTERED + "\n".join(rows[1:]) + "\n")
    with pytest.raises(
        UserError, match=r"line 2: verb 'edit' and inflected_verb 'edit' do not tell .*skip_broken_rows=true"
    ):
        LocalSource(tmp_path).load(task, "train")
    write(tmp_path, "linzen_filtered.tsv", FILTERED + "\n".join(rows) + "\n")
    examples = LocalSource(tmp_path, skip_broken_rows=True).load(task, "train")
    assert (examples.texts, examples.skipped_rows) == ([("he",)], 2)


def test_marks_stay_with_their_examples_when_rows_are_left_out(task: Any, tmp_path: Path) -> None:
    write(tmp_path, "linzen_dev.tsv", HEADER + "broken\n" + DEV.removeprefix(HEADER))
    examples = LocalSource(tmp_path, skip_broken_rows=True).load(task, "validation")
    assert (examples.skipped_rows, examples.marks) == (1, [Marks((4, 7), ((15, 23),)), Marks((0, 3))])


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (
            "train",
            r"no linzen_filtered\.tsv for the train split of task agreement; .* or train with data=sample instead",
        ),
        ("validation", r"no linzen_dev\.tsv for the validation split"),
        ("dev", r"task agreement has no split 'dev'; choose one of train, validation, test"),
    ],
)
def test_missing_files(split: str, message: str, task: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        LocalSource(tmp_path).load(task, split)
    with pytest.raises(UserError, match=r"no such folder|no split"):
        LocalSource(tmp_path / "nowhere").load(task, split)


def test_missing_columns(task: Any, tmp_path: Path) -> None:
    write(tmp_path, "linzen_dev.tsv", FILTERED + "he is\t1\tis\tare\t0\n")
    with pytest.raises(
        UserError, match=r"linzen_dev\.tsv: missing columns 'verb_pos', 'subj_idx' \(there are: sentence, "
    ):
        LocalSource(tmp_path).load(task, "validation")


@needs_real
@pytest.mark.parametrize(
    ("split", "count", "plural", "skipped"),
    [("validation", 1000, 341, 0), ("test", 4000, 1300, 0), ("train", 7485, 4755, 4)],
)
def test_real_files(split: str, count: int, plural: int, skipped: int, task: Any) -> None:
    examples = LocalSource(REAL, skip_broken_rows=split == "train").load(task, split)
    assert (len(examples), sum(examples.labels), examples.skipped_rows) == (count, plural, skipped)
    assert not any("<eos>" in text for (text,) in examples.texts)
    assert (examples.marks is None) == (split == "train")


@needs_real
def test_real_first_rows(task: Any) -> None:
    examples = LocalSource(REAL).load(task, "test")
    assert examples.texts[:2] == [("it should be noted that this association",), ("the museum",)]
    marked = zip(examples.texts[:2], examples.marks, strict=False)
    assert [text[slice(*marks.subject)] for (text,), marks in marked] == ["association", "museum"]


# --- which tokens the marked words are ---


def roles_of(text: tuple[str, ...], marks: Marks, tokenizer: Any, max_length: int = 128) -> list[tuple[str, str]]:
    (roles,) = token_roles([text], [marks], tokenizer, max_length)
    ids = tokenizer(*text, truncation="longest_first", max_length=max_length)["input_ids"]
    return [(token, ROLES[role]) for token, role in zip(tokenizer.convert_ids_to_tokens(ids), roles, strict=True)]


def test_every_sub_token_of_a_marked_word_has_its_role(tokenizer: Any) -> None:
    found = roles_of(("the teapots near her plumber",), Marks((4, 11), ((21, 28),)), tokenizer)
    pieces = tokenizer.tokenize("teapots"), tokenizer.tokenize("plumber")
    assert all(len(each) > 1 for each in pieces), "this test needs words of several sub-tokens"
    assert [token for token, role in found if role == "subject"] == pieces[0]
    assert [token for token, role in found if role == "attractor"] == pieces[1]
    assert [token for token, role in found if role == "other"] == ["[CLS]", "the", "near", "her", "[SEP]"]


def test_what_is_cut_away_has_no_role(tokenizer: Any) -> None:
    text = ("near the window , the keys of the cabinet",)
    marks = Marks((22, 26), ((34, 41),))
    assert [role for _, role in roles_of(text, marks, tokenizer)].count("attractor") == 1
    cut = roles_of(text, marks, tokenizer, max_length=9)
    assert [role for _, role in cut] == ["other"] * 6 + ["subject", "other", "other"]
    assert {role for _, role in roles_of(text, marks, tokenizer, max_length=5)} == {"other"}


def test_marks_are_of_the_first_text(tokenizer: Any) -> None:
    found = roles_of(("the key", "the key"), Marks((4, 7)), tokenizer)
    assert [role for _, role in found] == ["other", "other", "subject", "other", "other", "other", "other"]


def test_traces_know_the_roles(task: Any, splits: dict[str, Examples], tmp_path: Path) -> None:
    import torch

    from effective_attention.analyses.common.run import Subject
    from effective_attention.data.annotation.tagging import annotate
    from effective_attention.data.datamodule import TextDataModule
    from effective_attention.models.encoders import RandomEncoder

    encoder = RandomEncoder()
    options: dict[str, Any] = {"batch_size": 4, "max_length": 64, "padding": "longest", "limit_eval": 12}
    data = TextDataModule(task, SampleSource(), encoder.tokenizer(), token_cache=str(tmp_path), **options)
    split = data.split("test")
    annotated = annotate(split.examples.texts, data.tokenizer, data.max_length, None, None)
    subject = Subject(encoder.classifier(2), None, data, split, annotated, torch.device("cpu"))
    trace = subject.trace(list(range(12)))
    roles = trace.tokens["role"]
    assert torch.equal(roles == -1, ~trace.mask)
    for index in range(12):
        (text,), marks = split.examples.texts[index], split.examples.marks[index]
        for role, spans in ((1, [marks.subject]), (2, marks.attractors)):
            ids = trace.inputs["input_ids"][index][roles[index] == role].tolist()
            assert data.tokenizer.decode(ids) == " ".join(text[slice(*span)] for span in spans)
    assert subject.trace([3]).tokens["role"].tolist()[0] == roles[3][roles[3] >= 0].tolist()


# --- the whole command ---


def test_train_and_test_on_the_generated_sentences(compose: Callable[..., Any], tmp_path: Path) -> None:
    from effective_attention.run.experiment import evaluate, train

    metrics = train(compose("train", "task=agreement"))
    assert (metrics["data/train/examples"], metrics["data/validation/examples"]) == (32, 16)
    assert metrics["run/note"].endswith("python train.py task=agreement data=local data.dir=<folder>")
    again = evaluate(
        compose(
            "evaluate",
            "task=agreement",
            "split=test",
            f"checkpoint={tmp_path / 'run'}",
            f"run_dir={tmp_path / 'second'}",
        )
    )
    assert again["data/test/examples"] == 16
    assert again["test/effective/accuracy"] == again["test/standard/accuracy"]
