"""Training says how far it has got, in one line of a narrow terminal, or in lines of a log."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from effective_attention import progress
from effective_attention.models.classifier import SequenceClassifier
from effective_attention.run.experiment import train
from helpers.terminal import Terminal

Compose = Callable[..., Any]
OPTIONS = ("trainer.enable_progress_bar=true", "trainer.max_epochs=2", "attention=standard", "analysis=[token_types]")


@pytest.fixture(autouse=True)
def _every_moment_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_DRAWINGS", -1.0)


def test_a_bar_of_one_line(compose: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch, width=80)
    train(compose("train", *OPTIONS))
    assert max(len(line) for line in terminal.lines) <= 80
    assert "v_num" not in terminal.getvalue()
    shown = "\n".join(terminal.lines)
    assert re.search(r"^training .* 8/8 .* epoch 2/2 loss \d\.\d{3} accuracy \d\.\d{3}$", shown, re.MULTILINE)
    assert re.search(r"^testing .* 2/2 ", shown, re.MULTILINE)
    assert re.search(r"^analyses .* 16/16 ", shown, re.MULTILINE)
    assert "rows" not in shown, "no line of a log among the bars"


def test_lines_of_a_log(compose: Compose, capsys: pytest.CaptureFixture[str]) -> None:
    train(compose("train", *OPTIONS))
    lines = [re.sub(r"\d+ s\b", "… s", line) for line in capsys.readouterr().err.splitlines()]
    score = r"\d\.\d{3}"
    scores = rf"train/loss {score}, val/loss {score}, val/accuracy {score}, val/f1 {score}"
    expected = [
        *(f"epoch {epoch}/2, step {4 * epoch}, {scores}" for epoch in (1, 2)),
        rf"training: 8 of 8 steps, … s, epoch 2/2, loss {score}, accuracy {score}",
        "testing: 2 of 2 batches, … s",
        "analyses: 16 of 16 examples, … s",
        r"token_types: \d+ rows, … s",
        "drawing: 2 of 2 figures, … s",
    ]
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), line


def test_switched_off(compose: Compose, capsys: pytest.CaptureFixture[str]) -> None:
    train(compose("train", "attention=standard"))
    assert capsys.readouterr().err == ""


def test_a_resumed_run_goes_on_from_its_step(compose: Compose, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    train(compose("train", "attention=standard", "trainer.max_epochs=1"))
    terminal = Terminal(monkeypatch)
    resumed = [f"resume={tmp_path / 'run'}", f"run_dir={tmp_path / 'on'}"]
    train(compose("train", *OPTIONS, *resumed))
    counted = [int(found) for found in re.findall(r"^training .* (\d)/8 ", "\n".join(terminal.lines), re.MULTILINE)]
    assert (min(counted), max(counted)) == (4, 8)


def test_an_error_gives_the_terminal_back(compose: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal(monkeypatch)

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(SequenceClassifier, "validation_step", fail)
    with pytest.raises(ZeroDivisionError):
        train(compose("train", *OPTIONS))
    assert progress._Bar._screen is None
    assert "\x1b[?25h" in terminal.getvalue(), "the cursor is seen again"
