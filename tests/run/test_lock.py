"""One run at a time in a folder."""

import json
import os
import socket
from pathlib import Path

import pytest

from effective_attention.errors import UserError
from effective_attention.run import lock
from effective_attention.run.lock import only_run_in


def test_a_second_run_is_refused_by_the_first_ones_number(tmp_path: Path) -> None:
    with only_run_in(tmp_path / "run"):
        with pytest.raises(UserError, match=rf"in use by a run that has not ended \(process {os.getpid()} on "):
            only_run_in(tmp_path / "run").__enter__()
        with only_run_in(tmp_path / "other"):
            assert (tmp_path / "other" / ".lock").is_file()
        assert (tmp_path / "run" / ".lock").is_file(), "the refusal took nothing away"
    assert list(tmp_path.iterdir()) == [], "a folder that stays empty is not left behind"


def test_the_lock_is_given_back_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "result").write_text("kept")
    with pytest.raises(ZeroDivisionError), only_run_in(tmp_path):
        raise ZeroDivisionError
    with only_run_in(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


@pytest.mark.parametrize("owner", [json.dumps({"process": 1, "host": "elsewhere"}), "", "nonsense", "[]"])
def test_what_a_killed_run_left_is_taken_over(tmp_path: Path, owner: str) -> None:
    """Check that the kernel's lock decides, which ends with its process, not the file."""
    (tmp_path / ".lock").write_text(owner)
    (tmp_path / "tables").mkdir()
    for path in (tmp_path / ".config.yaml.x1.unfinished", tmp_path / "tables" / ".a.csv.x2.unfinished"):
        path.write_text("half")
    (tmp_path / ".mine").write_text("kept")
    with only_run_in(tmp_path):
        found = json.loads((tmp_path / ".lock").read_text())
        assert found == {"process": os.getpid(), "host": socket.gethostname()}
        assert sorted(path.name for path in tmp_path.rglob("*")) == [".lock", ".mine", "tables"]


def test_a_child_of_a_dead_run_does_not_hold_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a lock that a forked worker has inherited: held, by an owner that is gone."""
    monkeypatch.setattr(os, "getpid", lambda: 2**22 + 1)  # more than Linux gives out
    with only_run_in(tmp_path):
        monkeypatch.undo()
        with only_run_in(tmp_path):
            assert json.loads((tmp_path / ".lock").read_text())["process"] == os.getpid()


def test_other_processes_of_the_run_share_the_first_ones_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with only_run_in(tmp_path):
        monkeypatch.setattr(lock.rank_zero_only, "rank", 1)
        with only_run_in(tmp_path):
            pass
        monkeypatch.undo()
        assert (tmp_path / ".lock").is_file()
