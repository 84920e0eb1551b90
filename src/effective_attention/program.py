"""Where the configs are, and what a user types to start a command: in a checkout, or installed from a wheel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

NAME = "effective-attention"
"""Of the command that pip installs, and of the distribution."""
PACKAGE = Path(__file__).resolve().parent


def is_checkout() -> bool:
    """Tell whether this is a checkout of the repository; a wheel has the configs inside the package."""
    return not (PACKAGE / "conf").is_dir()


def config_folder() -> Path:
    """Return the folder of the configs: the repository's ``conf``, or the copy of it that the wheel brought."""
    return PACKAGE.parents[1] / "conf" if is_checkout() else PACKAGE / "conf"


def is_on(variable: str) -> bool:
    """Tell whether an environment variable says yes, as Hugging Face's libraries read theirs."""
    return os.environ.get(variable, "").upper() in ("1", "ON", "YES", "TRUE")


def as_typed(line: str) -> str:
    """Write a command line such as ``train.py task=mrpc`` as it is typed here.

    That is ``python train.py task=mrpc`` in a checkout, ``effective-attention train task=mrpc`` where that command was
    used or where there is no checkout.
    """
    script, _, options = line.partition(" ")
    started = Path(sys.argv[0])
    if started.name == "__main__.py" and started.resolve().parent == PACKAGE:
        words = f"python -m {PACKAGE.name} {script.removesuffix('.py')}"
    elif started.stem == NAME or not is_checkout():
        words = f"{NAME} {script.removesuffix('.py')}"
    else:
        words = f"python {script}"
    return f"{words} {options}".rstrip()
