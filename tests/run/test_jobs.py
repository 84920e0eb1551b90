"""A job that fails: alone it ends the command, in a sweep it is written down."""

import math
from pathlib import Path

import pytest

from effective_attention.errors import UserError
from effective_attention.run.jobs import FAILED, folder_name, keep_sweep_going


def fail(error: Exception) -> float:
    raise error


def test_a_job_that_works_leaves_nothing_but_its_result(tmp_path: Path) -> None:
    (tmp_path / FAILED).write_text("the last time")
    assert keep_sweep_going(lambda: 0.5, tmp_path) == 0.5
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_written_down_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = keep_sweep_going(lambda: fail(UserError("seed must be a number")), tmp_path)
    assert result is not None
    assert math.isnan(result)
    assert (tmp_path / FAILED).read_text() == "seed must be a number\n"
    assert capsys.readouterr().err == "error: seed must be a number; the sweep goes on\n"


def test_our_bug_is_written_down_with_its_traceback(tmp_path: Path) -> None:
    keep_sweep_going(lambda: fail(TypeError("no\nsuch thing")), tmp_path)
    first, *rest = (tmp_path / FAILED).read_text().splitlines()
    assert first == "TypeError: no"
    assert rest[0].startswith("Traceback")


def test_an_interrupt_ends_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        keep_sweep_going(lambda: fail(KeyboardInterrupt()), tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("overrides", ["a=" + "x" * 300, "checkpoint=../../etc/x", "text=a b\nc", "a=\0", "a=*?<>|:"])
def test_folders_have_names_that_every_file_system_takes(overrides: str, tmp_path: Path) -> None:
    name = folder_name(overrides)
    assert "/" not in name
    (tmp_path / f"12{name}").mkdir()
    assert len(name) <= 101
