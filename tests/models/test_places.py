"""A checkpoint is found by its name, or its name is refused."""

from pathlib import Path

import pytest

from effective_attention.errors import UserError
from effective_attention.models.places import find_checkpoint, is_classifier_place


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


@pytest.mark.parametrize(
    ("place", "is_one"),
    [
        ("owner/name", True),
        ("bert-base-uncased", True),
        ("runs/typo", False),  # there is a folder runs
        ("a/b/c", False),
        ("/owner/name", False),
        ("./name", False),
        ("owner/name.ckpt", False),
        ("model", True),  # a folder with a config.json
        ("run", False),
        ("empty", False),
    ],
)
def test_what_transformers_would_load(
    place: str, is_one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("runs", "model", "run/checkpoints", "empty"):
        Path(folder).mkdir(parents=True)
    for file in ("model/config.json", "run/config.json", "run/checkpoints/last.ckpt"):
        Path(file).touch()
    assert is_classifier_place(place) is is_one
