"""Kill runs at random moments, resume them until they are finished, and compare them with the run nobody killed."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import torch
from commands import Bench, Running, fork, in_fork
from equal import differences

_FINISHED = "finished"


def one_kill(bench: Bench, number: int) -> str:
    """Kill a run, perhaps its continuations too, and return what was done; they must end equal."""
    whole = bench.reference()
    name = f"killed-{number}"
    folder = bench.folder / name
    moments = [_killed_before_its_end(bench, name)]
    for _ in range(bench.dice.choice((0, 0, 1, 2))):
        _kill_after(_go_on(bench, name), bench.dice.uniform(0.05, 0.6) * bench.seconds)
        moments.append(_how_far(folder))
    assert _go_on(bench, name).wait() == 0, bench.output(name).read_text()[-1500:]
    different = differences(folder, whole)
    assert different == [], f"{' then '.join(moments)}: {different[:5]}"
    return " then ".join(moments)


def _killed_before_its_end(bench: Bench, name: str) -> str:
    """Kill a run at a random moment; one that was faster than that is begun again, and killed sooner."""
    share = bench.dice.uniform(0.05, 1.0)
    while True:
        _kill_after(bench.train(name), share * bench.seconds)
        moment = _how_far(bench.folder / name)
        if moment != _FINISHED:
            return moment
        shutil.rmtree(bench.folder / name)
        share *= 0.8


def _go_on(bench: Bench, name: str) -> Running:
    """Resume the run, or begin it again if it was killed before its first checkpoint."""
    folder = bench.folder / name
    if (folder / "checkpoints" / "last.ckpt").is_file():
        return fork("train", f"resume={folder}", output=bench.output(name))
    return bench.train(name)


def _kill_after(running: Running, seconds: float) -> None:
    end = time.monotonic() + seconds
    running.wait_until(lambda: time.monotonic() >= end)
    running.send(signal.SIGKILL)
    running.wait()


def _how_far(folder: Path) -> str:
    if (folder / "metrics.json").is_file():
        return _FINISHED
    tables = len(list((folder / "tables").glob("*.parquet")))
    if tables:
        return f"after {tables} tables"
    path = folder / "checkpoints" / "last.ckpt"
    step = in_fork(_step, path) if path.is_file() else 0
    return f"after step {step} was saved"


def _step(path: Path) -> int:
    return int(torch.load(path, weights_only=True)["global_step"])
