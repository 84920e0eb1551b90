"""Words meet sub-tokens where they should, whatever the tokenizer; results are kept; a broken cache does no harm."""

import dataclasses
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.data.annotation import tagging
from effective_attention.data.annotation.alignment import is_punctuation
from effective_attention.data.annotation.tagging import KINDS, PENN, UPOS, Annotated, TaggedText, annotate
from effective_attention.data.encoding import encode

VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat can not cannot don t s ! . , ' i know cafe go walk ##ing it is"
)


class StubTagger:
    """A tagger with given words and trees.

    Other texts are split at blanks and punctuation: all nouns, each the head of the next.
    """

    name = "stub"
    version = "1"

    def __init__(self, known: dict[str, str] | None = None) -> None:
        self.known = known or {}
        self.calls: list[str] = []

    def tag(self, texts: Sequence[str]) -> list[TaggedText]:
        self.calls += texts
        return [self._known(text, self.known[text]) if text in self.known else self._simple(text) for text in texts]

    @staticmethod
    def _known(text: str, rows: str) -> TaggedText:
        """Read rows "word/UPOS/head/relation", in the order of the text."""
        cells = [row.split("/") for row in rows.split()]
        starts = []
        position = 0
        for word, *_ in cells:
            position = text.index(word, position)
            starts.append(position)
            position += len(word)
        words, upos, heads, relations = zip(*cells, strict=True)
        ends = tuple(start + len(word) for start, word in zip(starts, words, strict=True))
        return TaggedText(tuple(starts), ends, upos, upos, tuple(map(int, heads)), relations)

    @staticmethod
    def _simple(text: str) -> TaggedText:
        spans = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
        starts, ends = tuple(start for start, _ in spans), tuple(end for _, end in spans)
        heads = tuple(max(0, index - 1) for index in range(len(spans)))
        return TaggedText(starts, ends, ("NOUN",) * len(spans), ("NN",) * len(spans), heads, ("dep",) * len(spans))


def bert_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate(VOCABULARY.split())}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{f"{key}_token": name for key, name in names.items()})


def roberta_tokenizer(trim_offsets: bool = True) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    merges = [
        ("c", "a"),
        ("ca", "t"),
        ("Ġ", "ca"),
        ("Ġca", "t"),
        ("Ġ", "t"),
        ("Ġt", "h"),
        ("Ġth", "e"),
        ("'", "s"),
        ("d", "o"),
    ]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *alphabet, *(first + second for first, second in merges)]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=trim_offsets)
    names = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{f"{key}_token": name for key, name in names.items()})


BERT = bert_tokenizer()
ROBERTA = roberta_tokenizer()
UNTRIMMED = roberta_tokenizer(trim_offsets=False)


def table(annotated: Annotated, index: int = 0) -> dict[str, list[Any]]:
    """Return one example's annotation, with names for indices."""
    span = annotated.span(index)
    return {
        "word": annotated.word[span].tolist(),
        "upos": [UPOS[number] if number >= 0 else "" for number in annotated.upos[span]],
        "head": annotated.head[span].tolist(),
        "relation": [annotated.relations[number] if number >= 0 else "" for number in annotated.relation[span]],
        "first": annotated.first[span].astype(int).tolist(),
        "kind": [KINDS[number] for number in annotated.kind[span]],
    }


def one(text: tuple[str, ...], tokenizer: Any, tagger: Any, max_length: int = 128) -> dict[str, list[Any]]:
    return table(annotate([text], tokenizer, max_length, tagger, None))


def same(one: Annotated, other: Annotated) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in Annotated.__dataclass_fields__)


# --- alignment by hand ---


