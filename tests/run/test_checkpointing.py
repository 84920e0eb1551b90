"""``last.ckpt`` is enough to go on as if nothing had happened, whenever it was saved; ``best.ckpt`` stays the best."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from effective_attention.errors import UserError
from effective_attention.models.classifier import SequenceClassifier
from effective_attention.run.analysing import AnalysisResults
from effective_attention.run.checkpointing import BestCheckpoint, LastCheckpoint
from effective_attention.run.experiment import train
from helpers.same_run import same_run, scores

Compose = Callable[..., Any]
OPTIONS = (
    "trainer.max_epochs=2", "attention=standard", "analysis=[token_types]", "drift.examples=2", "data.limit_train=60",
    "+trainer.accumulate_grad_batches=2", "+trainer.val_check_interval=0.5", "save.every_steps=1", "optimizer.lr=1e-2",
)  # fmt: skip
"""Eight batches an epoch, so four steps, a validation after the second and the fourth, and a checkpoint after each."""


@dataclass(frozen=True)
class Saved:
    """A run that nobody stopped, and what was on the disk after each time it saved: as after a kill there."""

    folder: Path
    metrics: dict[str, Any]
    moments: dict[tuple[int, str], Path]


@pytest.fixture(scope="module", autouse=True)
def no_figures() -> Iterator[None]:
    """Leave out figures and the report, which take longer than all the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnalysisResults, "write", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def saved(composer: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Saved:
    place = tmp_path_factory.mktemp("saved")
    moments: dict[tuple[int, str], Path] = {}
    real = LastCheckpoint._save

    def save(callback: LastCheckpoint, trainer: Any) -> None:
        real(callback, trainer)
        assert callback._mark is not None
        key = (callback._mark.step, "end" if callback._mark.batches == 0 else callback._mark.validation)
        moments[key] = place / f"{key[0]}-{key[1]}"
        shutil.copytree(place / "run", moments[key], dirs_exist_ok=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LastCheckpoint, "_save", save)
        metrics = train(composer("train", place, *OPTIONS))
    return Saved(place / "run", metrics, moments)


def test_a_checkpoint_inside_the_first_epoch(saved: Saved) -> None:
    kinds = {1: ["none"], 2: ["due"], 3: ["none"], 4: ["due", "end"], 5: ["none"], 8: ["due", "end"]}
    for step, names in kinds.items():
        assert [name for number, name in saved.moments if number == step] == names


@pytest.mark.parametrize("moment", [(1, "none"), (2, "due"), (4, "due"), (7, "none")])
def test_a_killed_run_goes_on_from_wherever_it_was_saved(moment: tuple[int, str], saved: Saved, compose: Compose, tmp_path: Path) -> None:  # fmt: skip # noqa: E501
    """Check dropout, gradients of two batches, validations inside epochs, drift: every bit, row and score."""
    shutil.copytree(saved.moments[moment], tmp_path / "killed")
    metrics = train(compose("train", *OPTIONS, f"resume={tmp_path / 'killed'}", f"run_dir={tmp_path / 'killed'}"))
    assert scores(metrics) == scores(saved.metrics)
    same_run(tmp_path / "killed", saved.folder)


def test_a_validation_in_an_epoch_is_not_repeated(saved: Saved, compose: Compose, tmp_path: Path, monkeypatch: Any) -> None:  # fmt: skip # noqa: E501
    """Stop in the batch after the validation in the middle of the first epoch, which is the fifth."""
    seen = []
    real = SequenceClassifier.training_step

    def step(module: Any, *batch: Any) -> Any:
        seen.append(1)
        if len(seen) == 5:
            raise KeyboardInterrupt
        return real(module, *batch)

    monkeypatch.setattr(SequenceClassifier, "training_step", step)
    with pytest.raises(SystemExit):
        train(compose("train", *OPTIONS, "save.every_steps=null"))
    mark = torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=True)["callbacks"]["LastCheckpoint"]["mark"]
    assert (mark["step"], mark["batches"], mark["validation"]) == (2, 4, "done")
    train(compose("train", *OPTIONS, "save.every_steps=null", f"resume={tmp_path / 'run'}"))
    same_run(tmp_path / "run", saved.folder)


def test_a_run_can_go_on_elsewhere(saved: Saved, compose: Compose, tmp_path: Path) -> None:
    """Check that the new folder is complete, also where nothing is left to be learnt."""
    metrics = train(compose("train", *OPTIONS, f"resume={saved.folder}", f"run_dir={tmp_path / 'new'}"))
    assert scores(metrics) == scores(saved.metrics)
    assert {"val/loss", "val/accuracy"} <= metrics.keys()
    same_run(tmp_path / "new", saved.folder)


