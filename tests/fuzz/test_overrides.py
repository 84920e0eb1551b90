"""A few hundred generated overrides; ``make fuzz`` runs thousands."""

import pytest

from fuzz import overrides


@pytest.mark.parametrize("seed", range(3))
def test_generated_overrides(seed: int) -> None:
    wrong = {case: problem for case in overrides.cases(100, seed) if (problem := overrides.check(case)) is not None}
    assert not wrong


def test_the_check_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("two\nlines of seed", "without its name", "seed" * 1000):
        monkeypatch.setattr(overrides, "refusal", lambda *_, line=line: line)
        assert overrides.check("train seed=-1") is not None
    monkeypatch.setattr(overrides, "refusal", lambda *_: 1 / 0)
    assert overrides.check("train seed=-1") == "ZeroDivisionError: division by zero"


def test_the_same_seed_gives_the_same_cases() -> None:
    first = list(overrides.cases(50, 1))
    assert first == list(overrides.cases(50, 1)) != list(overrides.cases(50, 2))
