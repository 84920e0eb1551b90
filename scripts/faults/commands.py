"""Commands that are started, disturbed and looked at from outside.

Most are forked from a process that has imported the libraries already: importing them anew for each would take longer
than all the rest. A fork is a process like any other: signals, files, exit codes and kills are real.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pickle
import random
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by torch when it is imported, which is after this module
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

ROOT = Path(__file__).parents[2]
SMALL = (
    "model=tiny", "trainer=cpu", "trainer.max_epochs=3", "trainer.enable_progress_bar=false", "data.limit_train=160",
    "data.limit_eval=24", "logger=csv", "attention=standard", "analysis=[token_types,distance,head_ablation]",
    "drift.examples=4", "save.every_steps=3",
)  # fmt: skip
"""Three epochs of 20 steps with dropout, a checkpoint every third, and three analyses: seconds."""
_PATIENCE = 300


@dataclass
class Running:
    """A command that was started, and the file its output goes to."""

    pid: int
    output: Path
    is_fork: bool = True
    code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for the signal that ended it; None: it runs."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def wait(self, seconds: float = _PATIENCE) -> int:
        """Return the exit code; a command that hangs is killed with all it has started."""
        end = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        if self.poll() is None:
            self.kill_all()
            raise AssertionError(f"hangs after {seconds} s: {self.text()[-300:]}")
        assert self.code is not None
        return self.code

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition holds, and at once when the command has ended."""
        end = time.monotonic() + _PATIENCE
        while self.poll() is None and not condition():
            assert time.monotonic() < end, "waited too long"
            time.sleep(0.01)

    def send(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill_all(self) -> None:
        """Kill the command and the processes it started."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait()

    def text(self) -> str:
        return self.output.read_text(errors="replace")


def fork(command: str, *options: str, output: Path, environment: Mapping[str, str] | None = None) -> Running:
    """Start ``train`` or ``evaluate`` as a fork of this process."""
    output.parent.mkdir(parents=True, exist_ok=True)
    pid = os.fork()
    if pid:
        return Running(pid, output)
    code: object = 1
    try:
        os.setsid()
        _redirect(output)
        os.environ.update(environment or {})
        sys.argv = [f"{command}.py", *options]
        runpy.run_path(str(ROOT / f"{command}.py"), run_name="__main__")
        code = 0
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()  # as at the end of a process that is no fork
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
    raise AssertionError("a fork never comes here")


def _redirect(output: Path) -> None:
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(handle, stream)


def start(command: str, *options: str, output: Path, environment: Mapping[str, str] | None = None) -> Running:
    """Start ``train`` or ``evaluate`` as a user would: a process of its own from the beginning."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("ab") as file:
        words = [sys.executable, str(ROOT / f"{command}.py"), *options]
        environment = {**os.environ, **(environment or {})}
        streams = {"stdout": file, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(words, cwd=ROOT, env=environment, start_new_session=True, **streams)  # type: ignore[call-overload]
    process.returncode = 0  # ``Running`` waits for it
    return Running(process.pid, output, is_fork=False)


def in_fork(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a fork, and return what it returns.

    Whatever uses torch, pandas or pyarrow starts threads, and a process that has threads must not fork.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = function(*arguments)
        except BaseException as error:
            result = error
        with os.fdopen(writing, "wb") as file:
            pickle.dump(result, file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        result = pickle.load(file)
    os.waitpid(pid, 0)
    if isinstance(result, BaseException):
        raise result
    return result


class Bench:
    """A folder for runs, the uninterrupted run that others are compared with, and where the dice come from."""

    def __init__(self, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="faults-"))
        self.dice = random.Random(seed)
        self.seconds = 0.0

    def options(self, name: str) -> list[str]:
        """Return the options that run in the folder of that name."""
        return [*SMALL, f"data.token_cache={self.folder / 'tokens'}", f"hydra.run.dir={self.folder / name}"]

    def train(self, name: str, *more: str, environment: Mapping[str, str] | None = None) -> Running:
        """Begin a training run, which goes to the folder of that name."""
        return fork("train", *self.options(name), *more, output=self.output(name), environment=environment)

    def output(self, name: str) -> Path:
        return self.folder / "output" / f"{name}.txt"

    def reference(self) -> Path:
        """Return the uninterrupted run."""
        if not (self.folder / "whole" / "metrics.json").is_file():
            began = time.monotonic()
            assert self.train("whole").wait() == 0, self.output("whole").read_text()
            self.seconds = time.monotonic() - began
        return self.folder / "whole"

    def clear(self) -> None:
        shutil.rmtree(self.folder)


def import_everything() -> None:
    """Import once what every fork needs; none of it starts a thread that a fork would lack."""
    os.chdir(ROOT)
    for module in ("effective_attention.run.experiment", "effective_attention.reports.report", "spacy"):
        importlib.import_module(module)


def lines(text: str, *unwanted: str) -> list[str]:
    """Return the lines of an output that has no traceback."""
    for word in ("Traceback", *unwanted):
        assert word not in text, text[-1500:]
    return [line for line in text.splitlines() if line.strip()]
