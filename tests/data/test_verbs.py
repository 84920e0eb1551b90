"""A verb's two forms as tokens, and which texts a language model can be asked after."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from effective_attention.data.agreement.source import verb_of
from effective_attention.data.agreement.verbs import askable, check_ends, first_tokens, ids_behind
from effective_attention.data.agreement.words import VERBS
from effective_attention.data.examples import Examples
from effective_attention.data.sources import SampleSource
from effective_attention.errors import UserError
from helpers.decoders import LINES, build_tokenizer
from helpers.decoders import VERBS as LEARNT


@pytest.fixture(scope="module")
def decoder() -> Any:
    return build_tokenizer("llama", (*LINES, *LEARNT), 360)


def test_a_form_is_what_stands_behind_another_word(decoder: Any) -> None:
    assert decoder.convert_ids_to_tokens(ids_behind(decoder, "is")) == ["Ġis"]
    pieces = ids_behind(decoder, "zigzags")
    assert len(pieces) > 1
    assert decoder("a zigzags")["input_ids"][-len(pieces) :] == pieces


def test_the_first_token_of_each_form(decoder: Any, tokenizer: Any) -> None:
    found = first_tokens([("is", "are"), ("zigzags", "zigzag")], decoder)
    assert found.tolist() == [[ids_behind(decoder, "is")[0], ids_behind(decoder, "are")[0]], [found[1, 0]] * 2]
    assert first_tokens([], decoder).shape == (0, 2)
    assert first_tokens([("is", "are")], tokenizer).tolist() == [tokenizer.convert_tokens_to_ids(["is", "are"])]


def test_a_tokenizer_that_joins_words_is_refused() -> None:
    def joining(text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [len(text)]}

    assert ids_behind(joining, "is") == []
    with pytest.raises(
        UserError, match=r"head=verb: the tokenizer gives 'is' no token of its own; choose another model"
    ):
        first_tokens([("is", "are")], joining)


def test_a_token_behind_texts_is_refused(tokenizer: Any, decoder: Any) -> None:
    check_ends(decoder)
    with pytest.raises(UserError, match=r"the tokenizer ends every text with '\[SEP\]', and no verb follows that"):
        check_ends(tokenizer)


def test_texts_that_cannot_be_asked_after_are_left_out_and_counted(
    decoder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    verbs = [("is", "are"), ("zigzags", "zigzag"), ("has", "have"), ("was", "were")]
    examples = Examples([(f"text {n}",) for n in range(4)], [0, 1, 0, 1], "here", verbs=verbs)
    cut = np.array([False, True, True, False])
    with caplog.at_level(logging.INFO, logger="effective_attention"):
        found = askable(examples, cut, decoder)
    assert (found.texts, found.labels, found.verbs) == ([("text 0",), ("text 3",)], [0, 1], [verbs[0], verbs[3]])
    assert (
        "left out of 4 sentences: 1 whose verb begins with the same token in both numbers, 1 that are cut"
        in caplog.text
    )
    caplog.clear()
    assert len(askable(found, cut[[0, 3]], decoder)) == 2
    assert not caplog.text


def test_what_cannot_be_asked_at_all_is_refused(decoder: Any) -> None:
    plain = Examples([("a",)], [0], "file here")
    with pytest.raises(UserError, match=r"head=verb: file here does not tell which verb follows; leave head=verb out"):
        askable(plain, np.array([False]), decoder)
    alike = Examples([("a",)], [0], "file here", verbs=[("zigzags", "zigzag")])
    with pytest.raises(UserError, match=r"head=verb: no verb of file here can be asked for; choose another model or"):
        askable(alike, np.array([False]), decoder)


def test_the_grammars_sentences_have_verbs(make_task: Callable[[str], Any]) -> None:
    examples = SampleSource().load(make_task("agreement"), "validation")
    assert examples.verbs is not None
    shares = [examples.verbs.count(verb) / len(examples) for verb in VERBS]
    assert sum(shares) == 1
    assert min(shares) > 0.29
    by_number = [[verb for verb, one in zip(examples.verbs, examples.labels, strict=True) if one == n] for n in (0, 1)]
    for verb in VERBS:
        assert by_number[0].count(verb) == pytest.approx(by_number[1].count(verb), abs=80), (
            "tells nothing of the number"
        )


def test_a_sentences_verb_is_the_same_on_every_machine() -> None:
    from effective_attention.data.agreement.grammar import generate

    assert [verb_of(sentence)[0] for sentence in generate(5, seed=0)] == ["was", "was", "is", "was", "has"]
