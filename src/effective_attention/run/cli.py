"""What every command does around its work: bad input becomes one line on stderr, and leaves no litter behind.

Imports nothing heavy: ``--help`` goes through here.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from effective_attention.errors import UserError

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_NO_ACCESS = {
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENOENT,
    errno.ENAMETOOLONG,
}
_DISK_TROUBLE = _DISK_FULL | _NO_ACCESS
BAD_INPUT = 2


def command(main: Callable[[], Any]) -> None:
    """Run a Hydra entry point; wrong options end it with one line on stderr."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # hand us the exception instead of printing it
    sys.argv[1:] = [quoted(argument) for argument in sys.argv[1:]]
    with one_line_errors():
        main()


def quoted(argument: str) -> str:
    """Quote a text on the command line, so that it means itself and is not read by Hydra's grammar.

    >>> quoted("text=Well, <done>."), quoted("task=mrpc")
    ("text='Well, <done>.'", 'task=mrpc')
    """
    option, equals, value = argument.partition("=")
    if option not in ("text", "text_pair") or not equals or value == "null" or re.fullmatch(r"""(['"]).*\1""", value):
        return argument
    escaped = re.sub(r"(\\*)'", lambda found: found[1] * 2 + "\\'", value)
    escaped = re.sub(r"(\\+)$", lambda found: found[1] * 2, escaped)
    return f"{option}='{escaped}'"


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the program with one line for an error that a user can correct; any other is our bug and keeps its traceback.

    Used inside the entry point too: an exception that reached Hydra would be announced by a line of its own.
    """
    try:
        yield
    except Exception as error:
        line = explain(error)
        if line is None:
            raise
        print(f"error: {line}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def explain(error: BaseException | None) -> str | None:
    """Describe in one line an error that bad input, a bad option or a bad disk can cause; None for all others."""
    while error is not None:
        line = _explain_one(error)
        if line is not None:
            return " ".join(line.split())
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def _explain_one(error: BaseException) -> str | None:
    from hydra.errors import HydraException, InstantiationException, MissingConfigException
    from omegaconf.errors import OmegaConfBaseException

    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options is not None:
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        return f"{group}={choice} does not exist; choose one of: {', '.join(error.options)}"
    missing = (
        re.search(r"[Mm]issing mandatory value: (\S+)", str(error))
        if isinstance(error, OmegaConfBaseException)
        else None
    )
    if missing:
        option = missing[1].replace(".source.", ".")  # the sources' options are given one level up
        return f"{option} is not set; add {option}=<value>"
    if isinstance(error, InstantiationException):
        return None  # its cause tells more, or it is ours
    if isinstance(error, HydraException | OmegaConfBaseException):
        return f"{error} (--help lists the options)"
    if type(error).__module__.startswith("submitit."):
        return f"{error} (hydra.launcher.<option>=<value> sets what a job asks the cluster for)"
    if isinstance(error, OSError) and error.errno in _DISK_TROUBLE:
        place = f" {error.filename}" if error.filename else ""
        return f"cannot read or write{place}: {error.strerror}; results go elsewhere with hydra.run.dir=<folder>"
    return None


@contextmanager
def nothing_left_behind(run_dir: Path) -> Iterator[None]:
    """Remove Hydra's files if bad input ends the command before it produced anything, and the folder if now empty."""
    try:
        yield
    except Exception as error:
        if explain(error) is not None and not any(
            (run_dir / kept).exists() for kept in ("checkpoints", "metrics.json")
        ):
            _remove_hydra_files(run_dir)
        raise


def _remove_hydra_files(run_dir: Path) -> None:
    """Remove only what Hydra wrote for this run: the folder may be the user's, with other files in it."""
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized():
        return
    for file in [*(run_dir / ".hydra").glob("*.yaml"), run_dir / f"{HydraConfig.get().job.name}.log"]:
        file.unlink(missing_ok=True)
    for folder in (run_dir / ".hydra", run_dir, run_dir.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
