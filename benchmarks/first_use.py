"""What does the first use on a fresh machine cost? Compiling the loops, as a ratio to importing torch.

    python benchmarks/first_use.py            # three rounds, each in new processes: some minutes

Each round starts three processes in turn: one that only imports torch, one that splits a small attention matrix and
solves a small flow with an empty cache of machine code, and one that does the same again with the cache the second has
left. A ratio is between times of the same round; the table shows the median and the range. Ahead of the first use, at
installation: ``python -m effective_attention.kernels``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from rich.progress import track

IMPORT = "import torch, numpy"
WORK = """
import torch
from effective_attention import decompose
from effective_attention.graphs.flow import attention_flow
decompose(torch.softmax(torch.randn(2, 4, 48, 48), -1), torch.randn(2, 4, 48, 16))
attention_flow(torch.softmax(torch.randn(3, 8, 8), -1))
"""


def seconds(code: str, cache: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    found: dict[str, list[float]] = {"first use, loops compiled": [], "every later use": []}
    for _ in track(range(rounds), "rounds"):
        with tempfile.TemporaryDirectory() as cache:
            imported = seconds(IMPORT, cache)
            for ratios in found.values():
                ratios.append(seconds(WORK, cache) / imported)
    print("a process that splits and solves | time / import torch, median (range)")
    print("---|---")
    for name, ratios in found.items():
        print(f"{name} | {statistics.median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})")


if __name__ == "__main__":
    main()
