"""From tokens to words: where they stand in the user's text, and how their scores are joined."""

import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st

from effective_attention.attributions.words import Word, join_scores, tokens_of, word_numbers, words_of
from helpers.decoders import build_tokenizer as byte_level


def words(tokenizer, *texts):
    tokens = tokens_of(tokenizer(*texts, return_tensors="pt"), texts, tokenizer)
    return tokens, words_of(tokens, texts)


def test_words_are_those_of_the_text_with_its_case_and_accents(tokenizer):
    tokens, found = words(tokenizer, "Unbelievably, don't  go to Café\nNo.1!")
    assert [word.text for word in found] == ["Unbelievably", ",", "don't", "go", "to", "Café", "No", ".", "1", "!"]
    assert next(token.text for token in tokens) == "[CLS]"
    assert [token.special for token in tokens] == [True, *[False] * (len(tokens) - 2), True]
    assert len(found[0].tokens) > 1
    assert [place for word in found for place in word.tokens] == list(range(1, len(tokens) - 1))


def test_the_two_texts_of_a_pair(tokenizer):
    _, found = words(tokenizer, "one two", "two three")
    assert [(word.text, word.segment, word.start, word.end) for word in found] == [
        ("one", 0, 0, 3),
        ("two", 0, 4, 7),
        ("two", 1, 0, 3),
        ("three", 1, 4, 9),
    ]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_byte_level_tokens_are_joined_even_inside_a_letter(family):
    _, found = words(byte_level(family), "The cat 🦊 purred.")
    assert [word.text for word in found] == ["The", "cat", "🦊", "purred", "."]
    assert len(found[2].tokens) > 1


def test_signs_of_chinese_stand_alone_and_hindi_words_stay_whole():
    assert word_numbers("你好 吗") == [0, 1, -1, 2]
    assert set(word_numbers("हिन्दी")) == {0}


def test_a_slow_tokenizer_has_tokens_for_words():
    tokenizer = transformers.ByT5Tokenizer()
    tokens, found = words(tokenizer, "cat")
    assert [token.special for token in tokens] == [False, False, False, True]
    assert [(word.text, word.start) for word in found] == [("c", None), ("a", None), ("t", None)]


def test_a_token_that_reaches_into_two_words_joins_them():
    tokens = [Word("a", 0, 0, 1, (0,)), Word(". b", 0, 1, 4, (1,)), Word("c", 0, 4, 5, (2,)), Word("d", 0, 6, 7, (3,))]
    assert [(word.text, word.tokens) for word in words_of(tokens, ["a. bc d"])] == [
        ("a", (0,)),
        (". bc", (1, 2)),
        ("d", (3,)),
    ]


@given(st.text(max_size=40))
def test_every_letter_that_is_no_blank_has_a_word_and_words_come_in_order(text):
    numbers = word_numbers(text)
    assert [number < 0 for number in numbers] == [letter.isspace() for letter in text]
    seen = [number for number in numbers if number >= 0]
    assert seen == sorted(seen)
    assert set(seen) == set(range(len(set(seen))))


def test_scores_are_summed_or_the_largest():
    found = [Word("ab", 0, 0, 2, (1, 2)), Word("c", 0, 2, 3, (3,))]
    assert join_scores([5.0, 1.0, -3.0, 0.5], found, "sum") == [-2.0, 0.5]
    assert join_scores([5.0, 1.0, -3.0, 0.5], found, "largest") == [-3.0, 0.5]
