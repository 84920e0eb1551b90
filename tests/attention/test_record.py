"""What a mask says, read the short way where it is causal, is what the long way reads."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from effective_attention.attention import record
from effective_attention.attention.record import Mask

KEYS = 6
LEAST = torch.finfo(torch.float32).min


def causal(batch: int = 2, heads: int = 1) -> Tensor:
    hidden = torch.ones(KEYS, KEYS, dtype=torch.bool).triu(1)
    return torch.zeros(batch, heads, KEYS, KEYS).masked_fill(hidden, LEAST)


def changed(place: tuple[int, ...], value: float) -> Tensor:
    mask = causal()
    mask[place] = value
    return mask


MASKS = {
    "causal": causal(),
    "one for all examples": causal(batch=1),
    "bool": causal() == 0,
    "with a bias": changed((0, 0, 3, 1), -0.5),
    "a key is hidden": changed((1, 0, 4, 2), LEAST),
    "a key behind is seen": changed((1, 0, 2, 3), 0.0),
    "one for each head": causal(heads=3),
    "nothing hidden": torch.zeros(2, 1, KEYS, KEYS),
    "one key": torch.zeros(2, 1, 1, 1),
}
SHORT = {"causal", "one for all examples", "bool", "with a bias"}


def said(mask: Tensor) -> list[Any]:
    found = Mask.of(mask, (2, 3, *mask.shape[2:]))
    parts = [found.visible, found.seen, found.only_hides, found.blinds, found.is_causal]
    if found.intervals is not None:
        parts += [getattr(found.intervals, name) for name in ("seen", "start", "stop", "regular", "counts")]
    return parts


@pytest.mark.parametrize("name", MASKS)
def test_a_causal_mask_is_read_the_short_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = MASKS[name]
    assert record._is_triangle(record.shown_by(mask), (2, 3, *mask.shape[2:])) == (name in SHORT)
    short = said(mask)
    monkeypatch.setattr(record, "_is_triangle", lambda *_: False)
    for one, other in zip(short, said(mask), strict=True):
        if isinstance(one, Tensor):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)  # shapes, too
        else:
            assert one == other
