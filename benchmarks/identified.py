"""What do warm programs gain? The interval of every weight of a row, by our simplex method and by SciPy.

    python benchmarks/identified.py               # a minute or so
    python benchmarks/identified.py --rounds 9

On one thread, timed by what the processor spent. A random row of attention over random values; both ends of every
weight, so two programs a key, of which ours leaves out those whose answer is known. All take turns in every round; a
ratio is between times of the same round, and the table shows the median and the quartiles over rounds. What is
compared is checked to agree first. Milliseconds of one end are the machine's.

- ours: `kernels/simplex.py`, each program from where the last one ended.
- reference: `kernels/simplex_reference.py`, SciPy's `linprog` with HiGHS, each from nothing.
- highspy, where it is installed: HiGHS without SciPy around it, each from the last one's basis.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch

from effective_attention.attention.row_space import reached_by
from effective_attention.kernels import simplex, simplex_reference

CASES = ((64, 32), (64, 64), (128, 64))
Contestants = dict[str, Callable[[], np.ndarray]]


def contestants(keys: int, width: int) -> Contestants:
    """Return what finds both ends of all weights of one row, by name, ours first."""
    random = np.random.default_rng(0)
    # 64 dimensions leave a row of 64 keys no freedom: there as many keys more as make it comparable
    count = keys if keys > width + 1 else width + 16
    weights, reached = random.dirichlet(np.full(count, 0.5)), reached_by(random.normal(size=(count, width)))
    given = reached[None].copy(), np.array([reached.shape]), np.zeros(1, dtype=np.int64), weights[None]
    made: Contestants = {
        "ours, warm": lambda: simplex.intervals(*given)[:, 0],
        "SciPy, cold": lambda: simplex_reference.intervals(*given)[:, 0],
    }
    if find_spec("highspy") is not None:
        made["highspy, warm"] = lambda: by_highspy(reached, weights)
    return made


def by_highspy(reached: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return both ends of all weights by HiGHS itself, which keeps its basis from one cost to the next."""
    import highspy

    keys, rank = reached.shape
    solver = highspy.Highs()
    solver.silent()
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = keys, rank
    program.col_cost_, program.col_lower_ = np.zeros(keys), np.zeros(keys)
    program.col_upper_ = np.full(keys, highspy.kHighsInf)
    program.row_lower_ = program.row_upper_ = 1e3 * (weights @ reached)
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = np.arange(0, keys * rank + 1, rank)
    program.a_matrix_.index_ = np.tile(np.arange(rank), keys)
    program.a_matrix_.value_ = reached.reshape(-1)
    solver.passModel(program)
    ends = np.empty((2, keys))
    for key in range(keys):
        for place, sign in enumerate((1.0, -1.0)):
            solver.changeColCost(key, sign)
            solver.run()
            ends[place, key] = solver.getSolution().col_value[key] / 1e3
        solver.changeColCost(key, 0.0)
    return ends


def timed(solve: Callable[[], object], turn: float) -> float:
    """Return the processor's seconds for one call: the mean of as many as fit into a turn, at least one."""
    calls, spent, begin = 0, 0.0, time.process_time()
    while spent < turn:
        solve()
        calls += 1
        spent = time.process_time() - begin
    return spent / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds, 2 or more (default %(default)s)")
    parser.add_argument("--turn", type=float, default=0.1, help="seconds of each one's turn (default %(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| keys, d | who | its time / ours | quartiles | ms of one end, here |\n|---|---|---|---|---|")
    for keys, width in CASES:
        made = contestants(keys, width)
        found = {name: solve() for name, solve in made.items()}
        ours, *others = found.values()
        for other in others:
            np.testing.assert_allclose(ours, other, rtol=0, atol=1e-6)
        rounds = [{name: timed(solve, options.turn) for name, solve in made.items()} for _ in range(options.rounds)]
        for name in made:
            ratios = [one[name] / one["ours, warm"] for one in rounds]
            low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
            each = 1e3 * statistics.median(one[name] for one in rounds) / ours.size
            count = ours.shape[1]
            print(f"| {count}, {width} | {name} | {middle:.1f} | {low:.1f} to {high:.1f} | {each:.3f} |", flush=True)


if __name__ == "__main__":
    main()
