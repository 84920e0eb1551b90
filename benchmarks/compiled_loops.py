"""What do the compiled loops gain, and what the vector type inside them? Times of the others, as ratios to ours.

    python benchmarks/compiled_loops.py                     # two minutes or so
    python benchmarks/compiled_loops.py --rounds 9

On one thread, and timed by what the processor spent on it, not by the clock on the wall: on a machine that others use
too, a call longer than the scheduler's slice is interrupted every time, a short one hardly ever, and their ratio by the
clock would be the scheduler's. All take turns in every round, in an order that changes from round to round; a
turn is as many calls as fit into a tenth of a second. A ratio is between times of the same round, and the table shows
the median and the quartiles over rounds. Absolute times are not a result: they are the machine's. What is compared is
checked to agree first.

Factorisations: `independent_rows` where a head has at most as many keys as it is wide, `orthonormal_columns` where it
has more, as effective attention asks for them.

- compiled, with the vector type: `kernels/cholesky.py`.
- compiled, without it: the same file with `plain_vectors.py` beside this script in the place of `kernels/vectors.py`.
- reference: `kernels/cholesky_reference.py`, PyTorch.

Flow: all pairs of tokens from the top layer to the input, `kernels/max_flow.py` and `kernels/max_flow_reference.py`.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import llvmlite
import numba
import numpy as np
import torch

from effective_attention.kernels import cholesky, cholesky_reference, max_flow, max_flow_reference, memory, tiles

SHIFT = 1e-12
Contestants = dict[str, Callable[[], object]]


# --- the contestants ---


def without_vectors(folder: Path) -> ModuleType:
    """`cholesky.py`, and the files of ours it is made of, as they are, but for where they take their vectors from."""
    ours = "effective_attention.kernels."
    for module in (memory, tiles, cholesky):
        source = Path(str(module.__file__)).read_text()
        for name in ("vectors", "memory", "tiles"):
            source = source.replace(f"from {ours}{name} import", f"from plain_{name} import")
        (folder / f"plain_{module.__name__.removeprefix(ours)}.py").write_text(source)
    sys.path[:0] = [str(folder), str(Path(__file__).parent)]
    return import_module("plain_cholesky")


def factorisations(plain: ModuleType, heads: int, keys: int, width: int) -> Contestants:
    value = torch.randn(heads, keys, width, generator=torch.Generator().manual_seed(0))
    seen = torch.ones(heads, keys, dtype=torch.bool)
    if keys <= width:
        made: Contestants = {
            "compiled, with the vector type": lambda: cholesky.independent_rows(value, seen, SHIFT),
            "compiled, without it": lambda: plain.independent_rows(value, seen, SHIFT),
            "reference": lambda: cholesky_reference.independent_rows(value, seen, SHIFT),
        }
        assert len({str(solve()) for solve in made.values()}) == 1
        return made
    made = {
        "compiled, with the vector type": lambda: cholesky.orthonormal_columns(value, seen, whitener=False)[0],
        "compiled, without it": lambda: plain.orthonormal_columns(value, seen, whitener=False)[0],
        "reference": lambda: cholesky_reference.orthonormal_columns(value, seen)[0],
    }
    for solve in made.values():
        torch.testing.assert_close(solve(), cholesky.orthonormal_columns(value, seen, whitener=False)[0])
    return made


def all_flows(layers: int, size: int, sharpness: float) -> Contestants:
    scores = sharpness * torch.randn(
        layers, size, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    weights = (0.5 * scores.softmax(dim=-1) + 0.5 * torch.eye(size)).numpy()
    made: Contestants = {
        "compiled": lambda: max_flow.LayeredGraph(weights[:-1]).flow(weights[-1], layers - 1),
        "reference": lambda: max_flow_reference.LayeredGraph(weights[:-1]).flow(weights[-1], layers - 1),
    }
    ours, theirs = (solve() for solve in made.values())
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=0, atol=1e-9)
    return made


# --- the measurement ---


def ratios(contestants: Contestants, rounds: int, turn: float) -> dict[str, list[float]]:
    """Each one's time over the first one's, round by round, after one round that does not count."""
    names = list(contestants)
    found: dict[str, list[float]] = {name: [] for name in names[1:]}
    for number in range(rounds + 1):
        shift = number % len(names)
        seconds = {name: timed(contestants[name], turn) for name in names[shift:] + names[:shift]}
        if number > 0:
            for name, past in found.items():
                past.append(seconds[name] / seconds[names[0]])
    return found


def timed(solve: Callable[[], object], turn: float) -> float:
    """Seconds of the processor for one call: the mean of as many as fit into a turn, at least one."""
    calls, spent = 0, 0.0
    begin = time.process_time()
    while spent < turn:
        solve()
        calls += 1
        spent = time.process_time() - begin
    return spent / calls


def lines(title: str, found: dict[str, list[float]]) -> list[str]:
    made = []
    for name, values in found.items():
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        digits = 0 if middle > 10 else 2
        made.append(f"| {title} | {name} | {middle:.{digits}f} | {low:.{digits}f} to {high:.{digits}f} |")
    return made


def processor() -> str:
    """Linux only; elsewhere what Python knows, which is less."""
    told = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    names = {line.split(":")[1].strip() for line in told.splitlines() if line.startswith("model name")}
    wide = "AVX-512" if "avx512f" in told else "AVX2" if "avx2" in told else platform.machine()
    return f"{', '.join(sorted(names)) or platform.processor()} ({wide})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=31, help="counted rounds, 2 or more (default %(default)s)")
    parser.add_argument("--turn", type=float, default=0.1, help="seconds of each one's turn (default %(default)s)")
    parser.add_argument("--flow-rounds", type=int, default=7, help="the same for the flow (default %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    versions = f"torch {torch.__version__}, numba {numba.__version__}, llvmlite {llvmlite.__version__}"
    print(f"{processor()}, one thread, Python {platform.python_version()}, {versions}")
    print(f"{options.rounds} interleaved rounds ({options.flow_rounds} for the flow)\n")
    print("| what | who | its time / ours | quartiles |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        plain = without_vectors(Path(folder))
        for name, keys, width in (
            ("BERT-base", 128, 64),
            ("BERT-base", 48, 64),
            ("MiniLM", 56, 32),
            ("MiniLM", 24, 32),
        ):
            found = ratios(factorisations(plain, 8 * 12, keys, width), options.rounds, options.turn)
            title = f"{name}: 8 x 12 heads, {keys} keys, d {width}"
            print("\n".join(lines(title, found)), flush=True)
    for name, layers, size, sharpness in (("soft", 6, 24, 1.0), ("peaked", 6, 24, 4.0)):
        found = ratios(all_flows(layers, size, sharpness), options.flow_rounds, options.turn)
        print("\n".join(lines(f"flow: {size} tokens, {layers} layers, {name}", found)), flush=True)


if __name__ == "__main__":
    main()
