"""Two processes that train together (DDP on the CPU): a dead one ends the other; both killed, the run goes on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from commands import Bench, Running, start
from equal import differences

_TWO = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2", "analysis=[token_types]")


def _train(bench: Bench, name: str) -> Running:
    options = [option for option in bench.options(name) if not option.startswith(("trainer=", "analysis"))]
    return start("train", *_TWO, *options, output=bench.output(name))


def _whole(bench: Bench) -> Path:
    """Return the run of two processes that nobody disturbed."""
    if not (bench.folder / "two" / "metrics.json").is_file():
        assert _train(bench, "two").wait() == 0, bench.output("two").read_text()[-1500:]
    return bench.folder / "two"


def _others(first: int) -> list[int]:
    """List the processes that were started in the same session."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != first and _session(int(place.name)) == first:
            found.append(int(place.name))
    return found


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def dead_rank(bench: Bench, rank: int) -> str:
    """Kill one of two processes; the other ends within a minute."""
    name = f"dead-{rank}"
    running = _train(bench, name)
    running.wait_until((bench.folder / name / "checkpoints" / "last.ckpt").is_file)
    victims = [running.pid] if rank == 0 else _others(running.pid)
    began = time.monotonic()
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    running.wait(60)
    while _others(running.pid):
        assert time.monotonic() - began < 60, "the other process goes on"
        time.sleep(0.1)
    return f"the other ended after {time.monotonic() - began:.0f} s"


def killed_and_resumed(bench: Bench) -> str:
    """Kill both, resume, and compare with two processes that nobody killed."""
    folder = bench.folder / "two-killed"
    running = _train(bench, "two-killed")
    running.wait_until((folder / "checkpoints" / "last.ckpt").is_file)
    time.sleep(bench.dice.uniform(0, 1))
    running.kill_all()
    assert start("train", f"resume={folder}", output=bench.output("two-killed")).wait() == 0, running.text()[-1500:]
    different = differences(folder, _whole(bench))
    assert different == [], different[:5]
    return "equal to two that nobody killed"


def stopped(bench: Bench) -> str:
    """Send SIGTERM to the first process; both stop at the same step, and the run goes on from there."""
    folder = bench.folder / "two-stopped"
    running = _train(bench, "two-stopped")
    running.wait_until((folder / "checkpoints" / "last.ckpt").is_file)
    running.send(signal.SIGTERM)
    code = running.wait(60)
    assert code == 143, f"exit code {code}: {running.text()[-1500:]}"
    assert start("train", f"resume={folder}", output=bench.output("two-stopped")).wait() == 0, running.text()[-1500:]
    different = differences(folder, _whole(bench))
    assert different == [], different[:5]
    return "exit code 143; resumed: equal"
