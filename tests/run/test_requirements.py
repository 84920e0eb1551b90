"""What is installed, beside what the distribution asks for."""

from importlib import metadata

import pytest
from packaging.requirements import Requirement

from effective_attention.run import requirements as module
from effective_attention.run.requirements import install_command, requirements, unmet

ASKED = ["torch>=2.4", "numba>=0.60; python_version >= '3'", "submitit>=1.5; extra == 'sweep'", "ruff; extra == 'dev'"]


def test_extras_are_told_from_what_is_always_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ASKED)
    assert [one.name for one in requirements()] == ["torch", "numba"]
    assert [one.name for one in requirements("sweep")] == ["submitit"]
    assert requirements("dashboard") == []


def test_what_was_not_installed_with_pip_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert requirements() == requirements("sweep") == []


def test_what_is_wrong_with_a_package() -> None:
    assert unmet(Requirement("pytest>=8")) is None
    assert unmet(Requirement("no-such-package>=1")) == "no-such-package is not installed"
    found = metadata.version("pytest")
    assert unmet(Requirement("pytest<1")) == f"pytest {found} is installed, <1 is needed"


def test_the_command_that_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert install_command("[sweep]") == "pip install -e '.[sweep]'"
    monkeypatch.setattr(module, "is_checkout", lambda: False)
    assert install_command("[sweep]") == "pip install --upgrade 'effective-attention[sweep]'"
    assert install_command() == "pip install --upgrade 'effective-attention'"
