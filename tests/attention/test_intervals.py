"""Intervals of keys are read off a mask, and give it back."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from effective_attention.attention.intervals import causal_intervals, intervals_of

KEYS = 7
PLACE = torch.arange(KEYS)
CAUSAL = PLACE[None] <= PLACE[:, None]
MASKS = {
    "causal": CAUSAL,
    "window": CAUSAL & (PLACE[None] > PLACE[:, None] - 3),
    "around": (PLACE[None] - PLACE[:, None]).abs() <= 1,
    "right padding": CAUSAL & (PLACE < 5),
    "left padding": (CAUSAL & (PLACE >= 2)) | (PLACE[:, None] < 2),  # a query that sees nothing sees all
    "blocks": PLACE[None] // 3 == PLACE[:, None] // 3,
    "all": torch.ones(KEYS, KEYS, dtype=torch.bool),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_a_mask_of_intervals_is_found_again(mask: Tensor) -> None:
    found = intervals_of(mask[None, None])
    assert found.regular.all()
    assert torch.equal(found.visible(), mask[None, None])
    assert torch.equal(found.visible(slice(2, 4)), mask[None, None, 2:4])
    assert torch.equal(found.visible(torch.tensor([5, 0])), mask[None, None, [5, 0]])
    assert torch.equal(found.counts[0, 0], mask.sum(dim=-1))


def test_a_hole_that_others_see_is_no_interval() -> None:
    mask = CAUSAL.clone()
    mask[4, 1] = False
    found = intervals_of(mask[None, None])
    assert found.regular[0, 0].tolist() == [True, True, True, True, False, True, True]


def test_only_plain_causal_attention_is_called_so() -> None:
    assert {name for name, mask in MASKS.items() if intervals_of(mask[None, None]).is_causal} == {"causal"}


@pytest.mark.parametrize("queries", [KEYS, 3, 1])
def test_causal_intervals(queries: int) -> None:
    seen = torch.ones(2, 1, KEYS, dtype=torch.bool)
    seen[1, 0, :2] = False
    found = causal_intervals(seen, queries)
    expected = CAUSAL[KEYS - queries :] & seen[:, :, None]
    assert torch.equal(found.visible(), expected)


@pytest.mark.parametrize("name", ["causal", "window"])
def test_hidden_weights_become_zero(name: str) -> None:
    found = intervals_of(MASKS[name][None, None])
    for queries in (slice(0, KEYS), slice(2, 5), torch.tensor([6, 1])):
        weights = torch.ones(1, 2, KEYS, KEYS)[:, :, queries]
        found.hide_(weights, queries)
        assert torch.equal(weights.bool(), MASKS[name][queries].expand_as(weights))
