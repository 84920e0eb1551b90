"""A checkpoint is found, read without running code, checked, and gives back the very same model."""

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from effective_attention.errors import UserError
from effective_attention.models.checkpoints import (
    WholeCheckpointIO,
    check_fits,
    read_checkpoint,
    restore_classifier,
)
from effective_attention.models.classifier import CHECKPOINT_KEY, SequenceClassifier
from effective_attention.models.encoders import TinyEncoder


@pytest.fixture(scope="module")
def mrpc(make_task: Callable[[str], Any]) -> Any:
    return make_task("mrpc")


# --- reading ---


def _write(path: Path, content: Any) -> Path:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    return path


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_truncated(share: float, trained: Any, mrpc: Any, tmp_path: Path) -> None:
    whole = (trained.folder / "checkpoints" / "best.ckpt").read_bytes()
    path = _write(tmp_path / "cut.ckpt", whole[: int(share * len(whole))])
    with pytest.raises(UserError, match=r"checkpoint .*cut\.ckpt cannot be read: damaged") as error:
        read_checkpoint(path, mrpc)
    assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "content",
    [b"hello", b"PK\x03\x04", pickle.dumps({"state_dict": 1}), pickle.dumps([1, 2], protocol=4), os.urandom(100)],
    ids=["text", "zip head", "pickle", "pickle 4", "random"],
)
def test_not_a_checkpoint_at_all(content: bytes, mrpc: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"checkpoint .* (cannot be read|was not written by this project)"):
        read_checkpoint(_write(tmp_path / "it.ckpt", content), mrpc)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60))
def test_no_bytes_end_in_a_traceback(content: bytes, mrpc: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        read_checkpoint(_write(tmp_path / "it.ckpt", content), mrpc)


@pytest.mark.parametrize(
    "content",
    [
        torch.ones(3),
        [1, 2],
        {"state_dict": {}},
        {"state_dict": {}, "pytorch-lightning_version": "2.0", "epoch": 3},
        {CHECKPOINT_KEY: {"task": {"name": "mrpc"}}},
        {CHECKPOINT_KEY: {"task": {"name": "mrpc"}}, "state_dict": {}},
        {CHECKPOINT_KEY: 3, "state_dict": {}},
        {CHECKPOINT_KEY: {"task": "mrpc"}, "state_dict": {}},
    ],
)
def test_foreign_torch_files(content: Any, mrpc: Any, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"was not written by this project; train one with `python train\.py task=mrpc`"
    ):
        read_checkpoint(_write(tmp_path / "it.ckpt", content), mrpc)


def test_another_task(trained: Any, make_task: Callable[[str], Any]) -> None:
    with pytest.raises(UserError, match="was trained on mrpc, not on rte; add task=mrpc"):
        read_checkpoint(trained.folder / "checkpoints" / "last.ckpt", make_task("rte"))


class _Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_checkpoint_cannot_run_code(mrpc: Any, tmp_path: Path) -> None:
    path = tmp_path / "trap.ckpt"
    sprung = tmp_path / "sprung"
    torch.save({CHECKPOINT_KEY: {}, "state_dict": {}, "more": _Trap(sprung)}, path)
    with pytest.raises(UserError, match="cannot be read"):
        read_checkpoint(path, mrpc)
    assert not sprung.exists()
    torch.load(path, weights_only=False)
    assert sprung.exists(), "the trap itself works"


# --- restoring ---


def test_the_same_logits(mrpc: Any, tokenizer: Any) -> None:
    encoder = TinyEncoder(layers=1, heads=2, width=8)
    model = SequenceClassifier(encoder.classifier(2), mrpc, origin={"encoder": encoder.to_dict()}).eval()
    checkpoint: dict[str, Any] = {"state_dict": model.state_dict()}
    model.on_save_checkpoint(checkpoint)
    restored = restore_classifier(checkpoint, mrpc).eval()
    batch = dict(tokenizer(["a cat", "two dogs"], return_tensors="pt"))
    assert torch.equal(restored(batch), model(batch))
    assert restored.origin["encoder"] == encoder.to_dict()
    again: dict[str, Any] = {}
    restored.on_save_checkpoint(again)
    assert again[CHECKPOINT_KEY] == checkpoint[CHECKPOINT_KEY]


@pytest.mark.parametrize("name", ["best.ckpt", "last.ckpt"])
def test_what_training_wrote_can_be_restored(name: str, trained: Any, mrpc: Any) -> None:
    checkpoint = read_checkpoint(trained.folder / "checkpoints" / name, mrpc)
    classifier = restore_classifier(checkpoint, mrpc)
    for key, tensor in classifier.state_dict().items():
        assert torch.equal(tensor, checkpoint["state_dict"][key])
    assert ("optimizer_states" in checkpoint) == (name == "last.ckpt")


def test_another_model(trained: Any, mrpc: Any) -> None:
    checkpoint = read_checkpoint(trained.folder / "checkpoints" / "last.ckpt", mrpc)
    other = SequenceClassifier(TinyEncoder(layers=3).classifier(2), mrpc)
    with pytest.raises(UserError, match="choose the same model"):
        check_fits(checkpoint, other)


# --- writing ---


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "it.ckpt"
    WholeCheckpointIO().save_checkpoint({"step": 1}, path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left") as error:
        WholeCheckpointIO().save_checkpoint({"step": 2}, str(path))
    assert error.value.filename == str(path)
    assert [file.name for file in path.parent.iterdir()] == ["it.ckpt"]
    assert torch.load(path, weights_only=True) == {"step": 1}


def test_only_checkpoints_of_this_run_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = WholeCheckpointIO()
    ours = [tmp_path / "run" / name for name in ("old.ckpt", "new.ckpt")]
    for path in ours:
        writer.save_checkpoint({}, path)
    (tmp_path / "precious").mkdir()
    theirs = [tmp_path / "precious", tmp_path / "notes.ckpt", tmp_path / "run" / "metrics.json", tmp_path / "run"]
    for path in theirs[1:3]:
        path.touch()
    for path in [*theirs, tmp_path / "run" / ".." / "notes.ckpt", tmp_path / "nowhere.ckpt", "s3://bucket/it.ckpt"]:
        writer.remove_checkpoint(path)
    assert all(path.exists() for path in theirs)
    assert caplog.text.count("is not a checkpoint of this run") == 5
    writer.remove_checkpoint(str(ours[0]))
    assert [path.exists() for path in ours] == [False, True]
