"""How signatures are checked while the tests run."""

from collections.abc import Callable
from typing import Any

from beartype import beartype


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check a function's types, but not a constructor's: what users give there must reach our own checks."""
    return function if getattr(function, "__name__", "") == "__init__" else beartype(function)
