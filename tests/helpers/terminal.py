"""A terminal that nobody looks at: what is written to it is kept."""

import io
import re
import sys

import pytest

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    """Takes the place of stderr, ``width`` columns wide."""

    def __init__(self, patch: pytest.MonkeyPatch, width: int = 80) -> None:
        super().__init__()
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm-256color")
        patch.setattr(sys, "stderr", self)

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        """List every line that was ever to be seen, also those that were written over."""
        plain = _CODES.sub("\n", re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue()))
        return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]
