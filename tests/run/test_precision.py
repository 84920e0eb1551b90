"""Mixed precision where the device has it, and a run in it from end to end."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hydra.utils import instantiate

from effective_attention.run import precision
from effective_attention.run.experiment import evaluate, train
from effective_attention.run.precision import best_precision, cpu_has_bfloat16

Compose = Callable[..., Any]


@pytest.fixture(autouse=True)
def _asked_anew() -> None:
    best_precision.cache_clear()


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_bf16": True, "avx2": True}, True),
        ({"avx512_bf16": False, "amx_bf16": True}, True),
        ({"avx512_bf16": False, "amx_bf16": False, "avx2": True}, False),
        ({"l2_cache_size": 1}, False),
    ],
)
def test_what_a_cpu_has(capabilities: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert cpu_has_bfloat16() == expected
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert not cpu_has_bfloat16(), "an older PyTorch cannot tell"


@pytest.mark.parametrize("has", [True, False])
@pytest.mark.parametrize("accelerator", ["cpu", "gpu", "auto"])
def test_the_device_decides(
    accelerator: str, has: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(precision, "gpu_has_bfloat16", lambda: has)
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda: has == (accelerator == "cpu"))
    with caplog.at_level(logging.WARNING):
        found = [best_precision(accelerator) for _ in range(2)]
    assert found == ["bf16-mixed" if has else "32-true"] * 2
    said = [] if has else [f"this {'CPU' if accelerator == 'cpu' else 'GPU'} has no bfloat16 instructions"]
    assert [record.message.partition(":")[0] for record in caplog.records] == said, "once"


@pytest.mark.parametrize("has", [True, False])
@pytest.mark.parametrize("name", ["cpu_bf16", "gpu"])
def test_trainers_use_it_unless_told_otherwise(
    name: str, has: bool, compose: Compose, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda: has)
    on_cpu = [f"trainer={name}", "trainer.accelerator=cpu"]
    trainer = instantiate(compose("train", *on_cpu).trainer, logger=False)
    assert trainer.precision == ("bf16-mixed" if has else "32-true")
    trainer = instantiate(compose("train", *on_cpu, "trainer.precision=64-true").trainer, logger=False)
    assert trainer.precision == "64-true"


def test_a_run_in_mixed_precision(compose: Compose, tmp_path: Path) -> None:
    """Check that training and testing are mixed, and analyses are not: they give what full precision gives."""
    options = ["attention=all", "data.limit_eval=40", "analysis=[token_types,null_space,finetuning_shift]"]
    metrics = train(compose("train", *options, "+trainer.precision=bf16-mixed"))
    assert metrics["run/precision"] == "bf16-mixed"
    assert metrics["test/effective/changed_predictions"] == 0
    assert metrics["test/effective/max_logit_difference"] < 0.02
    again = {}
    for name in ("bf16-mixed", "32-true"):
        folder = tmp_path / name
        checkpoint = [f"checkpoint={tmp_path / 'run'}", f"run_dir={folder}", f"+trainer.precision={name}"]
        again[name] = evaluate(compose("evaluate", *options, *checkpoint))
    assert again["bf16-mixed"]["test/standard/accuracy"] == metrics["test/standard/accuracy"]
    assert again["32-true"]["test/effective/max_logit_difference"] < 1e-6
    for table in ("token_types", "null_space", "finetuning_shift"):
        mixed, full = (pd.read_parquet(tmp_path / name / "tables" / f"{table}.parquet") for name in again)
        pd.testing.assert_frame_equal(mixed, full)


def test_weights_in_half_precision_are_analysed_in_float32(compose: Compose, tmp_path: Path) -> None:
    options = ["data.limit_eval=16", "analysis=[token_types,null_space,finetuning_shift]"]
    metrics = train(compose("train", *options, "+trainer.precision=bf16-true"))
    assert metrics["run/precision"] == "bf16-true"
    table = pd.read_parquet(tmp_path / "run" / "tables" / "null_space.parquet")
    assert bool(table["value"].notna().any())
