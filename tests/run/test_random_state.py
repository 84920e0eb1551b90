"""Every generator goes on where it was, from what a checkpoint can hold."""

import random
from pathlib import Path

import numpy as np
import torch

from effective_attention.run.random_state import capture, restore


def _draw() -> list[float]:
    return [random.random(), random.gauss(0, 1), float(np.random.normal()), np.random.rand(), float(torch.rand(()))]


def test_all_generators_go_on_where_they_were(tmp_path: Path) -> None:
    _draw()  # one gauss of two is kept for later
    with torch.random.fork_rng(devices=[]):
        torch.save(capture(torch.device("cpu")), tmp_path / "it.ckpt")
        wanted = _draw()
        random.seed(5)
        np.random.seed(5)
        torch.manual_seed(5)
        assert _draw() != wanted
        restore(torch.load(tmp_path / "it.ckpt", weights_only=True), torch.device("cpu"))
        assert _draw() == wanted
