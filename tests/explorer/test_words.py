"""Pieces joined to words: which tokens make a word, and that the page's numbers are those of a loop in Python."""

from __future__ import annotations

import csv
import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from effective_attention.analyses.common.words import word_attention
from effective_attention.explorer.words import words_of
from effective_attention.graphs.rollout import attention_rollout
from helpers.browser import (
    HEADS,
    LAYERS,
    PARTS,
    PIECES,
    STARTS,
    WORDS,
    change,
    colours,
    downloaded,
    opened,
    readout,
    sentences,
    settle,
    state,
    text_of,
    walked,
    whole,
)

SPANS = [range(start, end) for start, end in pairwise([*STARTS, len(PIECES)])]


def joined(numbers: Any) -> Any:
    """Join a matrix of whole numbers naively: mean over the pieces of the query, sum over those of the key."""
    result = np.zeros((len(SPANS), len(SPANS)), dtype=int)
    for row, queries in enumerate(SPANS):
        for column, keys in enumerate(SPANS):
            total = sum(int(numbers[query, key]) for query in queries for key in keys)
            result[row, column] = int(math.copysign(math.floor(abs(total) / len(queries) + 0.5), total))
    return result


def in_words(part: str, layer: int, head: int) -> Any:
    names = ("standard", "effective", "affine")
    standard, effective, affine = (joined(whole(sentences(), name, layer)[head]) for name in names)
    return {
        "affine": affine,
        "standard": standard,
        "effective": effective,
        "null": standard - effective,
        "difference": effective - standard,
    }[part]


def tokenizer_of(*vocabulary: str) -> Any:
    return SimpleNamespace(get_vocab=lambda: dict.fromkeys(vocabulary, 0))


@pytest.mark.parametrize(
    ("vocabulary", "tokens", "expected"),
    [
        (["##s", "##ing"], ["[CLS]", "play", "##ing", "cat", "##s", ".", "[SEP]"], ["playing", "cats", "."]),
        (
            ["▁a", "▁b"],
            ["[CLS]", "▁un", "like", "ly", ".", "▁“", "So", "”", "[SEP]"],
            ["unlikely", ".", "“", "So", "”"],
        ),
        (
            ["Ġa", "Ġb", "##"],
            ["[CLS]", "Play", "ing", "▁don", "'t", "↵", "go", "[SEP]"],
            ["Playing", "don't", "↵", "go"],
        ),
        (["a</w>", "b</w>"], ["[CLS]", "play", "ing</w>", "on</w>", "[SEP]"], ["playing", "on"]),
    ],
)
def test_pieces_of_a_word_by_the_marks_of_the_vocabulary(
    vocabulary: list[str], tokens: list[str], expected: list[str]
) -> None:
    words = words_of(tokens, [token.startswith("[") for token in tokens], tokenizer_of(*vocabulary))
    assert words is not None
    assert words.tokens == ["[CLS]", *expected, "[SEP]"]
    assert words.starts == sorted(set(words.starts))


@pytest.mark.parametrize("tokens", [["c", "a", "t"], ["cat"], []])
def test_without_marks_every_token_stands_alone(tokens: list[str]) -> None:
    assert words_of(tokens, [False] * len(tokens), tokenizer_of("c", "a", "t")) is None
    assert words_of(["a", "##"], [False] * 2, tokenizer_of("##a", "##b")) is None


@pytest.mark.parametrize("part", PARTS)
def test_every_weight_between_words_is_that_of_a_loop(part: str, chromium: Any, tmp_path: Path) -> None:
    script = """async ([part, layers, heads, size]) => {
      const all = [];
      for (let layer = 0; layer < layers; layer++)
        for (let head = 0; head < heads; head++)
          for (let query = 0; query < size; query++)
            for (let key = 0; key < size; key++) all.push(await explorer.value(0, part, layer, head, query, key));
      return all;
    }"""
    with opened(chromium, tmp_path, "sentences", "words=1") as page:
        found = page.evaluate(script, [part, LAYERS, HEADS, len(WORDS)])
    places = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    assert found == [text_of(number) for place in places for number in in_words(part, *place).reshape(-1)]


