"""The one exception for mistakes a user can mend."""

from __future__ import annotations


class UserError(Exception):
    """Bad input. Its text is one line that names the file or option and says what to do; commands print it without traceback."""
