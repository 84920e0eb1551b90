"""Runs whose numbers are NaN or infinite: one line that says where, and nothing that looks like a result."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from effective_attention.finite import NotFiniteError
from effective_attention.run.cli import explain
from effective_attention.run.experiment import evaluate, train

Compose = Callable[..., Any]


def test_training_that_diverges_names_the_step_and_leaves_no_weights(compose: Compose, tmp_path: Path) -> None:
    with pytest.raises(NotFiniteError, match=r"^the training loss is NaN or infinite at step \d") as caught:
        train(compose("train", "optimizer.lr=1e10", "attention=standard", "trainer.max_epochs=2"))
    line = explain(caught.value)
    assert line is not None, "a command prints it as one line and ends with an error"
    assert "optimizer.lr" in line
    assert not list(tmp_path.rglob("*.ckpt"))
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_earlier_checkpoints_of_a_run_that_diverges_stay(compose: Compose, tmp_path: Path, monkeypatch: Any) -> None:
    """Check that the second epoch's NaN neither overwrites the first epoch's checkpoints nor is offered to resume."""
    from effective_attention.models.classifier import SequenceClassifier

    loss = SequenceClassifier._loss
    monkeypatch.setattr(
        SequenceClassifier,
        "_loss",
        lambda self, *rest: loss(self, *rest) * (torch.nan if self.current_epoch == 1 else 1.0),
    )
    with pytest.raises(NotFiniteError, match=r"training loss .* at step 4"):
        train(compose("train", "trainer.max_epochs=2"))
    folder = tmp_path / "run" / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["best.ckpt", "last.ckpt"]
    assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 4


def damaged(checkpoint: Path, folder: Path, name: str, bad: float) -> Path:
    """Copy a checkpoint with some of its weights spoilt: all, or those of one name."""
    state = torch.load(checkpoint, weights_only=True)
    for own, weights in state["state_dict"].items():
        if weights.is_floating_point() and own.endswith(name):
            weights.fill_(bad)
    torch.save(state, folder / "damaged.ckpt")
    return folder / "damaged.ckpt"


@pytest.mark.parametrize(
    ("name", "bad", "named"),
    [
        ("", torch.nan, r"numbers of bert\.embeddings\.word_embeddings\.weight"),
        ("model.classifier.weight", torch.inf, r"(\d+) of \1 numbers of classifier\.weight"),
    ],
    ids=["all NaN", "infinite head"],
)
def test_a_checkpoint_is_refused_by_its_parameter(
    name: str, bad: float, named: str, compose: Compose, trained: Any, tmp_path: Path
) -> None:
    path = damaged(trained.folder / "checkpoints" / "last.ckpt", tmp_path, name, bad)
    with pytest.raises(NotFiniteError, match=rf"^checkpoint={path}: .*{named} are NaN or infinite"):
        evaluate(compose("evaluate", f"checkpoint={path}", "attention=standard"))
    assert not (tmp_path / "run").exists()


def test_a_pretrained_model_is_refused_by_its_parameter(compose: Compose, tiny_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_folder, folder)
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.bias"][3] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    named = rf"^model {folder}: 1 of 16 numbers of bert\.embeddings\.LayerNorm\.bias are NaN"
    for command, name in ((train, "train"), (evaluate, "evaluate")):
        with pytest.raises(NotFiniteError, match=named):
            command(compose(name, "model=minilm", f"model.name={folder}"))
    assert not (tmp_path / "run").exists()
