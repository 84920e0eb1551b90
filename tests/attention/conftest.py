"""What tests of tensors share."""

from __future__ import annotations

from collections.abc import Iterator

import jaxtyping
import pytest


@pytest.fixture
def _without_shape_checks() -> Iterator[None]:
    """Switch off jaxtyping's checks, as users see it: under the tests they would raise before our own checks."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
