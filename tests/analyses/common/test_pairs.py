"""Which pairs count, and what they weigh."""

import dataclasses

import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from effective_attention.analyses.common.options import check_pair_options
from effective_attention.analyses.common.pairs import (
    counted,
    counted_tokens,
    counts_first,
    distances,
    even_weights,
    is_first,
    pair_weights,
)
from effective_attention.attention.trace import Layer, trace
from effective_attention.data.annotation.tagging import KINDS
from effective_attention.errors import UserError
from helpers.subjects import make_context


def decoder(kinds, pads=0):
    """A causal model of two layers on one text, padded at its end."""
    torch.manual_seed(0)
    model = hf.AutoModel.from_config(hf.GPT2Config(vocab_size=9, n_embd=16, n_layer=2, n_head=2)).eval()
    kind = torch.tensor([[KINDS.index(kind) for kind in kinds] + [-1] * pads])
    mask = torch.tensor([[1] * len(kinds) + [0] * pads])
    return trace(
        model, {"input_ids": torch.arange(kind.shape[1])[None] % 9, "attention_mask": mask}, tokens={"kind": kind}
    )


@pytest.mark.parametrize("special_tokens", [True, False])
def test_a_padded_batch_against_a_naive_loop(subject, special_tokens):
    seen = subject.trace([0, 1, 2])
    pairs = counted(seen, special_tokens=special_tokens)
    assert len(set(seen.lengths.tolist())) > 1
    for row, index in enumerate((0, 1, 2)):
        kinds = [KINDS[kind] for kind in subject.annotated.kind[subject.annotated.span(index)]]
        counts = [special_tokens or kind in ("word", "punctuation") for kind in kinds]
        counts += [False] * (pairs.shape[-1] - len(counts))
        assert counted_tokens(seen, special_tokens=special_tokens)[row].tolist() == counts
        assert pairs[row].tolist() == [[query and key for key in counts] for query in counts]


def test_a_causal_mask_hides_what_comes_later():
    seen = decoder(["word"] * 4, pads=1)
    expected = [[key <= query < 4 for key in range(5)] for query in range(5)]
    assert counted(seen, special_tokens=True)[0].tolist() == expected
    assert counted(seen, special_tokens=False, layer=seen.layers[1])[0].tolist() == expected


def test_attention_to_the_first_token_can_be_left_out():
    seen = decoder(["word"] * 4, pads=1)
    expected = [[0 < key <= query < 4 for key in range(5)] for query in range(5)]
    assert counted(seen, special_tokens=True, first_token=False)[0].tolist() == expected
    encoder = dataclasses.replace(seen, layers=tuple(dataclasses.replace(one, visible=None) for one in seen.layers))
    expected = [[0 < key < 4 and query < 4 for key in range(5)] for query in range(5)]  # its query stays
    assert counted(encoder, special_tokens=True, first_token=False)[0].tolist() == expected
    left = dataclasses.replace(seen, inputs={**seen.inputs, "attention_mask": torch.tensor([[0, 1, 1, 1, 1]])})
    assert is_first(left)[0].tolist() == [False, True, False, False, False]


def test_a_first_token_that_is_special_is_not_followed_by_another():
    seen = decoder(["other special", "word", "word"])
    expected = [[0 < key <= query for key in range(3)] for query in range(3)]
    for first_token in (True, False):
        assert counted(seen, special_tokens=False, first_token=first_token)[0].tolist() == expected


@pytest.mark.parametrize(
    ("first_token", "causal", "counts"),
    [(None, True, False), (None, False, True), (True, True, True), (False, False, False)],
)
def test_who_decides_about_the_first_token(first_token, causal, counts):
    assert counts_first(first_token, make_context(causal=causal)) is counts


def test_every_kind_of_special_token_can_be_left_out():
    seen = decoder(["cls", "word", "other special", "punctuation", "sep"])
    assert counted_tokens(seen, special_tokens=False)[0].tolist() == [False, True, False, True, False]
    assert counted_tokens(seen, special_tokens=True).all()


def test_each_layer_has_its_own_mask(subject):
    seen = subject.trace([0])
    size = seen.mask.shape[1]
    near = distances(size, torch.device("cpu")) <= 2
    local = dataclasses.replace(seen.layers[0], visible=near[None, None])
    mixed = dataclasses.replace(seen, layers=(local, dataclasses.replace(seen.layers[1], visible=None)))
    assert torch.equal(counted(mixed, special_tokens=True, layer=local)[0], near)
    assert counted(mixed, special_tokens=True, layer=mixed.layers[1]).all()
    assert counted(mixed, special_tokens=True).all()  # some layer sees it
    assert torch.equal(counted(dataclasses.replace(mixed, layers=(local,)), special_tokens=True)[0], near)


def signed_layer() -> tuple[Layer, torch.Tensor]:
    """One head of width 1 on three tokens, so that effective weights can be told by hand; all pairs count."""
    attention = torch.tensor([[[[0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [0.25, 0.5, 0.25]]]])
    return Layer(attention, torch.tensor([[[[1.0], [-1.0], [0.5]]]])), torch.ones(1, 3, 3, dtype=torch.bool)


def test_weights_by_hand():
    """With one value v per key, effective attention is (a . v) v / (v . v); a . v is 3/8, 1/2 and -1/8, row by row."""
    layer, pairs = signed_layer()
    pairs[:, :, 2] = False
    effective = torch.tensor([[0.375, -0.375, 0], [0.5, -0.5, 0], [-0.125, 0.125, 0]], dtype=torch.float64) / 2.25
    torch.testing.assert_close(pair_weights(layer, "effective", pairs)[0, 0], effective.abs())
    torch.testing.assert_close(pair_weights(layer, "effective", pairs, "positive")[0, 0], effective.clamp_min(0))
    standard = torch.tensor([[0.5, 0.25, 0.0], [0.0, 0.0, 0.0], [0.25, 0.5, 0.0]], dtype=torch.float64)
    assert torch.equal(pair_weights(layer, "standard", pairs)[0, 0], standard)


def test_the_trace_is_left_as_it_was():
    layer, pairs = signed_layer()
    before = layer.part("effective").clone()
    pair_weights(layer, "effective", pairs)
    assert torch.equal(layer.part("effective"), before)
    assert (before < 0).any()


@given(arrays.arrays(bool, st.tuples(st.integers(1, 3), *[st.integers(1, 5)] * 2)))
def test_even_weights_sum_to_one_or_nothing(pairs):
    pairs = torch.from_numpy(pairs)
    even = even_weights(pairs)
    torch.testing.assert_close(even.sum(dim=-1), pairs.any(dim=-1).double())
    assert torch.equal(even > 0, pairs)
    assert all(len(row[row > 0].unique()) <= 1 for row in even.flatten(0, 1))


def test_distances():
    assert distances(3, torch.device("cpu")).tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("no",), r"analysis\.some\.special_tokens must be true or false, got 'no'"),
        ((None,), "got None"),
        ((True, "signed"), r"analysis\.some\.convention must be one of absolute, positive, got 'signed'"),
        ((True, None), "got None"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(UserError, match=message):
        check_pair_options("some", *options)
