"""A checkpoint is found by its name, or its name is refused."""

from pathlib import Path

import pytest

from effective_attention.errors import UserError
from effective_attention.models.places import find_checkpoint


def test_a_file_a_run_directory_or_its_checkpoints_folder(tmp_path: Path) -> None:
    file = tmp_path / "checkpoints" / "last.ckpt"
    file.parent.mkdir()
    file.touch()
    (tmp_path / "checkpoints" / "best.ckpt").touch()
    assert find_checkpoint(file, "checkpoint") == file
    assert find_checkpoint(str(tmp_path), "checkpoint") == file
    assert find_checkpoint(tmp_path / "checkpoints", "checkpoint") == file


@pytest.mark.parametrize("option", ["checkpoint", "resume"])
def test_not_found(option: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"{option}=.*nowhere: no such file or folder"):
        find_checkpoint(tmp_path / "nowhere", option)
    with pytest.raises(UserError, match=rf"{option}={tmp_path}: the folder has no checkpoints/last\.ckpt"):
        find_checkpoint(tmp_path, option)


def test_home_is_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell does not expand it behind ``checkpoint=``."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.ckpt").touch()
    assert find_checkpoint("~/a.ckpt", "checkpoint") == tmp_path / "a.ckpt"