def test_subwords_contraction_and_punctuation() -> None:
    text = "I don't know walking!"
    tagger = StubTagger(
        {text: "I/PRON/3/nsubj do/AUX/3/aux n't/PART/3/advmod know/VERB/3/root walking/NOUN/3/obj !/PUNCT/3/punct"}
    )
    assert BERT.tokenize(text) == ["i", "don", "'", "t", "know", "walk", "##ing", "!"]
    found = one((text,), BERT, tagger)
    assert found["word"] == [-1, 0, 1, 2, 2, 3, 4, 4, 5, -1], (
        "'don' begins in 'do', so it belongs to it; the rest to 'n't'"
    )
    assert found["upos"] == ["", "PRON", "AUX", "PART", "PART", "VERB", "NOUN", "NOUN", "PUNCT", ""]
    assert found["head"] == [-1, 3, 3, 3, 3, 3, 3, 3, 3, -1]
    assert found["relation"] == ["", "nsubj", "aux", "advmod", "advmod", "root", "obj", "obj", "punct", ""]
    assert found["first"] == [0, 1, 1, 1, 0, 1, 1, 0, 1, 0]
    assert found["kind"] == ["cls", "word", "word", "punctuation", *["word"] * 4, "punctuation", "sep"]


def test_a_token_over_two_words_belongs_to_the_first_and_the_other_is_not_counted() -> None:
    text = "it cannot go"
    tagger = StubTagger({text: "it/PRON/2/nsubj can/AUX/2/aux not/PART/3/advmod go/VERB/3/root"})
    found = one((text,), BERT, tagger)
    assert found["word"] == [-1, 0, 1, 2, -1]
    assert found["upos"] == ["", "PRON", "AUX", "VERB", ""]
    assert found["head"] == [-1, -2, -2, 2, -1], "'not' has no token"


def test_two_texts_and_several_sentences() -> None:
    first, second = "The cat sat. It is.", "a dog"
    tagger = StubTagger({
        first: "The/DET/1/det cat/NOUN/2/nsubj sat/VERB/2/root ./PUNCT/2/punct "
               "It/PRON/5/nsubj is/VERB/5/root ./PUNCT/5/punct",
        second: "a/DET/1/det dog/NOUN/1/root",
    })  # fmt: skip
    found = one((first, second), BERT, tagger)
    assert found["word"] == [-1, 0, 1, 2, 3, 4, 5, 6, -1, 7, 8, -1]
    assert found["head"] == [-1, 1, 2, 2, 2, 5, 5, 5, -1, 8, 8, -1], "one root a sentence; heads stay within their text"
    assert found["kind"][-4:] == ["sep", "word", "word", "sep"]


def test_an_empty_second_text() -> None:
    found = one(("the cat", ""), BERT, StubTagger())
    assert found["word"] == [-1, 0, 1, -1, -1]
    assert found["kind"] == ["cls", "word", "word", "sep", "sep"]


def test_truncation_in_the_middle_of_a_word_and_of_the_tree() -> None:
    text = "a cat walking sat"
    tagger = StubTagger({text: "a/DET/1/det cat/NOUN/3/nsubj walking/VERB/1/acl sat/VERB/3/root"})
    found = one((text,), BERT, tagger, max_length=5)
    assert found["word"] == [-1, 0, 1, 2, -1]
    assert found["upos"] == ["", "DET", "NOUN", "VERB", ""], "'walk' without '##ing' is still the verb"
    assert found["head"] == [-1, 1, -2, 1, -1]
    assert found["relation"] == ["", "det", "nsubj", "acl", ""], "what a cut head was to the word is still known"


def test_words_of_a_second_text_count_on_from_what_is_left_of_the_first() -> None:
    found = one(("the cat sat the cat sat the cat sat", "a dog"), BERT, StubTagger(), max_length=8)
    assert found["word"] == [-1, 0, 1, 2, -1, 3, 4, -1]
    assert found["head"] == [-1, 0, 0, 1, -1, 3, 3, -1]


def test_accents_and_unknown_words_and_emoji() -> None:
    text = "The café 👍 xyz"
    found = one((text,), BERT, StubTagger({text: "The/DET/1/det café/NOUN/1/root 👍/SYM/1/discourse xyz/X/1/dep"}))
    assert BERT.tokenize(text) == ["the", "cafe", "[UNK]", "[UNK]"]
    assert found["word"] == [-1, 0, 1, 2, 3, -1]
    assert found["kind"] == ["cls", "word", "word", "punctuation", "word", "sep"], (
        "an unknown token stands for its text"
    )


