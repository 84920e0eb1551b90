"""``explore`` of a model that reads one text and writes another: three attentions, whose numbers are the traces'."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from effective_attention import explore
from effective_attention.attention.stacks import STACKS
from effective_attention.attention.trace import trace_stacks
from effective_attention.data.targets import decoder_ids
from effective_attention.explorer.sides import readable
from helpers.explorer_page import header_of, numbers_of
from helpers.writers import FAMILIES, LAYERS, build_writer, reading_tokenizer

TEXT, TARGET = "A <b>cat</b> sat on the mat, and nobody minded.", "The cat sat & slept."


@pytest.fixture(scope="module")
def words(tokenizer: Any) -> Any:
    return reading_tokenizer(tokenizer)


@pytest.fixture(scope="module")
def model(words: Any) -> Any:
    return build_writer("bart", len(words))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_holds_what_the_traces_hold(family: str, words: Any) -> None:
    model = build_writer(family, len(words))
    page = explore(model, words, TEXT, target=TARGET).html
    (ids,) = decoder_ids(model, words, [TARGET], None)
    read = words(TEXT, return_tensors="pt")
    header = header_of(page)
    assert header["stacks"] == list(STACKS)
    assert [side["stack"] for side in header["sides"]] == list(STACKS)
    for number, seen in enumerate(trace_stacks(model, {**read, "decoder_input_ids": torch.tensor([ids])}).values()):
        for layer in range(LAYERS):
            for part in ("standard", "effective"):
                expected = np.rint(seen.layers[layer].part(part)[0].double().numpy() * 1e5)
                assert np.abs(numbers_of(page, number, part, layer) - expected).max() <= 1
    cross = header["sides"][2]
    assert cross["tokens"] == readable(ids, words)
    assert cross["keys"]["tokens"] == readable(words(TEXT).input_ids, words)
    assert cross["keys"]["special"][0]
    assert cross["texts"] == [TEXT, TARGET]
    assert header["sides"][0]["keys"] is None
    assert header["sides"][1]["causal"]


def test_two_models_and_two_texts(model: Any, words: Any) -> None:
    other = build_writer("t5", len(words))
    header = header_of(explore(model, words, TEXT, target=TARGET, beside=other, name=("one", "two")).html)
    assert [(side["name"], side["stack"]) for side in header["sides"]] == [
        (name, stack) for name in ("one", "two") for stack in STACKS
    ]
    assert header["same_tokens"] is False  # the two start otherwise
    header = header_of(explore(model, words, TEXT, target=TARGET, beside=model).html)
    assert header["same_tokens"] is True
    header = header_of(explore(model, words, TEXT, target=TARGET, beside=(TEXT, "Purr.")).html)
    assert header["same_tokens"] is False
    assert header["sides"][3]["texts"] == [TEXT, "Purr."]


def test_long_texts_are_cut_and_it_is_said(model: Any, words: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        header = header_of(explore(model, words, "cat " * 90, target="dog " * 80, neurons=False).html)
    assert [record.getMessage() for record in caplog.records if "cut" in record.getMessage()] == [
        "the text has 92 tokens and is cut at 64",
        "the target has 82 tokens and is cut at 64",
    ]
    assert (header["sides"][2]["size"], header["sides"][2]["keys"]["size"]) == (64, 64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "reads one text and writes another; give the two as text and target="),
        ({"text_pair": TEXT, "target": TARGET}, "give the two as text and target="),
        ({"target": " "}, "target is empty"),
        ({"target": 7}, "a text must be a string"),
        (
            {"target": TARGET, "beside": "A dog."},
            "beside must be another model, or a text and its target, got 'A dog.'",
        ),
        ({"target": TARGET, "beside": ()}, "beside must be another model, or a text and its target"),
    ],
)
def test_mistakes(model: Any, words: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        explore(model, words, TEXT, **options)
    assert "\n" not in str(caught.value)


def test_models_of_two_kinds(model: Any, words: Any) -> None:
    sizes: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    bert = transformers.BertModel(transformers.BertConfig(vocab_size=len(words), intermediate_size=8, **sizes))
    with pytest.raises(
        ValueError, match="target is what a model writes that reads another text; leave it out for Bert"
    ):
        explore(bert, words, TEXT, target=TARGET)
    with pytest.raises(ValueError, match="only one of BartForConditionalGeneration and BertModel reads one text and"):
        explore(model, words, TEXT, target=TARGET, beside=bert)
    with pytest.raises(ValueError, match="explore needs a model, its tokenizer and a text, or attention="):
        explore(model)
