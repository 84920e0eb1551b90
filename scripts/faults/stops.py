"""Signals and locks: what ends a run ends it in one line, with the right code, and the run goes on from there."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from commands import Bench, Running, fork, lines
from equal import differences


def _in_training(bench: Bench, name: str, running: Running) -> None:
    running.wait_until((bench.folder / name / "checkpoints" / "last.ckpt").is_file)


def stopped_training(bench: Bench, number: signal.Signals) -> str:
    """Stop a training run by a signal; it saves, ends with the signal's code, and can be resumed."""
    whole = bench.reference()
    name = f"stopped-{number.name}"
    running = bench.train(name)
    _in_training(bench, name, running)
    running.send(number)
    code = running.wait()
    assert code == 128 + number, f"exit code {code}: {running.text()}"
    (said,) = [line for line in lines(running.text()) if "stopped" in line]
    assert f"go on with resume={bench.folder / name}" in said
    assert fork("train", f"resume={bench.folder / name}", output=bench.output(name)).wait() == 0
    assert differences(bench.folder / name, whole) == []
    return f"exit code {code}; resumed: equal"


def stopped_evaluation(bench: Bench, number: signal.Signals) -> str:
    """Stop an evaluation; it ends in one line, and finished tables are not computed again."""
    name = f"evaluation-{number.name}"
    options = bench.options(name)[:-1]
    own = [option for option in options if not option.startswith(("trainer.max", "drift", "save", "analysis"))]
    words = ["analysis=[token_types,distance,faithfulness]", f"hydra.run.dir={bench.folder / name}"]
    running = fork("evaluate", *own, f"checkpoint={bench.reference()}", *words, output=bench.output(name))
    first = bench.folder / name / "tables" / "distance.parquet"
    running.wait_until(first.is_file)
    running.send(number)
    code = running.wait()
    assert code == 128 + number, f"exit code {code}: {running.text()}"
    (said,) = [line for line in lines(running.text()) if not line.startswith("WARNING")]  # too few batches to time
    assert said == f"stopped by {number.name}; go on with resume={bench.folder / name}"
    before = first.stat().st_mtime_ns
    assert fork("evaluate", f"resume={bench.folder / name}", output=bench.output(name)).wait() == 0
    assert first.stat().st_mtime_ns == before, "a finished table was computed again"
    return f"exit code {code}; resumed: finished tables kept"


def requeued(bench: Bench) -> str:
    """Let SLURM announce the end of a job: it is saved and queued again, and then goes on by itself."""
    whole = bench.reference()
    queue = bench.folder / "slurm"
    queue.mkdir(exist_ok=True)
    (queue / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {queue}/asked\n')
    (queue / "scontrol").chmod(0o755)
    job = {"SLURM_NTASKS": "1", "SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "train", "SLURM_PROCID": "0"}
    job |= {"SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS_PER_NODE": "1", "SLURM_NNODES": "1"}
    job |= {"SLURM_NODELIST": "localhost", "PATH": f"{queue}:{os.environ['PATH']}"}
    running = bench.train("requeued", environment=job)
    _in_training(bench, "requeued", running)
    running.send(signal.SIGUSR1)
    running.wait_until(lambda: (queue / "asked").is_file() and (queue / "asked").stat().st_size > 0)
    assert (queue / "asked").read_text() == "requeue 77\n", running.text()
    (saved,) = (bench.folder / "requeued").glob("hpc_ckpt_*.ckpt")
    running.send(signal.SIGKILL)
    running.wait()
    (bench.folder / "requeued" / "checkpoints" / "last.ckpt").unlink()
    assert bench.train("requeued", environment=job).wait() == 0, running.text()
    different = differences(bench.folder / "requeued", whole)
    assert different == [], different[:5]
    return f"{saved.name} saved, job queued again, goes on by itself: equal"


def second_run(bench: Bench) -> str:
    """Start a second run in the folder of one that runs; it is refused, and the first does not notice."""
    running = bench.train("shared")
    _in_training(bench, "shared", running)
    running.send(signal.SIGSTOP)
    second = fork("train", *bench.options("shared"), output=bench.output("second"))
    code = second.wait()
    running.send(signal.SIGCONT)
    (line,) = lines(second.text())
    assert code == 2, second.text()
    assert f"is in use by a run that has not ended (process {running.pid} on " in line
    assert running.wait() == 0
    assert differences(bench.folder / "shared", bench.reference()) == []
    return "the second refused in one line, the first equal"


def left_over(bench: Bench) -> str:
    """Leave the lock and the half-written file of a killed run in a folder; the next run there clears both."""
    folder = bench.folder / "left"
    running = bench.train("left")
    _in_training(bench, "left", running)
    running.send(signal.SIGKILL)
    running.wait()
    (folder / "checkpoints" / ".last.ckpt.abc.unfinished").write_bytes(b"half")
    assert (folder / ".lock").is_file()
    assert fork("train", f"resume={folder}", output=bench.output("left")).wait() == 0
    hidden = [path.name for path in _files(folder) if path.name.startswith(".")]
    assert hidden == [], hidden
    return "lock taken over, unfinished file cleared"


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and ".hydra" not in path.parts]