def test_the_rule_is_that_of_the_analyses() -> None:
    member = torch.zeros(1, len(SPANS), len(PIECES), dtype=torch.float64)
    for word, span in enumerate(SPANS):
        member[0, word, list(span)] = 1
    weights = torch.tensor(sentences().standard[1])[None]
    exact = word_attention(weights, member)[0, 2].numpy()
    pieces = max(map(len, SPANS))
    np.testing.assert_allclose(in_words("standard", 1, 2) / 1e5, exact, atol=(pieces + 1) * 0.5e-5)


def test_the_readout_says_which_and_the_choice_goes_along(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "sentences", "view=heatmap&layer=1&head=2&query=3&key=5") as page:
        said = readout(page)["text"]
        assert said.startswith("##x → ##ed ")
        assert "standard between pieces" in said
        page.click("[data-level=words]")
        said = readout(settle(page))
        assert said["text"].startswith("fox → jumped ")
        assert "standard between words" in said["text"]
        assert said["value"] == text_of(in_words("standard", 1, 2)[2, 3])
        assert page.evaluate("location.hash") == "#view=heatmap&layer=1&head=2&query=2&key=3&words=1"
        page.keyboard.press("w")
        assert (state(page)["query"], state(page)["key"]) == (2, 4)  # their first pieces
        assert "10 tokens in 8 words" in page.inner_text("#sides")


def test_every_view_in_words(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "sentences", "words=1") as page:
        for view in ("heads", "model", "heatmap", "rollout"):
            assert colours(change(page, view=view)) > 8, view
        assert (
            page.eval_on_selector_all("#query option", "(all) => all.map((one) => one.textContent.split('  ')[1])")
            == WORDS
        )
        change(page, view="neuron", query=3)  # of pieces, as these have queries and keys
        assert page.is_disabled("[data-level=words]")
        assert "pieces only" in page.get_attribute("[data-level=words]", "title")
        assert page.locator("#query option").count() == len(PIECES)
        change(page, view="rollout")
        assert (state(page)["words"], state(page)["query"]) == (True, 2)


def test_rollout_between_words_joins_that_between_pieces(chromium: Any, tmp_path: Path) -> None:
    heads = torch.stack([torch.tensor(whole(sentences(), "standard", layer)) for layer in range(LAYERS)]).double() / 1e5
    pieces = attention_rollout(heads.mean(dim=1)).numpy()
    expected = [[pieces[layer, 2:4][:, list(span)].mean(axis=0).sum() for span in SPANS] for layer in range(LAYERS)]
    with opened(chromium, tmp_path, "sentences", "view=rollout&words=1&query=2") as page:
        keys = ["ArrowUp", *["ArrowLeft"] * len(WORDS), *["ArrowRight"] * len(WORDS), "ArrowDown"]
        seen = {(int(said["layer"]), int(said["key"])): float(said["value"]) for said in walked(page, keys)}
    assert len(seen) > len(WORDS)
    assert seen == {place: pytest.approx(expected[place[0]][place[1]], abs=0.51e-5) for place in seen}


def test_words_as_csv(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "sentences", "view=heatmap&words=1&between=a-b&special=0") as page:
        path = downloaded(page, "csv", tmp_path)
    assert path.name == "attention-standard-words-a-to-b-layer0-head0.csv"
    rows = list(csv.reader(path.open(encoding="utf-8", newline="")))
    assert rows[0] == ["", "it", "ran"]
    assert [row[0] for row in rows[1:]] == ["the", "fox", "jumped"]
    assert [row[1:] for row in rows[1:]] == [
        [text_of(number) for number in row] for row in in_words("standard", 0, 0)[1:4, 5:7]
    ]


def test_no_choice_where_every_word_is_one_piece(chromium: Any, tmp_path: Path) -> None:
    with opened(chromium, tmp_path, "one", "words=1") as page:
        assert not page.is_visible("#levels")
        assert state(page)["words"] is False
        page.keyboard.press("w")
        assert state(page)["words"] is False
