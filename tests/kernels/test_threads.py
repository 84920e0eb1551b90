"""Machine code that is kept on disk is that of the sources as they are now; threads share out what there is to do."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from numba.core import types

from effective_attention.kernels import cholesky, threads


def test_a_change_in_any_file_counts(tmp_path: Path) -> None:
    stamps = set()
    for text in ("one", "two"):
        for name in ("a.py", "b.py"):
            (tmp_path / name).write_text(text)
            threads.stamp_of.cache_clear()
            stamps.add(threads.stamp_of(tmp_path))
    assert len(stamps) == 4
    threads.stamp_of.cache_clear()


def test_every_loop_carries_the_stamp_of_all_sources() -> None:
    """Numba itself looks only at the file of the function, not at those of the functions it calls."""
    stamp = threads.stamp_of(Path(threads.__file__).parent)
    assert cholesky._whiten_each._cache._cache_file._source_stamp[1] == stamp


def test_constants_make_no_form_of_their_own() -> None:
    """Numba would compile a function anew for every constant that it is called with."""
    cholesky._round_up.get_call_template((types.int64, types.literal(8)), {})
    assert cholesky._round_up.signatures == [(types.int64, types.int64)]


@pytest.fixture
def use() -> Iterator[Callable[[int], None]]:
    """Return ``use(3)``, which lets PyTorch use three threads until the test is over."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("many", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_every_number_is_in_one_part(many: int, count: int, use: Callable[[int], None]) -> None:
    use(many)
    parts: list[range] = []
    threads.share_out(lambda first, last, given: given.append(range(first, last)), count, parts)
    assert sorted(number for part in parts for number in part) == [*range(count)]
    assert len(parts) == max(1, min(many, count))


@pytest.mark.parametrize(("nanoseconds", "parts"), [(1e3, 1), (1e9, 2)])
def test_what_is_soon_done_stays_on_one_thread(nanoseconds: float, parts: int, use: Callable[[int], None]) -> None:
    use(2)
    done: list[range] = []
    threads.share_out_long(lambda first, last, given: given.append(range(first, last)), 6, nanoseconds, done)
    assert sorted(number for part in done for number in part) == [*range(6)]
    assert len(done) == parts


def test_an_error_in_any_part_is_raised(use: Callable[[int], None]) -> None:
    def fail(first: int, _last: int, bad: int) -> None:
        if first == bad:
            raise ValueError(f"part {bad}")

    use(2)
    for bad in (0, 3):
        with pytest.raises(ValueError, match=f"part {bad}"):
            threads.share_out(fail, 6, bad)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes are not forked here")
def test_a_forked_process_has_threads_of_its_own(use: Callable[[int], None]) -> None:
    """It inherits the pool, but not the threads in it: without a new one it would wait for them forever."""
    use(2)
    threads.share_out(lambda first, last: None, 2)
    child = multiprocessing.get_context("fork").Process(target=threads.share_out, args=(lambda first, last: None, 2))
    child.start()
    child.join(60)
    child.kill()
    assert child.exitcode == 0
