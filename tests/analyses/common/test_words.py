"""Attention between words."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from effective_attention.analyses.common.words import arcs_of, word_attention, words_of


@pytest.fixture
def made(subject):
    """``made(word=..., head=..., relation=...)``: a trace whose tokens are these, padded to one length."""

    def make(**facts):
        size = max(len(row) for row in facts["word"])
        seen = subject.trace(list(range(len(facts["word"]))))
        tokens = {name: torch.tensor([row + [-1] * (size - len(row)) for row in rows]) for name, rows in facts.items()}
        mask = torch.tensor([[1] * len(row) + [0] * (size - len(row)) for row in facts["word"]])
        return dataclasses.replace(
            seen, layers=(), hidden=(), tokens=tokens, inputs={"input_ids": mask, "attention_mask": mask}
        )

    return make


def test_the_words_of_a_batch(made):
    """[CLS] un ##happy cats [SEP], and [CLS] no [SEP] of one word."""
    word = [[-1, 0, 0, 1, -1], [-1, 0, -1]]
    words = words_of(made(word=word, head=[[-1, 1, 1, 1, -1], [-1, 0, -1]], relation=[[-1, 2, 2, 0, -1], [-1, 3, -1]]))
    assert words.member.tolist() == [[[0, 1, 1, 0, 0], [0, 0, 0, 1, 0]], [[0, 1, 0, 0, 0], [0, 0, 0, 0, 0]]]
    assert words.there.tolist() == [[True, True], [True, False]]
    assert words.head.tolist() == [[1, 1], [0, -1]]
    assert words.relation.tolist() == [[2, 0], [3, -1]]


def test_arcs_leave_out_roots_and_heads_without_a_token(made):
    word = [[-1, 0, 1, 2, 2, 3], [-1, 0]]
    head = [[-1, 1, 1, 0, 0, -2], [-1, 0]]
    arcs = arcs_of(words_of(made(word=word, head=head, relation=[[-1, 5, 6, 7, 7, 8], [-1, 6]])))
    assert arcs.example.tolist() == [0, 0]
    assert arcs.dependent.tolist() == [0, 2]
    assert arcs.head.tolist() == [1, 0]
    assert arcs.relation.tolist() == [5, 7]


def test_a_batch_without_any_word(made):
    facts = [[-1, -1]]
    words = words_of(made(word=facts, head=facts, relation=facts))
    assert not words.there.any()
    assert len(arcs_of(words).example) == 0
    assert word_attention(torch.full((1, 1, 2, 2), 0.5), words.member).tolist() == [[[[0.0]]]]


def test_by_hand():
    attention = torch.tensor(
        [[[[0.4, 0.1, 0.2, 0.3], [0.0, 0.6, 0.4, 0.0], [0.1, 0.2, 0.3, 0.4], [0.2, 0.2, 0.2, 0.4]]]]
    )
    member = torch.tensor([[[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]])  # the first token is special
    assert word_attention(attention, member)[0, 0].tolist() == [pytest.approx([0.75, 0.2]), pytest.approx([0.4, 0.4])]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 2**31 - 1))
def test_against_a_naive_loop_over_sub_tokens(sizes, seed):
    generator = torch.Generator().manual_seed(seed)
    count = sum(sizes) + 2
    attention = torch.rand(1, 2, count, count, generator=generator, dtype=torch.float64).softmax(dim=-1)
    starts = [1 + sum(sizes[:word]) for word in range(len(sizes))]
    pieces = [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    member = torch.tensor([[[float(token in mine) for token in range(count)] for mine in pieces]])
    got = word_attention(attention, member)
    for head in range(2):
        for word, mine in enumerate(pieces):
            for other, theirs in enumerate(pieces):
                sums = [sum(float(attention[0, head, query, key]) for key in theirs) for query in mine]
                assert float(got[0, head, word, other]) == pytest.approx(sum(sums) / len(sums))
    assert (got.sum(dim=-1) <= 1 + 1e-9).all()  # the rest went to special tokens


def test_words_of_one_token_are_left_as_they_are():
    attention = torch.rand(1, 1, 3, 3)
    assert torch.equal(word_attention(attention, torch.eye(3)[None]), attention)
