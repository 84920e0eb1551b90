"""Where configs are found, and what a user is told to type, in a checkout and where a wheel is installed."""

import sys
from pathlib import Path

import pytest

from effective_attention import program
from helpers.paths import CONF


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the package be elsewhere, with the configs inside it."""
    (tmp_path / "effective_attention" / "conf").mkdir(parents=True)
    monkeypatch.setattr(program, "PACKAGE", tmp_path / "effective_attention")
    return tmp_path / "effective_attention"


def test_a_checkout_has_its_configs_at_the_top() -> None:
    assert program.is_checkout()
    assert program.config_folder() == CONF


def test_a_wheel_brings_its_configs(installed: Path) -> None:
    assert not program.is_checkout()
    assert program.config_folder() == installed / "conf"


@pytest.mark.parametrize(
    ("started", "words"),
    [
        ("train.py", "python train.py"),
        ("/bin/pytest", "python train.py"),
        ("/bin/effective-attention", "effective-attention train"),
        (str(program.PACKAGE / "__main__.py"), "python -m effective_attention train"),
        ("/other/__main__.py", "python train.py"),
    ],
)
def test_what_is_typed_in_a_checkout(started: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [started])
    assert program.as_typed("train.py task=mrpc seed=1") == f"{words} task=mrpc seed=1"
    assert program.as_typed("train.py") == words


@pytest.mark.usefixtures("installed")
def test_what_is_typed_where_a_wheel_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["notebook"])
    assert program.as_typed("evaluate.py checkpoint=<run>") == "effective-attention evaluate checkpoint=<run>"
