"""Rollout by hand, against plain products, and what must hold for any graph."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.graphs.rollout import attention_rollout, head_rollout


def stochastic(*shape: int, seed: int = 0) -> torch.Tensor:
    return (
        torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).mul(2).softmax(dim=-1)
    )


def test_two_tokens_two_layers_by_hand():
    """Check A = [[.5+.5*.2, .5*.8], [.5*.6, .5+.5*.4]] = [[.6, .4], [.3, .7]], times [[1, 0], [.5, .5]]."""
    attention = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.2, 0.8], [0.6, 0.4]]])
    want = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.8, 0.2], [0.65, 0.35]]], dtype=torch.float64)
    torch.testing.assert_close(attention_rollout(attention), want, atol=1e-7, rtol=0)


@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("residual", [0.0, 0.3, 1.0])
def test_any_layer_to_any_lower_layer(residual, start):
    attention = stochastic(4, 5, 5)
    got = attention_rollout(attention, residual=residual, start=start)
    assert got.shape == (4 - start, 5, 5)
    for top in range(start, 4):
        want = np.eye(5)
        for layer in range(start, top + 1):
            want = (residual * np.eye(5) + (1 - residual) * attention[layer].numpy()) @ want
        np.testing.assert_allclose(got[top - start], want, atol=1e-14)


def test_a_batch_is_a_loop_and_arrays_are_welcome():
    attention = stochastic(3, 4, 5, 5)
    got = attention_rollout(attention)
    for example in range(3):
        torch.testing.assert_close(got[example], attention_rollout(attention[example].numpy()))


def test_each_head_on_top_of_all_heads_below():
    heads = stochastic(3, 2, 4, 4)
    got = head_rollout(heads, residual=0.4)
    mean = 0.4 * torch.eye(4, dtype=torch.float64) + 0.6 * heads.mean(dim=1)
    for head in range(2):
        own = 0.4 * torch.eye(4, dtype=torch.float64) + 0.6 * heads[:, head]
        torch.testing.assert_close(got[0, head], own[0])
        torch.testing.assert_close(got[1, head], own[1] @ mean[0])
        torch.testing.assert_close(got[2, head], own[2] @ mean[1] @ mean[0])


def test_heads_average_to_the_rollout_of_all():
    heads = stochastic(2, 3, 4, 5, 5)  # a batch of two
    torch.testing.assert_close(head_rollout(heads).mean(dim=2), attention_rollout(heads.mean(dim=2)))


def test_another_graph_below_the_heads():
    heads = stochastic(2, 2, 4, 4)
    below = stochastic(2, 4, 4, seed=1)
    eye = torch.eye(4, dtype=torch.float64)
    want = (0.5 * eye + 0.5 * heads[1, 1]) @ (0.5 * eye + 0.5 * below[0])
    torch.testing.assert_close(head_rollout(heads, below=below)[1, 1], want)


def test_a_zero_row_keeps_its_residual():
    attention = stochastic(2, 3, 3)
    attention[:, 1] = 0
    got = attention_rollout(attention)
    torch.testing.assert_close(got[1, 1], torch.tensor([0.0, 0.25, 0.0], dtype=torch.float64))


def test_one_token():
    assert attention_rollout(torch.ones(3, 1, 1)).tolist() == [[[1.0]]] * 3


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.floats(0, 1), st.integers(0, 1000))
def test_rows_sum_to_one_and_naming_tokens_otherwise_changes_nothing(layers, size, residual, seed):
    attention = stochastic(layers, size, size, seed=seed)
    got = attention_rollout(attention, residual=residual)
    torch.testing.assert_close(got.sum(dim=-1), torch.ones(layers, size, dtype=torch.float64))
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    turned = attention_rollout(attention[:, order][:, :, order], residual=residual)
    torch.testing.assert_close(turned, got[:, order][:, :, order])


@pytest.mark.parametrize("call", [attention_rollout, lambda x, **o: head_rollout(x[:, None], **o)])
def test_wrong_input(call):
    good = stochastic(2, 3, 3)
    with pytest.raises(ValueError, match=r"residual must be from 0 to 1, got 1\.5"):
        call(good, residual=1.5)
    with pytest.raises(ValueError, match=r"residual must be from 0 to 1, got nan"):
        call(good, residual=float("nan"))
    with pytest.raises(ValueError, match=r"as many queries as keys, got shape \(2, .*3, 2\)"):
        call(good[..., :2])
    with pytest.raises(ValueError, match="at least one layer and one token"):
        call(good[:0])
    with pytest.raises(ValueError, match="attention must be finite"):
        call(good / 0)


def test_start_outside():
    with pytest.raises(ValueError, match=r"start must be from 0 to 1, got \[2\]"):
        attention_rollout(stochastic(2, 3, 3), start=2)
