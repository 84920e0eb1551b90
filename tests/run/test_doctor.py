"""The doctor: what it finds under conditions that are made up, and when it says that something is broken."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement

from effective_attention.errors import UserError
from effective_attention.models import encoders
from effective_attention.models.packaged import PACKAGED, fetching
from effective_attention.run import doctor, precision
from effective_attention.run.doctor import Part


def test_it_looks_at_everything_and_finds_nothing_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EFFECTIVE_ATTENTION_CACHE", str(tmp_path))
    assert doctor.main() == 0
    lines = capsys.readouterr().out.splitlines()
    for title in doctor.CHECKS:
        assert title in lines
    assert lines[-1] == "what the default commands need is here"
    assert any(f"torch {torch.__version__}" in line for line in lines)
    assert list(tmp_path.iterdir()) == [], "it writes nothing"


def test_missing_is_no_failure_and_broken_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> Part:
        raise ImportError("libfoo.so: cannot open\nmore")

    monkeypatch.setattr(doctor, "CHECKS", {"one": lambda: Part(["a"], missing=["b: for c"])})
    assert doctor.main() == 0
    assert (
        capsys.readouterr().out
        == "one\n  a\nmissing, and what for\n  b: for c\nwhat the default commands need is here\n"
    )
    monkeypatch.setattr(doctor, "CHECKS", {"two": fails})
    assert doctor.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "two", "  cannot be told", "broken", "  two: ImportError: libfoo.so: cannot open",
        "repair what is broken before a run",
    ]  # fmt: skip


# --- what is installed ---


def test_versions_that_do_not_fit_are_broken_and_extras_only_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"": [Requirement("pytest<1")], "sweep": [Requirement("no-launcher")], "dashboard": []}
    monkeypatch.setattr(doctor, "requirements", lambda extra="": asked[extra])
    found = doctor.check_versions()
    (broken,) = found.broken
    assert "<1 is needed; pip install" in broken
    (missing,) = found.missing
    assert missing.startswith("no-launcher: sweeps on many cores")
    assert missing.endswith("pip install -e '.[sweep]'")


def test_lost_configs_are_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "config_folder", lambda: tmp_path)
    assert any(f"no configs in {tmp_path}" in line for line in doctor.check_versions().broken)


# --- the machine ---


@pytest.mark.parametrize("fast", [True, False])
def test_a_machine_without_gpu(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(precision, "cpu_has_bfloat16", lambda: fast)
    found = doctor.check_devices()
    assert found.lines[0].startswith("CPU: ")
    assert found.lines[0].endswith("bfloat16 yes" if fast else "bfloat16 no")
    assert found.lines[1:] == ["CUDA: no", "MPS: no"]
    assert found.missing[0].startswith("a GPU: for trainer=gpu")
    assert any("cpu_bf16" in line for line in found.missing) is not fast
    assert found.broken == ()


def test_a_machine_with_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: f"Card {number}")
    monkeypatch.setattr(precision, "gpu_has_bfloat16", lambda: True)
    found = doctor.check_devices()
    assert list(found.lines[1:3]) == ["CUDA 0: Card 0, bfloat16 yes", "CUDA 1: Card 1, bfloat16 yes"]
    assert not any(line.startswith("a GPU") for line in found.missing)


def test_loops_that_are_compiled_not_yet_or_never(monkeypatch: pytest.MonkeyPatch) -> None:
    def loop(overloads: dict[str, Any]) -> Any:
        return SimpleNamespace(_cache=SimpleNamespace(_cache_file=SimpleNamespace(_load_index=lambda: overloads)))

    modules = {
        "cholesky": SimpleNamespace(one=loop({"float32": 1}), name="x"),
        "moving_gram": SimpleNamespace(a=loop({})),
    }

    def load(name: str) -> Any:
        short = name.rpartition(".")[2]
        if short not in modules:
            raise ImportError("numba is too new")
        return modules[short]

    monkeypatch.setattr(doctor.importlib, "import_module", load)
    found = doctor.check_kernels()
    assert found.lines[0] == "cholesky (effective attention): compiled"
    assert "not compiled yet: at first use, or now with python -m effective_attention.kernels" in found.lines[1]
    assert found.lines[2].endswith("cannot be compiled")
    assert found.missing == ["compiled max_flow: the plain reference runs, more slowly (numba is too new)"]


# --- models and places ---


def test_a_damaged_embedded_model_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged() -> Path:
        raise UserError("embedded model is damaged; reinstall it")

    monkeypatch.setattr(encoders, "embedded_folder", damaged)
    found = doctor.check_models()
    assert found.lines[0] == "minilm: not usable"
    assert list(found.broken) == ["model=minilm, the default: embedded model is damaged; reinstall it"]


@pytest.mark.parametrize("problem", [None, "not in /cache"])
def test_packaged_models(problem: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "find_problem", lambda model, folder: problem)
    found = doctor.check_models()
    assert found.lines[0].startswith("minilm: embedded, its checksum is right: ")
    assert list(found.lines[1:]) == [f"{name}: {problem or 'in the cache'}" for name in PACKAGED]
    assert len(found.missing) == (0 if problem is None else len(PACKAGED))
    assert all(
        f"effective-attention weights fetch {name}" in line for name, line in zip(PACKAGED, found.missing, strict=False)
    )


def test_places_and_their_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EFFECTIVE_ATTENTION_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "0")
    assert f"tokens (data.token_cache=<folder>): {tmp_path / 'cache'}, not there yet" in doctor.check_places().lines
    (tmp_path / "cache" / "sub").mkdir(parents=True)
    (tmp_path / "cache" / "sub" / "file").write_bytes(bytes(1_500_000))
    (tmp_path / "cache" / "link").symlink_to(tmp_path / "cache" / "sub" / "file")
    found = doctor.check_places()
    assert found.lines[0] == f"results: {tmp_path / 'runs'} (hydra.run.dir=<folder>)"
    assert f"tokens (data.token_cache=<folder>): {tmp_path / 'cache'}, 1.5 MB" in found.lines
    (offline,) = found.missing
    assert offline.startswith("HF_HUB_OFFLINE is set: models and data from the hub")
    assert list(found.broken) == []


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EFFECTIVE_ATTENTION_CACHE", str(tmp_path / "not" / "there"))
    monkeypatch.setattr(doctor.os, "access", lambda place, mode: False)
    found = doctor.check_places()
    assert f"a cache that can be written: {tmp_path} cannot; set EFFECTIVE_ATTENTION_CACHE=<folder>" in found.missing
    assert list(found.broken) == [f"results: {tmp_path} cannot be written; add hydra.run.dir=<folder>"]


# --- W&B ---


@pytest.mark.parametrize(
    ("answer", "line", "missing"),
    [
        (True, "logged in: runs are sent", 0),
        (False, "not logged in: runs are written offline", 1),
        (None, "not usable", 1),
    ],
)
def test_wandb(answer: bool | None, line: str, missing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def login(*, prompt: bool, verify: bool) -> bool:
        assert (prompt, verify) == (False, False), "no question, no network"
        if answer is None:
            raise RuntimeError("broken")
        return answer

    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(login=login))
    found = doctor.check_wandb()
    assert found.lines[0].startswith(line)
    assert (len(found.missing), len(found.broken)) == (missing, 0)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert doctor.check_wandb().lines == ["WANDB_MODE=disabled decides"]
