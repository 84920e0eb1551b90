"""The one exception for mistakes a user can mend, and the one line it takes from a library's."""

from __future__ import annotations


class UserError(Exception):
    """Bad input. Its text is one line that names the file or option and says what to do; commands print it without traceback."""


def first_line(error: BaseException) -> str:
    """The first line of a library's message, or its type where it has none: a user error is one line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
