"""Disturb runs in every way we know, and print what came of it: ``make faults``, or ``python scripts/faults``.

Exit code 0 only if everything held. What is tried: kills at random moments, signals, locks, full disks, W&B, ranks.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from functools import partial

from commands import Bench, import_everything
from disks import full, wandb_alone
from kills import one_kill
from ranks import dead_rank, killed_and_resumed, stopped
from stops import left_over, requeued, second_run, stopped_evaluation, stopped_training

Fault = Callable[[Bench], str]


def faults(count: int) -> dict[str, list[tuple[str, Fault]]]:
    """List what is tried, by part."""
    both = (signal.SIGINT, signal.SIGTERM)
    return {
        "kills": [(f"kill {number + 1}", partial(one_kill, number=number)) for number in range(count)],
        "signals": [
            *((f"{one.name} in training", partial(stopped_training, number=one)) for one in both),
            *((f"{one.name} in evaluation", partial(stopped_evaluation, number=one)) for one in both),
            ("SLURM takes the job off", requeued),
            ("two runs in one folder", second_run),
            ("what a killed run left", left_over),
        ],
        "disks": [
            *((f"disk of {size} kB", partial(full, kilobytes=size, logger="csv")) for size in (8, 64, 6000)),
            ("full disk with W&B", partial(full, kilobytes=700, logger="wandb")),
            ("W&B on a full disk of its own", wandb_alone),
        ],
        "ranks": [
            ("first of two killed", partial(dead_rank, rank=0)),
            ("second of two killed", partial(dead_rank, rank=1)),
            ("both killed and resumed", killed_and_resumed),
            ("SIGTERM with two", stopped),
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="kills, signals, disks, ranks, or part of a name; all by default")
    parser.add_argument("--kills", type=int, default=20, help="how many runs to kill")
    parser.add_argument("--seed", type=int, default=None, help="of the moments; another each time by default")
    parser.add_argument("--keep", action="store_true", help="leave all runs on disk")
    given = parser.parse_args()
    seed = int(time.time()) if given.seed is None else given.seed
    import_everything()
    bench = Bench(seed)
    print(f"runs in {bench.folder}, seed {seed}", flush=True)
    began = time.monotonic()
    every = [(part, name, fault) for part, those in faults(given.kills).items() for name, fault in those]
    chosen = [(name, fault) for part, name, fault in every if given.only == part or given.only in name]
    failed = [name for name, fault in chosen if not _holds(bench, name, fault)]
    print(f"{len(chosen) - len(failed)} of {len(chosen)} hold, {time.monotonic() - began:.0f} s")
    if not given.keep and not failed:
        bench.clear()
    return len(failed) > 0


def _holds(bench: Bench, name: str, fault: Fault) -> bool:
    began = time.monotonic()
    try:
        result = fault(bench)
        good = True
    except Exception as error:
        result = " ".join(str(error).split())[:1500] or type(error).__name__
        good = False
    print(f"{'holds' if good else 'FAILS'}  {time.monotonic() - began:5.1f} s  {name:30} {result}", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(main())
