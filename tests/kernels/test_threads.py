"""Machine code that is kept on disk is that of the sources as they are now."""

from __future__ import annotations

from pathlib import Path

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
