"""What is said of pip-audit's report: a find ends CI, and a database out of reach is never called clean."""

import importlib.util
from types import ModuleType
from typing import Any

import pytest

from helpers.paths import ROOT


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / "scripts" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CLEAN = {"name": "rich", "version": "15.0.0", "vulns": []}
SKIPPED = {"name": "wrapt", "skip_reason": "Dependency not found on PyPI and could not be audited"}
FOUND = {"name": "jinja2", "version": "3.1.2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.3"]}]}


@pytest.mark.parametrize(
    ("dependencies", "code", "words"),
    [
        ([CLEAN], 0, "1 versions without a known vulnerability"),
        ([CLEAN, SKIPPED], 0, "1 versions without a known vulnerability; not in the database: wrapt"),
        ([SKIPPED], 0, "not audited: the database of known vulnerabilities could not be reached"),
        ([], 0, "not audited: the database of known vulnerabilities could not be reached"),
        ([CLEAN, SKIPPED, FOUND], 1, "known vulnerabilities:\n  jinja2 3.1.2: PYSEC-1, fixed in 3.1.3"),
    ],
)
def test_verdict(dependencies: list[dict[str, Any]], code: int, words: str, audit: ModuleType) -> None:
    assert audit.verdict(dependencies) == (code, words)
