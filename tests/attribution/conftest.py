"""The tiny models of the explanations' tests: six families, in double precision, on a batch with padding."""

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FAMILIES = ("bert", "roberta", "distilbert", "electra", "gpt2", "llama")


def _explanations() -> Any:
    path = Path(__file__).resolve().parents[1] / "explanations" / "conftest.py"
    spec = importlib.util.spec_from_file_location("models_of_the_explanations", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@cache
def build_trace(family: str = "bert") -> Any:
    """Three texts of 7, 5 and 3 tokens."""
    return _explanations().build_case(family, (7, 5, 3), double=True).trace


@pytest.fixture(params=FAMILIES)
def each_trace(request: pytest.FixtureRequest) -> Any:
    return build_trace(request.param)


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., Any]:
    return build_trace
