"""The split where queries see different keys against one pseudo-inverse for each query, with derivatives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from effective_attention import decompose
from effective_attention.attention import interval_split, projection

KEYS = 24
PLACE = torch.arange(KEYS)
CAUSAL = PLACE[None] <= PLACE[:, None]
MASKS = {
    "causal": CAUSAL,
    "window": CAUSAL & (PLACE[None] > PLACE[:, None] - 9),
    "around": (PLACE[None] - PLACE[:, None]).abs() <= 4,
    "blocks": PLACE[None] // 7 == PLACE[:, None] // 7,
    "left padding": (CAUSAL & (PLACE >= 5)) | (PLACE[:, None] < 5),
    "holes": CAUSAL & ((PLACE[None] % 3 != 1) | (PLACE[:, None] % 2 == 0)),
}


def make(mask: Tensor, *, heads: int = 4, shared: int = 4, width: int = 5, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(2, heads, KEYS, KEYS, generator=generator)
    value = torch.randn(2, shared, KEYS, width, generator=generator)
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1), value


def naive(attention: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Return ``a V V^+`` query by query; autograd goes through it."""
    rows = []
    for query in range(KEYS):
        own = mask[query]
        seen = value[:, :, own]
        row = attention[:, :, query : query + 1, own] @ seen @ torch.linalg.pinv(seen)
        rows.append(torch.zeros_like(attention[:, :, :1]).masked_scatter(own, row))
    return torch.cat(rows, dim=2)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("width", [3, 5, 12])
def test_against_the_pseudo_inverse(mask: Tensor, width: int) -> None:
    attention, value = make(mask, width=width)
    effective = decompose(attention, value, mask).effective
    torch.testing.assert_close(effective.double(), naive(attention.double(), value.double(), mask), atol=1e-6, rtol=0)
    assert not effective.masked_select(~mask).any()


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_grouped_values_are_split_once(mask: Tensor) -> None:
    attention, value = make(mask, shared=2)
    together = decompose(attention, value, mask)
    apart = decompose(attention, value.repeat_interleave(2, dim=1), mask)
    torch.testing.assert_close(together.effective, apart.effective, atol=1e-7, rtol=0)
    assert torch.equal(together.rank, apart.rank)
    assert torch.equal(together.value, apart.value)


@pytest.mark.parametrize("mask", [None, torch.arange(KEYS) < 20])
def test_grouped_values_where_all_see_the_same(mask: Tensor | None) -> None:
    attention, value = make(torch.ones(KEYS, KEYS, dtype=torch.bool) if mask is None else mask, shared=2)
    mask = None if mask is None else mask.expand(2, -1)
    together = decompose(attention, value, mask)
    apart = decompose(attention, value.repeat_interleave(2, dim=1), mask)
    torch.testing.assert_close(together.effective, apart.effective, atol=1e-7, rtol=0)
    assert torch.equal(together.rank, apart.rank)


def test_grouped_values_under_a_mask_for_each_head() -> None:
    mask = torch.stack([CAUSAL, MASKS["window"], CAUSAL, MASKS["blocks"]])[None].expand(2, -1, -1, -1)
    attention, value = make(mask, shared=2)
    effective = decompose(attention, value, mask).effective
    for head in range(4):
        own = decompose(attention[:, head : head + 1], value[:, head // 2 : head // 2 + 1], mask[0, head]).effective
        torch.testing.assert_close(effective[:, head : head + 1], own, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["causal", "window", "holes"])
def test_derivatives_are_those_of_the_pseudo_inverse(name: str) -> None:
    mask = MASKS[name]
    attention, value = make(mask)
    direction = torch.randn(2, 4, KEYS, KEYS, generator=torch.Generator().manual_seed(3))
    found = []
    for split, dtype in ((naive, torch.float64), (lambda *x: decompose(*x).effective, torch.float32)):
        inputs = [part.to(dtype).requires_grad_() for part in (attention, value)]
        (split(*inputs, mask) * direction.to(dtype)).sum().backward()
        found.append([part.grad for part in inputs])
    (attention_wanted, value_wanted), (attention_got, value_got) = found
    torch.testing.assert_close(attention_got.double() * mask, attention_wanted * mask, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(value_got.double(), value_wanted, atol=1e-3, rtol=1e-3)


def test_a_tolerance_of_ones_own_decides_the_rank() -> None:
    attention, value = make(CAUSAL)
    value[..., 4] = value[..., 0] + 1e-3 * value[..., 4]
    seen = value[:, :, :, :4]
    coarse = decompose(attention, value, CAUSAL, rtol=1e-2)
    assert coarse.rank.unique().tolist() == [4]
    expected = decompose(attention, seen, CAUSAL)
    torch.testing.assert_close(coarse.effective[:, :, -1], expected.effective[:, :, -1], atol=1e-3, rtol=0)
    assert decompose(attention, value, CAUSAL).rank.unique().tolist() == [5]


def test_most_rows_need_no_basis_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One factorisation for each query would be what it was: some hundred times as slow."""
    calls = []
    by_key_mask = projection.by_key_mask
    monkeypatch.setattr(projection, "by_key_mask", lambda *x, **y: calls.append(1) or by_key_mask(*x, **y))
    decompose(*make(CAUSAL), CAUSAL)
    assert len(calls) <= 1


def test_queries_of_one_mask_share_a_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    by_key_mask = projection.by_key_mask
    monkeypatch.setattr(projection, "by_key_mask", lambda *x, **y: calls.append(1) or by_key_mask(*x, **y))
    mask = PLACE[None] % 2 == PLACE[:, None] % 2  # even queries see even keys: no interval, but two sets of keys only
    attention, value = make(mask)
    effective = decompose(attention, value, mask).effective
    torch.testing.assert_close(effective.double(), naive(attention.double(), value.double(), mask), atol=1e-6, rtol=0)
    assert len(calls) <= 3


def test_blocks_of_queries_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    attention, value = make(MASKS["window"])
    whole = decompose(attention, value, MASKS["window"]).effective
    monkeypatch.setattr(interval_split, "_ROWS", 5)
    torch.testing.assert_close(decompose(attention, value, MASKS["window"]).effective, whole, atol=1e-7, rtol=0)


def test_a_heavy_key_among_light_ones() -> None:
    """The condition number rises beyond what the recursion can take, though it began well."""
    attention, value = make(CAUSAL, width=3)
    value[:, :, 15] *= 5e5
    effective = decompose(attention, value, CAUSAL).effective
    torch.testing.assert_close(effective.double(), naive(attention.double(), value.double(), CAUSAL), atol=1e-6, rtol=0)


def test_hidden_keys_are_zero_where_svd_decides_too() -> None:
    mask = (PLACE[None] * 7 + PLACE[:, None] * 5) % 3 != 0
    attention, value = make(mask, width=6)
    value[..., 3:] = value[..., :3]
    assert not decompose(attention, value, mask).effective.masked_select(~mask).any()
    assert not decompose(attention.double(), value.double(), CAUSAL & mask).effective.masked_select(~mask).any()


def test_an_empty_batch_is_split_into_nothing() -> None:
    attention, value = make(CAUSAL)
    parts = decompose(attention[:0], value[:0], CAUSAL)
    assert parts.effective.shape == (0, 4, KEYS, KEYS)
    assert parts.rank.shape == (0, 4)
