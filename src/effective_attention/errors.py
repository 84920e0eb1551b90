"""The exception for mistakes that a user can correct, and a helper that shortens a library's message to one line."""

from __future__ import annotations


class UserError(Exception):
    """Bad input from the user.

    The text is one line that names the file or option and says what to do; commands print it without traceback.
    """


def first_line(error: BaseException) -> str:
    """Return the first line of a library's message, or the error's type where it has none."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
