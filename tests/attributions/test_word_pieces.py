"""Numbers of words against the words themselves, and joined scores against loops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.attention.trace import Trace
from effective_attention.attributions.word_pieces import join, members, pieces_in, spread, words_there
from effective_attention.attributions.words import Word, join_scores


def batch(tokenizer: Any, texts: list[tuple[str, ...]], longest: int = 64) -> Trace:
    """Return a trace that has tokens only."""
    rows = [tokenizer(*parts, truncation=True, max_length=longest)["input_ids"] for parts in texts]
    most = max(map(len, rows)) + 2
    ids = torch.tensor([row + [tokenizer.pad_token_id] * (most - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (most - len(row)) for row in rows])
    return Trace(torch.nn.Identity(), {"input_ids": ids, "attention_mask": mask}, (), (), torch.empty(0))


def test_pieces_of_a_word_have_its_number(tokenizer: Any) -> None:
    texts = [("The unseenly dog's bark .", "It barked"), ("Yes",)]
    numbers, words = pieces_in(batch(tokenizer, texts), texts, tokenizer, 64)
    for row, found in enumerate(words):
        for number, word in enumerate(found):
            assert (numbers[row] == number).nonzero()[:, 0].tolist() == list(word.tokens)
        assert len(found) == int(numbers[row].max()) + 1
        covered = sum(len(word.tokens) for word in found)
        assert int((numbers[row] >= 0).sum()) == covered  # special tokens and padding have none
    assert [word.text for word in words[0]] == ["The", "unseenly", "dog's", "bark", ".", "It", "barked"]


def test_other_tokens_are_refused(tokenizer: Any) -> None:
    seen = batch(tokenizer, [("A dog barks .",)])
    with pytest.raises(ValueError, match=r"the tokenizer makes other tokens of a text .*'A cat sleeps \.'"):
        pieces_in(seen, [("A cat sleeps .",)], tokenizer, 64)


def test_long_texts_are_cut_where_the_model_cuts_them(tokenizer: Any) -> None:
    texts = [("one two three four five six seven", "a b c d e f g")]
    numbers, words = pieces_in(batch(tokenizer, texts, 9), texts, tokenizer, 9)
    assert int((numbers >= 0).sum()) == sum(len(word.tokens) for word in words[0]) == 6


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-1, 3), st.integers(-4, 4)), min_size=1, max_size=9),
    st.sampled_from(["sum", "largest"]),
)
def test_scores_are_joined_as_by_the_loop(tokens: list[tuple[int, int]], how: Any) -> None:
    numbers = torch.tensor([[number for number, _ in tokens]])
    scores = torch.tensor([[float(score) for _, score in tokens]])
    found = join(scores, numbers, how)[0]
    for number in range(found.shape[0]):
        places = tuple(place for place, (mine, _) in enumerate(tokens) if mine == number)
        expected = join_scores(scores[0].tolist(), [Word("w", 0, 0, 1, places)], how)[0] if places else 0
        assert found[number].item() == expected
    there = words_there(numbers)
    assert there[0].tolist() == [bool((numbers == number).any()) for number in range(found.shape[0])]
    assert torch.equal(members(numbers).any(dim=-1), there)
    chosen = torch.rand(3, 1, found.shape[0], generator=torch.Generator().manual_seed(0)) < 0.5
    wide = spread(chosen, numbers)
    for draw in range(3):
        expected = [number >= 0 and bool(chosen[draw, 0, number]) for number, _ in tokens]
        assert wide[draw, 0].tolist() == expected


def test_many_methods_at_once_and_no_words_at_all() -> None:
    scores = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))  # (method, layer, batch, key)
    numbers = torch.tensor([[-1, 0, 0, 1, -1], [-1] * 5, [0, 1, 2, 3, 4], [-1, 0, 0, 0, 0]])
    for how in ("sum", "largest"):
        whole = join(scores, numbers, how)  # type: ignore[arg-type]
        assert whole.shape == (2, 3, 4, 5)
        for method in range(2):
            for layer in range(3):
                part = join(scores[method, layer], numbers, how)  # type: ignore[arg-type]
                torch.testing.assert_close(whole[method, layer], part)
    assert not words_there(torch.full((2, 3), -1)).any()
