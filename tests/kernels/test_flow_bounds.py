"""Compiled bounds on the flow against the same sums in NumPy, on one thread and on two."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from effective_attention.kernels import max_flow_reference, threads
from effective_attention.kernels.flow_bounds import bounds_into, bounds_of_pairs, bounds_out_of, in_common

Array = NDArray[np.float64]


@pytest.fixture(params=[1, 2], autouse=True)
def thread_count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threads, "_WORTH_SHARING", 0)  # small as these graphs are
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def into_by_numpy(capacity: Array, last: Array) -> Array:
    """(sink, level, node): a node passes on no more than each edge takes and the node below it passes on."""
    into = np.zeros((len(last), len(capacity) + 1, last.shape[1]))
    into[:, 1] = last
    for level in range(1, len(capacity)):
        passed = np.minimum(capacity[level], into[:, level, None, :]).sum(axis=-1)
        into[:, level + 1] = np.minimum(passed, last.sum(axis=-1, keepdims=True))
    return into


def out_of_by_numpy(capacity: Array, first: Array) -> Array:
    """(source, level, node): a node gets no more than each edge takes and the node above it got."""
    out_of = np.zeros((len(first), len(capacity) + 1, first.shape[1]))
    out_of[:, -1] = first
    for level in range(len(capacity), 1, -1):
        got = np.minimum(capacity[level - 1], out_of[:, level, :, None]).sum(axis=-2)
        out_of[:, level - 1] = np.minimum(got, first.sum(axis=-1, keepdims=True))
    return out_of


@pytest.mark.parametrize(("layers", "size"), [(1, 1), (1, 5), (2, 4), (6, 11)])
def test_bounds(layers: int, size: int) -> None:
    random = np.random.default_rng([layers, size])
    capacity, first = random.random((layers, size, size)) ** 3, random.random((3, size))
    last = np.ascontiguousarray(capacity[0].T)
    into, out_of = bounds_into(capacity, last), bounds_out_of(capacity, first)
    np.testing.assert_allclose(into[:, 1:], into_by_numpy(capacity, last)[:, 1:], rtol=1e-13)
    np.testing.assert_allclose(out_of[:, 1:], out_of_by_numpy(capacity, first)[:, 1:], rtol=1e-13)
    pairs = bounds_of_pairs(into, out_of)
    want = np.minimum(into[None], out_of[:, None])[:, :, 1:].sum(axis=-1).min(axis=-1)
    np.testing.assert_allclose(pairs, want, rtol=1e-13)
    assert (pairs >= max_flow_reference.LayeredGraph(capacity).flow(first, layers) - 1e-12).all()


def test_what_is_delivered_and_drawn() -> None:
    random = np.random.default_rng(0)
    delivered, drawn = random.random((3, 7)), random.random((4, 7))
    want = np.minimum(delivered[:, None], drawn).sum(axis=-1)
    np.testing.assert_allclose(in_common(delivered, drawn), want, rtol=1e-13)
