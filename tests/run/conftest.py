"""What the tests of commands share."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def logging_restored() -> Iterator[None]:
    """Restore the root logger, which Hydra sets up with a file in the run directory."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.level = level