def test_sigterm_stops_after_the_step(compose: Compose, tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    seen = []
    real = SequenceClassifier.training_step

    def step(module: Any, *batch: Any) -> Any:
        seen.append(1)
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(module, *batch)

    monkeypatch.setattr(SequenceClassifier, "training_step", step)
    with pytest.raises(SystemExit) as stop:
        train(compose("train"))
    assert stop.value.code == 143
    assert len(seen) == 3
    assert torch.load(tmp_path / "run/checkpoints/last.ckpt", weights_only=True)["global_step"] == 3
    assert f"stopped at step 3; go on with resume={tmp_path / 'run'}" in caplog.text


def test_half_a_step_is_not_saved(compose: Compose, tmp_path: Path, monkeypatch: Any) -> None:
    """Check an error while the optimiser changes the weights, which then belong to no step."""
    real = torch.optim.AdamW.step
    path = tmp_path / "run" / "checkpoints" / "last.ckpt"
    seen: list[int] = []
    before: list[bytes] = []

    def step(optimizer: Any, closure: Any = None) -> Any:
        found = real(optimizer, closure)
        if len(optimizer.param_groups[0]["params"]) > 1:  # not the one on which its options are tried
            seen.append(1)
        if len(seen) == 3:
            before.append(path.read_bytes())
            raise ZeroDivisionError
        return found

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    with pytest.raises(ZeroDivisionError):
        train(compose("train", "save.every_steps=2"))
    assert [path.read_bytes()] == before, "what was saved after the second step"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("seed=1", "seed=1 contradicts resume="),
        ("data.batch_size=4", r"data\.batch_size=4 contradicts"),
        ("+trainer.precision=bf16-mixed", r"trainer\.precision=bf16-mixed contradicts"),
        ("trainer.max_epochs=1", r"trainer\.max_epochs=1 is fewer than"),
    ],
)  # fmt: skip
def test_another_run_is_refused(change: str, message: str, saved: Saved, compose: Compose, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        train(compose("train", *OPTIONS, change, f"resume={saved.folder}"))
    assert not (tmp_path / "run").exists()


def test_other_examples_are_refused(trained: Any, compose: Compose, monkeypatch: Any) -> None:
    from effective_attention.data.datamodule import TextDataModule

    monkeypatch.setattr(TextDataModule, "fingerprint", lambda self: "other")
    with pytest.raises(UserError, match="the examples are not those the run began with"):
        train(compose("train", f"resume={trained.folder}"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "cuda"}, "the run was on cuda, not cpu"),
        ({"mark": {"random": [{}, {}]}}, "the run had 2 processes, not 1"),
    ],
)
def test_other_machines_are_refused(change: dict[str, Any], message: str, trained: Any, compose: Compose, tmp_path: Path) -> None:  # fmt: skip # noqa: E501
    checkpoint = torch.load(trained.folder / "checkpoints" / "last.ckpt", weights_only=True)
    state = checkpoint["callbacks"]["LastCheckpoint"]
    state |= {"mark": state["mark"] | change["mark"]} if "mark" in change else change
    torch.save(checkpoint, tmp_path / "it.ckpt")
    with pytest.raises(UserError, match=message):
        train(compose("train", f"resume={tmp_path / 'it.ckpt'}"))


def test_the_best_score_is_kept_only_with_its_weights(tmp_path: Path) -> None:
    score = torch.tensor(0.8)
    state = {
        "monitor": "val/accuracy", "best_model_score": score, "best_model_path": "/before/best.ckpt",
        "best_k_models": {"/before/best.ckpt": score}, "kth_best_model_path": "/before/best.ckpt", "kth_value": score,
        "last_model_path": "", "dirpath": "/before", "current_score": score,
    }  # fmt: skip
    without = BestCheckpoint(tmp_path, "val/accuracy")
    without.load_state_dict(state)
    assert without.best_k_models == {}
    (tmp_path / "best.ckpt").write_bytes(b"weights")
    moved = BestCheckpoint(tmp_path, "val/accuracy")
    moved.load_state_dict(state)
    assert moved.best_k_models == {str(tmp_path / "best.ckpt"): score}
    assert moved.best_model_score == score


@pytest.mark.parametrize(
    "option", ["every_steps=0", "every_steps=1.5", "every_steps=often", "every_minutes=0", "every_minutes=x"]
)
def test_when_to_save_is_checked_first(option: str, compose: Compose, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"save\.{option.split('=')[0]} must be a"):
        train(compose("train", f"save.{option}"))
    assert not (tmp_path / "run").exists()


def test_minutes(compose: Compose, tmp_path: Path, monkeypatch: Any) -> None:
    """Check that a checkpoint is there before the first epoch has ended."""
    found: list[bool] = []
    path = tmp_path / "run" / "checkpoints" / "last.ckpt"
    real = SequenceClassifier.validation_step
    step = lambda module, *batch: (found.append(path.is_file()), real(module, *batch))[1]  # noqa: E731
    monkeypatch.setattr(SequenceClassifier, "validation_step", step)
    train(compose("train", "save.every_minutes=1e-9", "attention=standard"))
    assert found[0]
