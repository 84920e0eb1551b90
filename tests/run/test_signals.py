"""Signals end a command in one line with their exit code; training ends between two steps."""

import os
import signal
from pathlib import Path

import pytest

from effective_attention.errors import UserError
from effective_attention.models.places import find_checkpoint, find_results
from effective_attention.run.signals import Stopped, StopSignals, stopped_in_one_line


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_one_line_and_the_signals_code(
    number: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text("checkpoint: null\n")
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as stop, stopped_in_one_line(tmp_path):
        os.kill(os.getpid(), number)
    assert stop.value.code == code
    assert capsys.readouterr().err == f"stopped by {signal.Signals(number).name}; go on with resume={tmp_path}\n"
    assert signal.getsignal(number) == before, "the handlers are given back"


@pytest.mark.parametrize(
    ("files", "offered"),
    [
        ({}, False),
        ({"config.yaml": "# options: []\ncheckpoint: null\n"}, True),  # of evaluate.py
        ({"config.yaml": "optimizer: {}\n"}, False),  # of train.py, before its first step
        ({"config.yaml": "optimizer: {}\n", "checkpoints/last.ckpt": ""}, True),
        ({"config.yaml": "optimizer: {}\n", "checkpoints/best.ckpt": ""}, False),  # weights only
        ({"config.yaml": "}"}, False),
    ],
)
def test_resume_is_offered_only_where_it_would_work(
    files: dict[str, str], offered: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(Stopped), stopped_in_one_line(tmp_path):
        raise Stopped(signal.SIGTERM)
    advice = (
        f"; go on with resume={tmp_path}" if offered else " before there was anything to go on from; start it again"
    )
    assert capsys.readouterr().err == f"stopped by SIGTERM{advice}\n"


def test_what_is_not_offered_is_what_is_refused(tmp_path: Path) -> None:
    for find in (find_checkpoint, find_results):
        with pytest.raises(UserError, match=r"^resume=.*; name"):
            find(tmp_path, "resume")


def test_what_lightning_makes_of_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    def lightning() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise SystemExit(1)  # noqa: B904

    with pytest.raises(SystemExit) as stop, stopped_in_one_line(Path("here")):
        lightning()
    assert stop.value.code == 130
    assert capsys.readouterr().err.startswith("stopped by SIGINT")


def test_other_exits_keep_their_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop, stopped_in_one_line(Path("here")):
        raise SystemExit(7)
    assert stop.value.code == 7
    assert capsys.readouterr().err == ""


def test_the_first_waits_for_the_step_and_the_second_does_not() -> None:
    with stopped_in_one_line(Path("here")) as signals:
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
