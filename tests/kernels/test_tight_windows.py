"""Windows with hardly more keys than dimensions, against the pseudo-inverse of each window's own values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from effective_attention.kernels.tight_windows import MOST, follow_window, length_of_window_run

KEYS = 90


def windows(size: int, keys: int = KEYS) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first key, and one behind the last, of windows that move by a key."""
    start = np.arange(keys - size + 1)
    return start, start + size


def values(width: int, words: int | None = None) -> Tensor:
    """Values in float32; with so many ``words``, of which many occur again."""
    generator = torch.Generator().manual_seed(width)
    if words is None:
        return torch.randn(KEYS, width, generator=generator)
    return torch.randn(words, width, generator=generator)[torch.randint(0, words, (KEYS,), generator=generator)]


def run(
    value: Tensor, start: NDArray[np.int64], stop: NDArray[np.int64], seen: Tensor | None = None, group: int = 1
) -> tuple[int, dict[str, Tensor], Tensor]:
    """Follow all windows; return how many were solved, what was found, and the outputs that were asked for."""
    seen = torch.ones(len(value), dtype=torch.bool) if seen is None else seen
    place = torch.arange(len(value))
    mask = (place >= torch.from_numpy(start)[:, None]) & (place < torch.from_numpy(stop)[:, None]) & seen
    output = (torch.rand(group, *mask.shape, dtype=torch.float64) * mask) @ value.double()
    found = {"coefficients": np.zeros(output.shape), "output": np.zeros(output.shape)}
    found |= {"bound": np.zeros(len(start)), "rank": np.zeros(len(start), dtype=np.int64)}
    arrays = value.double().numpy(), seen.numpy(), start, stop, output.numpy()
    done = follow_window(*arrays, *found.values(), 0, len(start))
    return done, {name: torch.from_numpy(part) for name, part in found.items()}, output


def check(value: Tensor, size: int, seen: Tensor | None = None, group: int = 1) -> None:
    """Compare every window with the pseudo-inverse in float64: coefficients, what they hand on, rank and condition."""
    start, stop = windows(size)
    done, found, output = run(value, start, stop, seen, group)
    assert done == len(start)
    for window, (first, last) in enumerate(zip(start, stop, strict=True)):
        own = value[first:last].double() if seen is None else value[first:last][seen[first:last]].double()
        inverse = torch.linalg.pinv(own, rtol=1e-6)
        expected = output[:, window] @ inverse @ inverse.mT
        singular = torch.linalg.svdvals(own)
        rank = int((singular > 1e-6 * singular[0]).sum())
        assert found["rank"][window] == rank
        assert singular[0] / singular[rank - 1] * (1 - 1e-9) <= found["bound"][window] <= 5e5
        ours = found["coefficients"][:, window]
        torch.testing.assert_close(ours @ own.mT, expected @ own.mT, atol=1e-7, rtol=0)
        torch.testing.assert_close(ours, expected, atol=1e-6 * float(expected.abs().max()), rtol=0)
        torch.testing.assert_close(found["output"][:, window], output[:, window], atol=1e-7, rtol=1e-7)


def test_by_hand() -> None:
    """Two keys, 1 and 2, in one dimension: 3 is handed on by the weights (3, 6) / 5, and 3 / 5 is their coefficient."""
    value = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    found = {"coefficients": np.zeros((1, 2, 1)), "output": np.zeros((1, 2, 1))}
    found |= {"bound": np.zeros(2), "rank": np.zeros(2, dtype=np.int64)}
    output = np.full((1, 2, 1), 3.0)
    start, stop = windows(2, 3)
    assert follow_window(value.numpy(), np.ones(3, dtype=bool), start, stop, output, *found.values(), 0, 2) == 2
    np.testing.assert_allclose(found["coefficients"][0, :, 0], [3 / 5, 3 / 20], rtol=1e-12)
    np.testing.assert_allclose(found["output"], output, rtol=1e-12)
    np.testing.assert_allclose(found["bound"], [5**0.5 / 2, 20**0.5 / 2])
    assert list(found["rank"]) == [1, 1]


@pytest.mark.parametrize("more", [-7, -1, 0, 1, 2, MOST])
@pytest.mark.parametrize("width", [8, 13, 32])
def test_against_the_pseudo_inverse(width: int, more: int) -> None:
    check(values(width), width + more)


@pytest.mark.parametrize("words", [5, 20, 60])
@pytest.mark.parametrize("more", [-3, 1, 6])
def test_words_that_occur_again(words: int, more: int) -> None:
    """Then keys span fewer dimensions, now more, now less; the coefficients are the shortest there are."""
    check(values(16, words), 16 + more)


def test_keys_that_nobody_sees_and_queries_that_share_keys() -> None:
    seen = torch.rand(KEYS, generator=torch.Generator().manual_seed(0)) > 0.2
    check(values(16), 20, seen, group=3)


def test_values_of_very_different_sizes() -> None:
    check(values(16) * torch.logspace(0, -2, 16), 17)
    check(values(16) * torch.logspace(0, 3, KEYS)[:, None], 17)


@pytest.mark.parametrize("apart", [1e-6, 1e-8])
def test_what_is_neither_the_same_nor_not_is_left_to_others(apart: float) -> None:
    value = values(16).double()
    value[40] = value[38] + apart * torch.randn(16, dtype=torch.float64)
    start, stop = windows(12)
    done, found, _ = run(value, start, stop)
    assert done == 29  # of the windows that begin at key 0, 1, ..., the first with both
    assert (found["rank"][:29] == 12).all()


def test_all_zero_is_left_to_others() -> None:
    assert run(torch.zeros(KEYS, 8), *windows(9))[0] == 0


def test_which_windows_are_followed() -> None:
    seen_before = np.arange(KEYS + 1)
    start, stop = windows(9)
    assert length_of_window_run(seen_before, start, stop, 0, 8) == len(start)
    assert length_of_window_run(seen_before, start, stop, 0, 8 - MOST) == 0  # too many keys
    assert length_of_window_run(seen_before, start[:1], stop[:1], 0, 8) == 0  # one alone: a stream keeps its own state
    assert length_of_window_run(seen_before, np.zeros_like(start), stop, 0, 8) == 0  # keys that only come
    jumping = start.copy()
    jumping[10:] += 30
    assert length_of_window_run(seen_before, jumping[:30], jumping[:30] + 9, 0, 8) == 10
