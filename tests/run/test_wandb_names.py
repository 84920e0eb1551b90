"""A run has a name, a group and a job type in W&B, unless the user has given it others."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.types import RunMode
from omegaconf import OmegaConf

from effective_attention.run import wandb_names
from effective_attention.run.wandb_names import named, trained_in

OPEN = {"project": "p", "name": None, "group": None, "job_type": None}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_NAME", "WANDB_RUN_GROUP", "WANDB_JOB_TYPE"):
        monkeypatch.delenv(name, raising=False)


def run(folder: Path, *, model: str = "minilm", checkpoint: object = None) -> Any:
    return SimpleNamespace(
        folder=folder,
        task=SimpleNamespace(name="mrpc"),
        encoder=SimpleNamespace(name=model),
        facts={"run/seed": 3},
        checkpoint=None if checkpoint is None else str(checkpoint),
    )


def trained(folder: Path, config: str = "seed: 0\n") -> Path:
    """Make what is read of a run that trained."""
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.yaml").write_text(config)
    return folder


def sweep(monkeypatch: pytest.MonkeyPatch, *options: str, constant: tuple[str, ...] = ()) -> None:
    """Pretend to be a job of a sweep with these options."""
    hydra = {
        "mode": RunMode.MULTIRUN,
        "sweep": {"dir": "multirun/my-sweep"},
        "overrides": {"task": list(options)},
        "job": {"config": {"override_dirname": {"exclude_keys": list(constant)}}},
    }
    config = SimpleNamespace(initialized=lambda: True, get=lambda: OmegaConf.create(hydra))
    monkeypatch.setattr(wandb_names, "HydraConfig", config)


def test_what_is_open_is_filled_in(tmp_path: Path) -> None:
    expected = {"project": "p", "name": "mrpc-minilm-seed3-train", "group": "mrpc", "job_type": "train"}
    assert named(OPEN, run(tmp_path), "train") == expected
    assert named(OPEN, run(tmp_path), "evaluate")["name"] == "mrpc-minilm-seed3-evaluate"


def test_what_the_user_gives_stays(tmp_path: Path) -> None:
    mine = {"project": "p", "name": "a", "group": "b", "job_type": "c"}
    assert named(mine, run(tmp_path), "train") == mine


@pytest.mark.parametrize(
    ("variable", "option"), [("WANDB_NAME", "name"), ("WANDB_RUN_GROUP", "group"), ("WANDB_JOB_TYPE", "job_type")]
)
def test_what_the_environment_gives_is_left_to_wandb(
    variable: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "mine")
    found = named(OPEN, run(tmp_path), "train")
    assert [name for name, value in found.items() if value is None] == [option]


@pytest.mark.parametrize("model", ["google/bert-tiny", "/home/me/models/bert-tiny", "models/bert-tiny/"])
def test_a_model_goes_by_the_last_part_of_its_place(model: str, tmp_path: Path) -> None:
    assert named(OPEN, run(tmp_path, model=model), "train")["name"] == "mrpc-bert-tiny-seed3-train"


def test_a_sweep_names_what_it_goes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("seed=3", "task=mrpc", "+optimizer.lr=1e-4", "analysis=[a,b]", "trainer=cpu")
    sweep(monkeypatch, *options, constant=("trainer",))
    found = named(OPEN, run(tmp_path), "train")
    assert found["group"] == "my-sweep"
    assert found["name"] == "mrpc-minilm-seed3-train-optimizer.lr=1e-4-analysis=-a,b"
    sweep(monkeypatch, f"text={'x' * 200}")
    assert len(named(OPEN, run(tmp_path), "train")["name"]) == 128


def test_an_evaluation_joins_the_group_of_the_run_that_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = trained(tmp_path / "mine", "logger: {wandb: {group: my-group}}")
    alone = trained(tmp_path / "alone", "logger: {wandb: null}")
    broken = trained(tmp_path / "broken", "a: [")
    swept = trained(tmp_path / "old-sweep" / "0_seed=1")
    (tmp_path / "old-sweep" / "multirun.yaml").touch()
    expected = {mine: "my-group", mine / "checkpoints" / "last.ckpt": "my-group", swept: "old-sweep"}
    expected |= {alone: "mrpc", broken: "mrpc", tmp_path / "else.ckpt": "mrpc"}
    for place, group in expected.items():
        assert named(OPEN, run(tmp_path, checkpoint=place), "evaluate")["group"] == group
    sweep(monkeypatch)
    assert named(OPEN, run(tmp_path, checkpoint=mine), "evaluate")["group"] == "my-sweep", "its own sweep goes first"


def test_training_and_evaluations_of_it_share_a_key(tmp_path: Path) -> None:
    folder = trained(tmp_path / "mrpc" / "train-1")
    assert trained_in(run(folder), "train") == "mrpc/train-1"
    for place in (folder, folder / "checkpoints", folder / "checkpoints" / "best.ckpt"):
        assert trained_in(run(tmp_path, checkpoint=place), "evaluate") == "mrpc/train-1"
    assert trained_in(run(tmp_path), "evaluate") is None
    assert trained_in(run(tmp_path, checkpoint="elsewhere.ckpt"), "evaluate") == "elsewhere.ckpt"
