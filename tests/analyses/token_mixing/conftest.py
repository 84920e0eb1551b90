"""The tiny models of ``helpers.cases``: six families, in double precision, on a batch with padding."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from helpers.cases import DECODERS, ENCODERS, build_case

FAMILIES = (*ENCODERS, *DECODERS)


@cache
def build_trace(family: str = "bert") -> Any:
    """Three texts of 7, 5 and 3 tokens."""
    return build_case(family, (7, 5, 3), double=True).trace


@pytest.fixture(params=FAMILIES)
def each_trace(request: pytest.FixtureRequest) -> Any:
    return build_trace(request.param)


@pytest.fixture(scope="session")
def make_trace() -> Callable[..., Any]:
    return build_trace
