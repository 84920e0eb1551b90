"""The tiny classifiers of ``helpers.cases`` as a fixture."""

from collections.abc import Callable
from typing import Any

import pytest

from helpers.cases import build_case


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Any]:
    return build_case
