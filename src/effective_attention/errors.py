"""The exception for mistakes that a user can correct, and helpers that keep its text one short line."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

_LONGEST_LINE = 300  # of a library's message
_LISTED = 20


class UserError(Exception):
    """Bad input from the user.

    The text is one line that names the file or option and says what to do; commands print it without traceback.
    """


def shorten(text: str, limit: int = 60) -> str:
    r"""Fit what a file holds into an error: at most ``limit`` characters, on one line, nothing a terminal acts on.

    >>> shorten("a" * 1000, limit=9)
    'aaaaaa...'
    >>> shorten("two\nlines")
    'two\\nlines'
    """
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode()


def quoted(value: object) -> str:
    """Show a value as Python writes it, shortened; its type, where it is too deep or too long to write.

    >>> quoted("it")
    "'it'"
    """
    try:
        return repr(shorten(value)) if isinstance(value, str) else shorten(repr(value))
    except (RecursionError, ValueError):
        return type(value).__name__


def listed(names: Collection[str]) -> str:
    """Join names that a file brought along: each of them short, and no more than fit into an error.

    >>> listed(["text", "label"])
    'text, label'
    """
    shown: Iterable[str] = (shorten(str(name)) for name in islice(names, _LISTED))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(shown) + more


def first_line(error: BaseException) -> str:
    """Return the first line of a library's message, or the error's type where it has none."""
    found = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return shorten(found, _LONGEST_LINE)
