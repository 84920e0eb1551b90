"""How long ``--help`` takes, as a multiple of ``import hydra``, both measured in turns in one run.

python benchmarks/help_time.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 15
COMMANDS = {"import hydra": ["-c", "import hydra"], "train.py --help": ["train.py", "--help"]}


def seconds(words: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, check=True)
    return time.perf_counter() - start


def main() -> None:
    rounds = [{name: seconds(words) for name, words in COMMANDS.items()} for _ in range(ROUNDS)]
    for name in COMMANDS:
        print(f"{name}: median {statistics.median(one[name] for one in rounds):.3f} s")
    ratios = sorted(one["train.py --help"] / one["import hydra"] for one in rounds)
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"ratio: median {middle:.2f}, quartiles {low:.2f} and {high:.2f}, of {ROUNDS} rounds")


if __name__ == "__main__":
    main()
