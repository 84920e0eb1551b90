"""A result is written whole or not at all."""

import errno
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from effective_attention.io import clear_unfinished, whole_file, write_json, write_text


def test_text_and_missing_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "it.md"
    write_text(path, "mean ± std\n")
    assert path.read_bytes() == "mean ± std\n".encode()
    assert path.stat().st_mode & 0o777 == 0o644, "a temporary file is private; a result is not"


def test_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "it.txt"
    write_text(path, "a long first version")
    write_text(path, "short")
    assert path.read_text() == "short"
    assert [file.name for file in tmp_path.iterdir()] == ["it.txt"]


class _FullDisk:
    """A file that takes half of what it is given."""

    def __init__(self, handle: int) -> None:
        self.file = open(handle, "wb")  # noqa: SIM115

    def __enter__(self) -> "_FullDisk":
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()

    def write(self, content: bytes) -> None:
        self.file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _fail(error: BaseException) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize("earlier", ["earlier", None])
@pytest.mark.parametrize("step", ["write", "chmod", "rename", "interrupt"])
def test_failure_leaves_the_old_file_and_no_litter(
    step: str, earlier: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.json"
    if earlier is not None:
        path.write_text(earlier)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    interrupt = KeyboardInterrupt()
    target, name, replacement, expected = {
        "write": (os, "fdopen", lambda handle, *_: _FullDisk(handle), OSError),
        "chmod": (Path, "chmod", _fail(full), OSError),
        "rename": (Path, "replace", _fail(full), OSError),
        "interrupt": (Path, "replace", _fail(interrupt), KeyboardInterrupt),
    }[step]
    with monkeypatch.context() as patch:
        patch.setattr(target, name, replacement)
        with pytest.raises(expected) as error:
            write_text(path, "new " * 1000)
    assert [file.name for file in tmp_path.iterdir()] == ([] if earlier is None else ["metrics.json"])
    assert earlier is None or path.read_text() == earlier
    if expected is OSError:
        assert error.value.filename == str(path), "the name the user knows, not that of the temporary file"


def test_a_folder_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        write_text(tmp_path / "file" / "it.txt", "x")
    assert (tmp_path / "file").read_text() == "in the way"


def test_json_has_no_word_for_not_a_number(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    values = {
        "a/b": 0.1,
        "count": 3,
        "nan": math.nan,
        "plus": math.inf,
        "minus": -math.inf,
        "none": None,
        "é": "ü",
        "yes": True,
    }
    write_json(path, values)
    read = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert read == {
        "a/b": 0.1,
        "count": 3,
        "nan": None,
        "plus": None,
        "minus": None,
        "none": None,
        "é": "ü",
        "yes": True,
    }
    assert list(read) == list(values)
    assert "é" in path.read_text(encoding="utf-8")


def test_floats_survive_exactly(tmp_path: Path) -> None:
    write_json(tmp_path / "it.json", {"x": 0.1 + 0.2})
    assert json.loads((tmp_path / "it.json").read_text())["x"] == 0.1 + 0.2


def test_what_json_cannot_hold_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_json(tmp_path / "it.json", {"x": object()})
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_hides_the_disks_error_does_not_hide_the_file(tmp_path: Path) -> None:
    """Check what ``torch.save`` does on a full disk: it raises an error of its own on top."""
    full = OSError(errno.ENOSPC, "No space left on device")
    on_top = RuntimeError("unexpected pos")
    on_top.__context__ = full
    with pytest.raises(RuntimeError), whole_file(tmp_path / "it.ckpt"):
        raise on_top
    assert full.filename == str(tmp_path / "it.ckpt")


def test_what_a_killed_process_left_is_cleared(tmp_path: Path) -> None:
    with whole_file(tmp_path / "it.txt"):
        (left,) = tmp_path.iterdir()
        content = left.name
    (tmp_path / "tables").mkdir()
    (tmp_path / content).write_text("half")
    (tmp_path / "tables" / content).write_text("half")
    clear_unfinished(tmp_path, older_than=60)
    assert (tmp_path / content).is_file(), "someone may be writing it"
    clear_unfinished(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["it.txt", "tables"]
