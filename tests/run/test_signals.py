"""Signals end a command in one line with their exit code; training ends between two steps."""

import os
import signal
from pathlib import Path

import pytest

from effective_attention.run.signals import Stopped, StopSignals, stopped_in_one_line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_one_line_and_the_signals_code(number: int, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as stop, stopped_in_one_line(Path("here")):
        os.kill(os.getpid(), number)
    assert stop.value.code == code
    assert capsys.readouterr().err == f"stopped by {signal.Signals(number).name}; go on with resume=here\n"
    assert signal.getsignal(number) == before, "the handlers are given back"


def test_what_lightning_makes_of_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    def lightning() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise SystemExit(1)  # noqa: B904

    with pytest.raises(SystemExit) as stop, stopped_in_one_line("here"):
        lightning()
    assert stop.value.code == 130
    assert capsys.readouterr().err.startswith("stopped by SIGINT")


def test_other_exits_keep_their_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop, stopped_in_one_line("here"):
        raise SystemExit(7)
    assert stop.value.code == 7
    assert capsys.readouterr().err == ""


def test_the_first_waits_for_the_step_and_the_second_does_not() -> None:
    with stopped_in_one_line("here") as signals:
        signals.wait_for_step()
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.received == signal.SIGTERM
        with pytest.raises(Stopped) as stop:
            os.kill(os.getpid(), signal.SIGINT)
    assert stop.value.code == 130


def test_one_that_waited_in_vain_is_not_lost() -> None:
    signals = StopSignals()
    signals.received = signal.SIGTERM
    with pytest.raises(Stopped):
        signals.at_once()
    signals.at_once()
