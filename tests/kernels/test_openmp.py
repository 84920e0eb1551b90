"""Work on PyTorch's own threads, where its OpenMP library can be had."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from effective_attention.kernels import openmp, threads


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def here() -> bool:
    return sys.platform == "linux" and "OpenMP" in torch.__config__.parallel_info()


@pytest.mark.skipif(not here(), reason="PyTorch's threads are not OpenMP's here")
def test_the_library_is_found_where_pytorch_uses_it(two_threads: None) -> None:
    ran: list[int] = []
    assert openmp.run([lambda: ran.append(threading.get_ident())] * 2)
    assert len(ran) == 2
    assert threading.get_ident() in ran  # whoever asks works too


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_each_part_runs_once(count: int, two_threads: None) -> None:
    ran: list[int] = []
    if openmp.run([lambda number=number: ran.append(number) for number in range(count)]):  # type: ignore[misc]
        assert sorted(ran) == [*range(count)]
    else:
        assert ran == []


def test_an_error_is_raised_when_all_have_ended(two_threads: None) -> None:
    ran: list[int] = []

    def fail() -> None:
        raise KeyError("the first")

    if not here():
        pytest.skip("PyTorch's threads are not OpenMP's here")
    with pytest.raises(KeyError, match="the first"):
        openmp.run([fail, lambda: ran.append(1)])
    assert ran == [1]


def test_without_the_library_threads_of_our_own_do_it(monkeypatch: pytest.MonkeyPatch, two_threads: None) -> None:
    monkeypatch.setattr(openmp, "_library", lambda: None)
    assert not openmp.run([pytest.fail])
    parts: list[tuple[int, int]] = []
    threads.share_out(lambda first, last: parts.append((first, last)), 10)
    assert sorted(parts) == [(0, 5), (5, 10)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_does_not_wait_for_threads_it_has_not_got(two_threads: None) -> None:
    openmp.run([int, int])  # the library has its threads now
    child = os.fork()
    if child == 0:
        parts: list[int] = []
        threads.share_out(lambda first, last: parts.append(last - first), 4)
        os._exit(0 if sum(parts) == 4 else 1)
    assert os.waitpid(child, 0)[1] == 0
