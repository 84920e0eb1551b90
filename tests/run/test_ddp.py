"""Two processes, started by torchrun or by Lightning, learn and measure what one does."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from effective_attention.run.experiment import train
from helpers.paths import ROOT

OPTIONS = (
    "task=mrpc", "model=tiny", "+model.dropout=0", "trainer.max_epochs=2", "trainer.enable_progress_bar=false",
    "data.limit_train=48", "data.limit_eval=21", "data.batch_size=4", "optimizer.lr=1e-3", "logger=csv",
    "analysis=[token_types,distance]", "drift.examples=0",
)  # fmt: skip


def by_torchrun(folder: Path) -> list[str]:
    return ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(ROOT / "train.py")]


def by_lightning(folder: Path) -> list[str]:
    """Start the command as pip installs it; Lightning starts it again for the second process."""
    script = folder / "effective-attention"
    script.write_text("from effective_attention.run.commands import main\n\nmain()\n")
    return [str(script), "train"]


def run_two(start: list[str], folder: Path, cache: Path) -> None:
    """Every process composes its own config, and would have a folder of its own."""
    places = [f"hydra.run.dir={folder}/${{now:%H-%M-%S-%f}}", f"data.token_cache={cache}"]
    options = [*OPTIONS, "trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2", *places]
    done = subprocess.run([sys.executable, *start, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]


@pytest.mark.parametrize("start", [by_torchrun, by_lightning])
def test_two_processes_are_one_with_batches_twice_the_size(
    start: Callable[[Path], list[str]], compose: Callable[..., Any], tmp_path: Path
) -> None:
    """Both average the gradients of the same two batches of four; the 21 examples to test on are 12 and 9."""
    cfg = compose("train", *OPTIONS, "trainer=cpu", "+trainer.accumulate_grad_batches=2")
    train(cfg)
    one = Path(cfg.run_dir)
    run_two(start(tmp_path), tmp_path / "two", tmp_path / "tokens")
    (two,) = (tmp_path / "two").iterdir()  # the second process has left nothing
    theirs = weights(two)
    for name, tensor in weights(one).items():
        torch.testing.assert_close(theirs[name], tensor, atol=1e-6, rtol=0)
    before, after = (json.loads((folder / "metrics.json").read_text()) for folder in (one, two))
    scores = {name: value for name, value in before.items() if name.startswith("val/") or "accuracy" in name}
    assert scores == pytest.approx({name: after[name] for name in scores}, abs=1e-6)
    assert "val/loss" in scores
    for name in ("token_types", "distance"):
        tables = [pd.read_parquet(folder / "tables" / f"{name}.parquet") for folder in (one, two)]
        pd.testing.assert_series_equal(*(table["value"] for table in tables), atol=1e-5, rtol=0)
