"""Leverage: the projector's diagonal, and the bound that it puts on effective attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention import decompose
from effective_attention.attention.leverage import leverage
from effective_attention.attention.readings import Space


def diagonal(value: np.ndarray, space: Space) -> np.ndarray:
    columns = np.column_stack([value, np.ones(len(value))]) if space == "affine" else value
    return np.diag(columns @ np.linalg.pinv(columns))


@pytest.mark.parametrize("space", ["value", "affine"])
@pytest.mark.parametrize("keys", [3, 12])
def test_it_is_the_diagonal_of_the_projector(space: Space, keys: int) -> None:
    value = torch.randn(2, 3, keys, 5, generator=torch.Generator().manual_seed(0))
    found = leverage(value, space=space)
    assert found.shape == (2, 3, 1, keys)
    for b, h in np.ndindex(2, 3):
        np.testing.assert_allclose(found[b, h, 0], diagonal(value[b, h].double().numpy(), space), atol=1e-6)
    rank = min(keys, 5 + (space == "affine"))
    np.testing.assert_allclose(found.sum(-1), rank, atol=1e-5)


@pytest.mark.parametrize("space", ["value", "affine"])
def test_each_query_has_its_own_keys(space: Space) -> None:
    value = torch.randn(1, 2, 9, 3, generator=torch.Generator().manual_seed(1))
    visible = torch.ones(9, 9, dtype=torch.bool).tril()[None, None]
    found = leverage(value, visible, space=space)
    assert found.shape == (1, 2, 9, 9)
    for h, q in np.ndindex(2, 9):
        expected = diagonal(value[0, h, : q + 1].double().numpy(), space)
        np.testing.assert_allclose(found[0, h, q, : q + 1], expected, atol=1e-6)
        assert not found[0, h, q, q + 1 :].any()


def test_hidden_keys_have_none_and_do_not_count() -> None:
    value = torch.randn(1, 1, 8, 3, generator=torch.Generator().manual_seed(2))
    seen = (torch.arange(8) < 6)[None, None, None]
    found = leverage(value, seen)[0, 0, 0]
    np.testing.assert_allclose(found[:6], diagonal(value[0, 0, :6].double().numpy(), "value"), atol=1e-6)
    assert found[6:].tolist() == [0, 0]


def test_heads_that_see_different_keys() -> None:
    value = torch.randn(1, 1, 8, 3, generator=torch.Generator().manual_seed(3))
    visible = torch.stack([torch.arange(8) < 8, torch.arange(8) < 5])[None, :, None]
    found = leverage(value, visible)
    assert found.shape == (1, 2, 1, 8)
    np.testing.assert_allclose(found[0, 1, 0, :5], diagonal(value[0, 0, :5].double().numpy(), "value"), atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 5), st.booleans(), st.integers(0, 10**6))
def test_no_effective_weight_exceeds_its_bound(key: int, width: int, causal: bool, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    value = torch.randn(1, 2, key, width, generator=generator).round(decimals=seed % 2)
    mask = torch.ones(key, key, dtype=torch.bool).tril()[None, None] if causal else None
    scores = 3 * torch.randn(1, 2, key, key, generator=generator)
    attention = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
    affine = decompose(attention, value, mask, space="affine").effective
    bound = attention.norm(dim=-1, keepdim=True) * leverage(value, mask).sqrt()
    assert bool((decompose(attention, value, mask).effective.abs() <= bound + 1e-5).all())
    larger = leverage(value, mask, space="affine")
    assert bool((affine.abs() <= attention.norm(dim=-1, keepdim=True) * larger.sqrt() + 1e-5).all())
    assert bool((larger >= leverage(value, mask) - 1e-5).all())
    seen = torch.ones(key, key).tril() if causal else torch.ones(1, key)
    assert bool((larger * seen >= seen / seen.sum(-1, keepdim=True) - 1e-5).all())