@pytest.mark.parametrize("tokenizer", [ROBERTA, UNTRIMMED], ids=["trimmed", "space counted"])
def test_byte_level_tokens(tokenizer: Any) -> None:
    """Check that the bytes of an emoji or an accent are one word.

    The blank before a word must not pull its token to the word before.
    """
    text = "cat's the é 👍!"
    tagger = StubTagger(
        {text: "cat/NOUN/0/root 's/PART/0/case the/DET/3/det é/NOUN/0/dep 👍/SYM/0/discourse !/PUNCT/0/punct"}
    )
    assert tokenizer.tokenize(text) == ["cat", "'s", "Ġthe", "Ġ", "Ã", "©", "Ġ", "ð", "Ł", "ĳ", "į", "!"]
    found = one((text,), tokenizer, tagger)
    assert found["word"] == [-1, 0, 1, 2, -1, 3, 3, -1, 4, 4, 4, 4, 5, -1], "a blank alone belongs to no word"
    assert found["first"] == [0, 1, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0]
    assert found["kind"] == ["cls", *["word"] * 7, *["punctuation"] * 5, "sep"]


def test_two_delimiters_between_texts() -> None:
    found = one(("cat", "the"), ROBERTA, StubTagger())
    assert found["kind"] == ["cls", "word", "sep", "sep", "word", "word", "word", "sep"]
    assert found["word"] == [-1, 0, -1, -1, 1, 1, 1, -1]


def test_special_tokens_written_in_a_text_are_special() -> None:
    found = one(("the [MASK] [SEP] cat",), BERT, StubTagger())
    assert found["kind"] == ["cls", "word", "other special", "sep", "word", "sep"]
    assert found["word"] == [-1, 0, -1, -1, 1, -1]


def test_a_token_outside_of_any_word() -> None:
    text = "cat ! dog"
    found = one((text,), BERT, StubTagger({text: "cat/NOUN/0/root dog/NOUN/0/dep"}))
    assert found["word"] == [-1, 0, -1, 1, -1]
    assert found["first"] == [0, 1, 0, 1, 0]
    assert found["kind"][2] == "punctuation"


# --- gold words ---


def gold(text: str, rows: str) -> tuple[TaggedText, ...]:
    return tuple(StubTagger({text: rows}).tag([text]))


