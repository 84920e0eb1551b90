"""What SIGTERM and Ctrl-C do: end the command with one line and the exit code that the signal asks for (143, 130).

Training ends between two steps, after a checkpoint; everything else ends at once.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import yaml
from pytorch_lightning.utilities import rank_zero_only

_TOO_EARLY = " before there was anything to go on from; start it again"


class Stopped(SystemExit):
    """A signal ended the command."""

    def __init__(self, number: int, *, is_told: bool = False) -> None:
        self.signal = signal.Signals(number)
        self.is_told = is_told
        # Lightning kills the main process if one that it started reports a failure
        super().__init__(128 + number if rank_zero_only.rank == 0 else 0)


class StopSignals:
    """The signals that ended, or are to end, this process.

    Attributes:
        received: One that waits for the end of a training step; None: none does.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._waits = False

    def wait_for_step(self, *more: int) -> None:
        """Keep the next signal for the end of the step; a second one ends the process at once.

        Args:
            more: Numbers of other signals that are to wait.
        """
        self._waits = True
        self.listen(*more)

    def at_once(self) -> None:
        """End the process as soon as a signal comes; one may have come already."""
        number = self.received
        self.forget()
        if number is not None:
            raise Stopped(number)

    def forget(self) -> None:
        """Keep no signal any longer."""
        self._waits = False
        self.received = None

    def listen(self, *more: int) -> None:
        """Take over the handlers, also from a library that has put its own in their place."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, *more):
                signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._waits and self.received is None:
            self.received = number
        else:
            raise Stopped(number)


@contextmanager
def stopped_in_one_line(run_dir: Path) -> Iterator[StopSignals]:
    """Say in one line that a signal ended the command, and how to go on, or that there is nothing to go on from."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signals = StopSignals()
    signals.listen()
    try:
        yield signals
    except (Stopped, KeyboardInterrupt) as stop:
        _end(stop if isinstance(stop, Stopped) else Stopped(signal.SIGINT), run_dir)
    except SystemExit as stop:
        if not isinstance(stop.__context__, KeyboardInterrupt):  # which Lightning answers with sys.exit(1)
            raise
        _end(Stopped(signal.SIGINT), run_dir)
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _end(stop: Stopped, run_dir: Path) -> None:
    if not stop.is_told and rank_zero_only.rank == 0:
        advice = f"; go on with resume={run_dir}" if _can_resume(run_dir) else _TOO_EARLY
        print(f"stopped by {stop.signal.name}{advice}", file=sys.stderr)
    raise stop from None


def _can_resume(run_dir: Path) -> bool:
    """Tell whether ``resume=`` would take a folder: of training it needs a checkpoint, of evaluation the config."""
    try:
        config = yaml.safe_load((run_dir / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return False
    is_evaluation = isinstance(config, dict) and "checkpoint" in config
    return is_evaluation or (run_dir / "checkpoints" / "last.ckpt").is_file()
