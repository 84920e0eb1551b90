"""Compile every loop now instead of at first use: ``python -m effective_attention.kernels``.

For the installation of a machine or the build of a container image, so that the first run does not wait. Numba keeps
the machine code beside the package where it may write there, else in the user's cache, or in ``NUMBA_CACHE_DIR``.
"""

from __future__ import annotations

import sys
import time

from effective_attention.kernels.choice import compile_all


def main() -> int:
    """Compile, and say how long it took; return 1 where the loops cannot be compiled here."""
    started = time.perf_counter()
    compiled = compile_all()
    print(
        f"{'compiled' if compiled else 'not compiled: the plain references run'}, {time.perf_counter() - started:.0f} s"
    )
    return 0 if compiled else 1


if __name__ == "__main__":
    sys.exit(main())