class DeafTagger(StubTagger):
    """A tagger that must not be asked for anything."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


def test_gold_words_win_over_the_tagger_and_are_aligned_as_its_words_are(tmp_path: Path) -> None:
    text = "I don't go"
    rows = "I/PRON/3/nsubj do/AUX/3/aux n't/PART/3/advmod go/VERB/3/root"
    expected = annotate([(text,)], BERT, 128, StubTagger({text: rows}), None)
    for cache in (None, tmp_path, tmp_path):
        for tagger in (None, DeafTagger()):
            assert same(annotate([(text,)], BERT, 128, tagger, cache, gold=[gold(text, rows)]), expected)
    assert table(expected)["word"] == [-1, 0, 1, 2, 2, 3, -1]


def test_the_same_text_may_have_other_words_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "the dog"
    words = [gold(text, "the/DET/1/det dog/NOUN/1/root"), gold(text, "the/X/0/root dog/VERB/0/obj")]
    for chunk in (1000, 1):
        monkeypatch.setattr(tagging, "_CHUNK", chunk)
        annotated = annotate([(text,), (text,)], BERT, 128, None, None, gold=words)
        assert [table(annotated, index)["upos"][1:3] for index in (0, 1)] == [["DET", "NOUN"], ["X", "VERB"]]
        assert annotated.relations == ("det", "root", "obj")


def test_words_of_a_token_that_cannot_be_divided() -> None:
    """Check two words that both lie on all of "can": the first has the token, and the second is not there.

    A word that depends on the second has no head.
    """
    text = "can go"
    words = TaggedText((0, 0, 4), (3, 3, 6), ("AUX", "PART", "VERB"), ("",) * 3, (2, 2, 1), ("aux", "advmod", "root"))
    found = table(annotate([(text,)], BERT, 128, None, None, gold=[(words,)]))
    assert found["word"] == [-1, 0, 1, -1]
    assert found["upos"] == ["", "AUX", "VERB", ""]
    assert found["head"] == [-1, 1, -2, -1]


def test_gold_words_must_be_as_many_as_texts() -> None:
    with pytest.raises(ValueError, match="shorter"):
        annotate([("the",), ("dog",)], BERT, 128, None, None, gold=[gold("the", "the/DET/0/root")])


def test_without_tagger_only_kinds() -> None:
    texts = [("The cat's!", "It is."), ("cat", "dog")]
    bare = annotate(texts, BERT, 128, None, None)
    for name in ("word", "upos", "head", "relation"):
        assert set(getattr(bare, name).tolist()) == {-1}
    assert not bare.first.any()
    assert bare.relations == ()
    assert np.array_equal(bare.kind, annotate(texts, BERT, 128, StubTagger(), None).kind)


@pytest.mark.parametrize("text", [".", "...", "$", "``", "—", "👍"])
def test_punctuation(text: str) -> None:
    assert is_punctuation(text)


@pytest.mark.parametrize("text", ["'s", "a", "7", ""])
def test_no_punctuation(text: str) -> None:
    assert not is_punctuation(text)


# --- alignment against a naive oracle ---


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.tuples(*[st.text("act h'!. éd👍\n", max_size=25)] * 2), min_size=1, max_size=5),
    limit=st.integers(5, 40),
    tokenizer=st.sampled_from([BERT, ROBERTA, UNTRIMMED]),
)
def test_agrees_with_comparing_every_token_with_every_word(
    texts: list[tuple[str, str]], limit: int, tokenizer: Any
) -> None:
    annotated = annotate(texts, tokenizer, limit, StubTagger(), None)
    encoded = encode(texts, tokenizer, limit, None)
    assert annotated.offsets.tolist() == encoded.offsets.tolist()
    for index, text in enumerate(texts):
        batch = tokenizer(*([part] for part in text), truncation="longest_first", max_length=limit)
        assert batch["input_ids"][0] == encoded.row(index)[0].tolist()
        words = [(part, *span) for part in (0, 1) for span in zip(*_spans(text[part]), strict=True)]
        owners = [
            _owner(text, part, *span, words) for part, span in zip(batch.sequence_ids(0), batch[0].offsets, strict=True)
        ]
        order = sorted({owner for owner in owners if owner is not None})
        assert annotated.word[annotated.span(index)].tolist() == [
            -1 if owner is None else order.index(owner) for owner in owners
        ]
        assert annotated.first[annotated.span(index)].sum() == len(order)


def _spans(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    (tagged,) = StubTagger().tag([text])
    return tagged.start, tagged.end


def _owner(
    text: tuple[str, str], part: int | None, start: int, end: int, words: list[tuple[int, int, int]]
) -> int | None:
    if part is None:
        return None
    characters = [place for place in range(start, end) if not text[part][place].isspace()]
    return next(
        (n for n, (where, low, high) in enumerate(words) if where == part and any(low <= c < high for c in characters)),
        None,
    )


# --- many examples ---


def test_every_distinct_text_is_tagged_once_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [("the cat", "a dog"), ("it is", "the cat"), ("sat", "go"), ("the cat", "sat")]
    whole = annotate(texts, BERT, 128, StubTagger(), None)
    monkeypatch.setattr(tagging, "_CHUNK", 1)
    tagger = StubTagger()
    assert same(annotate(texts, BERT, 128, tagger, None), whole)
    assert sorted(tagger.calls) == sorted({part for text in texts for part in text})
    assert len(whole) == 4


def test_progress_goes_to_stderr_and_only_where_it_takes_long(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    texts = [("the cat",), ("a dog",)]
    annotate(texts, BERT, 128, StubTagger(), None, progress=True)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(tagging, "_CHUNK", 1)
    annotate(texts, BERT, 128, StubTagger(), None, progress=False)
    assert capfd.readouterr() == ("", "")
    annotate(texts, BERT, 128, StubTagger(), None, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("parts of speech: 2 of 2 examples, ")


# --- the finer tags ---


def test_every_sub_token_has_the_penn_tag_of_its_word() -> None:
    text = "I don't know walking!"
    words = "I/PRON/3/nsubj do/AUX/3/aux n't/PART/3/advmod know/VERB/3/root walking/NOUN/3/obj !/PUNCT/3/punct"
    known = StubTagger._known(text, words)
    fine = dataclasses.replace(known, xpos=("PRP", "VBP", "RB", "VB", "NN", "Verb-Form"))
    annotated = annotate([(text,)], BERT, 128, None, None, gold=[(fine,)])
    found = [PENN[number] if number >= 0 else "" for number in annotated.xpos]
    assert BERT.tokenize(text) == ["i", "don", "'", "t", "know", "walk", "##ing", "!"]
    assert found == ["", "PRP", "VBP", "RB", "RB", "VB", "NN", "NN", "", ""], "a tag of another kind is none"


def test_a_tag_has_one_name() -> None:
    assert len(set(PENN)) == len(PENN)


# --- the cache ---


TEXTS = [("The cat's!", "It is."), ("cat", "dog")]


def test_the_second_time_comes_from_the_cache(tmp_path: Path) -> None:
    tagger = StubTagger()
    first = annotate(TEXTS, BERT, 128, tagger, tmp_path / "new")
    again = annotate(TEXTS, bert_tokenizer(), 128, tagger, tmp_path / "new")
    assert same(first, again)
    assert again.relations == ("dep",)
    assert len(tagger.calls) == 4
    assert again.word.dtype == np.int32
    assert again.upos.dtype == again.kind.dtype == np.int8


def test_key_depends_on_everything() -> None:
    other = StubTagger()
    other.version = "2"
    unlike = bert_tokenizer()
    unlike.sep_token = "[MASK]"
    keys = {
        tagging._key(*arguments)
        for arguments in (
            (TEXTS, BERT, 128, StubTagger()),
            (TEXTS, BERT, 128, other),
            (TEXTS, BERT, 128, None),
            (TEXTS, BERT, 127, StubTagger()),
            (TEXTS[:1], BERT, 128, StubTagger()),
            (TEXTS, ROBERTA, 128, StubTagger()),
            (TEXTS, unlike, 128, StubTagger()),
            (TEXTS, BERT, 128, None, [gold("cat", "cat/NOUN/0/root")] * 2),
            (TEXTS, BERT, 128, None, [gold("cat", "cat/VERB/0/root")] * 2),
        )
    }
    assert len(keys) == 9
    assert tagging._key(TEXTS, BERT, 128, StubTagger(), []) == tagging._key(TEXTS, BERT, 128, None, [])


def test_token_ids_and_annotations_share_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        encoded = encode(TEXTS, BERT, 128, tmp_path)
        annotated = annotate(TEXTS, BERT, 128, None, tmp_path)
    assert annotated.offsets.tolist() == encoded.offsets.tolist()
    assert len(list(tmp_path.iterdir())) == 2
    assert caplog.records == []


@pytest.mark.parametrize(
    "damage",
    [lambda content: b"", lambda content: content[: len(content) // 2], lambda content: b"nonsense" + content[8:]],
)
def test_a_damaged_cache_is_made_anew_and_mended(damage: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tagger = StubTagger()
    first = annotate(TEXTS, BERT, 128, tagger, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert same(annotate(TEXTS, BERT, 128, tagger, tmp_path), first)
        assert same(annotate(TEXTS, BERT, 128, tagger, tmp_path), first)
    assert len(caplog.records) == 1
    assert "cannot be read" in caplog.text
    assert len(tagger.calls) == 8


def test_a_cache_that_does_not_fit_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = annotate(TEXTS, BERT, 128, StubTagger(), tmp_path)
    (file,) = tmp_path.iterdir()
    np.savez(
        file, **{name: getattr(whole, name) for name in Annotated.__dataclass_fields__} | {"word": whole.word[:-1]}
    )
    assert same(annotate(TEXTS, BERT, 128, StubTagger(), tmp_path), whole)
    assert "do not fit together" in caplog.text


def test_an_unwritable_cache_costs_time_not_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    assert same(annotate(TEXTS, BERT, 128, None, tmp_path / "file" / "cache"), annotate(TEXTS, BERT, 128, None, None))
    assert "annotations are not cached" in caplog.text
