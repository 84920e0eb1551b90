"""A few hundred generated cases of each kind; ``make fuzz`` runs thousands. And the frame that counts them."""

import importlib.util
import random
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import jaxtyping
import pytest

from fuzz import checkpoints, files, lines, tensors, texts
from helpers.paths import ROOT

COUNTS = {files: 200, texts: 30, tensors: 200, checkpoints: 80}


@pytest.fixture
def _as_outside_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let wrong tensors reach our own checks, not those that conftest adds to every signature."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.usefixtures("_as_outside_the_tests")
@pytest.mark.parametrize("kind", COUNTS, ids=lambda kind: kind.__name__)
def test_generated(kind: Any) -> None:
    before = lines.refusals
    wrong = [(case, problem) for case in kind.cases(COUNTS[kind], seed=1) if (problem := kind.check(case)) is not None]
    assert not wrong
    assert COUNTS[kind] / 10 < lines.refusals - before < COUNTS[kind] * 0.95, "both happen: refusals and acceptance"


@pytest.mark.parametrize("kind", COUNTS, ids=lambda kind: kind.__name__)
def test_the_same_seed_gives_the_same_cases(kind: Any) -> None:
    first, again, other = ([repr(case) for case in kind.cases(20, seed)] for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("a: b", None),
        ("", "not one line"),
        ("two\nlines", "not one line"),
        ("\x1b[2J", "not one line"),
        ("a" * 2000, "2000"),
    ],
)
def test_what_a_refusal_must_be(line: str, problem: str | None) -> None:
    found = lines.problem_with(ValueError(line))
    assert found is None if problem is None else problem in str(found)


def test_checks_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("surprise")

    monkeypatch.setattr(files.LocalSource, "load", broken)
    monkeypatch.setattr(texts, "analyse", broken)
    monkeypatch.setattr(tensors, "decompose", broken)
    monkeypatch.setattr(checkpoints, "read_checkpoint", broken)
    for kind in COUNTS:
        assert "surprise" in kind.check(next(iter(kind.cases(1, seed=1))))


def test_a_changed_output_is_found() -> None:
    import torch

    attention, value = torch.rand(1, 1, 3, 3), torch.rand(1, 1, 3, 2)
    assert tensors._same_output(attention, attention, value) is None
    assert "the output changes by" in str(tensors._same_output(attention, 1.001 * attention, value))


# --- the frame ---


@pytest.fixture(scope="module")
def frame() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_frame", ROOT / "scripts" / "fuzz.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def _check(case: int) -> str | None:
    if case == 3:
        raise ZeroDivisionError("three")
    return "four" if case == 4 else lines.problem_with(ValueError("no")) if case > 4 else None


def test_the_frame_counts_and_names_failures(frame: ModuleType) -> None:
    kind = SimpleNamespace(cases=lambda count, seed: range(seed, seed + count), check=_check)
    outcome = frame.run("numbers", kind, 10, 0)
    assert (outcome.cases, outcome.refused) == (10, 5)
    assert outcome.failures == ["numbers 3: ZeroDivisionError: three", "numbers 4: four"]
    assert frame.table([outcome]).splitlines()[-1].split()[:5] == ["numbers", "10", "5", "3", "2"]


@pytest.mark.parametrize(("problem", "code"), [(None, 0), ("wrong", 1)])
def test_a_failure_ends_with_1(
    problem: str | None,
    code: int,
    frame: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind = SimpleNamespace(cases=lambda count, seed: range(count), check=lambda _: problem)
    monkeypatch.setattr(frame, "load", lambda name: kind if name == "files" else None)
    monkeypatch.setattr("sys.argv", ["fuzz.py", "--cases", "10"])
    monkeypatch.setattr("logging.disable", lambda _: None)
    assert frame.main() == code
    assert f"files{3:>15}" in capsys.readouterr().out


def test_every_kind_has_its_share(frame: ModuleType) -> None:
    assert sum(frame.SHARES.values()) == pytest.approx(1)
    assert {kind.__name__.rpartition(".")[2] for kind in COUNTS} <= set(frame.SHARES)
    assert random.Random("0.1").random() == random.Random("0.1").random(), "seeds of tensors are texts"
