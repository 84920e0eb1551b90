"""What every command does around its work: bad input becomes one line on stderr, and leaves no litter behind.

Imports nothing heavy: ``--help`` goes through here.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

from effective_attention.errors import UserError, first_line
from effective_attention.processes import started_as
from effective_attention.program import config_folder
from effective_attention.run.options.arguments import check_overrides, quoted_arguments, read_arguments
from effective_attention.run.options.help import is_plain_help, print_help
from effective_attention.run.resume import with_run_options

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
INTERRUPTED = 130
_SILENT = ("hydra.output_subdir=null", "hydra/job_logging=disabled")
"""For all processes of a run but the first, which writes down what there is to write."""
_OF_A_RUN = (".lock", "config.yaml", "checkpoints", "metrics.json")


def command(name: str, task: Callable[[DictConfig], Any], *, typed: Sequence[str] = ()) -> None:
    """Run a task with the config that the command line asks for; wrong options end it with one line on stderr.

    Args:
        name: Of the config.
        task: What to do with it; sweeps may pickle it.
        typed: Words of the command line that stood before the options, and are no longer in ``sys.argv``.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # hand us the exception instead of printing it
    logging.raiseExceptions = False  # a log on a full disk, ours or W&B's, is no reason for a traceback
    folder = config_folder()
    with one_line_errors():
        sys.argv[1:] = with_run_options(quoted_arguments(sys.argv[1:]))
        arguments = read_arguments(sys.argv[1:])
        check_overrides(arguments.overrides, [folder, *map(Path, filter(None, [arguments.config_dir]))])
        if started_as() > 0:
            sys.argv += _SILENT
        if is_plain_help(arguments):
            with reader_may_leave():
                print_help(folder, name, arguments.overrides)
        else:
            again = _Task(task, [*typed, *sys.argv[1:]])
            hydra.main(version_base="1.3", config_path=str(folder), config_name=name)(again)()


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Print for a reader who may stop reading, as ``head`` does: the rest is then printed for nobody."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would complain as it ends


class _Task:
    """A task as Hydra runs it; sweeps pickle it.

    Hydra reads ``sys.argv`` before, and wants nothing but options there. Lightning reads it during the task, to start
    more processes of the same command under DDP, and must find the sub-command, too.
    """

    def __init__(self, task: Callable[[DictConfig], Any], arguments: Sequence[str]) -> None:
        self.task = task
        self.arguments = arguments

    def __call__(self, cfg: DictConfig) -> Any:
        sys.argv[1:] = self.arguments
        return self.task(cfg)


def check_before_loading(cfg: DictConfig) -> None:
    """Refuse a wrong option, or a place that does not exist, before seconds are spent on loading libraries."""
    from effective_attention.run.options.check import check_options

    with nothing_left_behind(Path(str(OmegaConf.select(cfg, "run_dir")))):
        check_options(cfg)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the program with one line for an error that a user can correct; any other is our bug and keeps its traceback.

    Used inside the entry point too: an exception that reached Hydra would be announced by a line of its own.
    """
    try:
        yield
    except KeyboardInterrupt:  # before there was anything to go on from: while libraries were imported
        _remove_hydra_files()
        print("stopped by SIGINT", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        line = explain(error)
        if line is None:
            raise
        print(f"error: {line}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def explain(error: BaseException | None) -> str | None:
    """Describe in one line an error that bad input, a bad option or a bad disk can cause; None for all others."""
    outermost = error
    while error is not None:
        line = _explain_one(error)
        if line is not None:
            return " ".join(line.split())
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None if outermost is None else _explain_start(outermost)


def _explain_one(error: BaseException) -> str | None:
    from effective_attention.run.options.composition import explain_composition

    if isinstance(error, UserError):
        return str(error)
    if type(error).__module__.startswith("submitit."):
        return f"{error} (hydra.launcher.<option>=<value> sets what a job asks the cluster for)"
    if isinstance(error, OSError) and error.errno in _DISK_TROUBLE:
        name = error.filename or _open_file(error)
        place = f" {name}" if name else ""
        return f"cannot read or write{place}: {error.strerror}; results go elsewhere with hydra.run.dir=<folder>"
    return explain_composition(error)


def _explain_start(error: BaseException) -> str | None:
    """Describe an error that Hydra ran into before it called us: only its own options can have caused that."""
    frames = traceback.extract_tb(error.__traceback__)
    called = any(frame.name == _Task.__call__.__name__ for frame in frames if frame.filename == __file__)
    places = [Path(frame.filename) for frame in frames if frame.filename != __file__]
    ours = [place for place in places if Path(__file__).parents[1] in place.parents]
    if called or ours or not any(place.parent.name == "hydra" for place in places):
        return None
    reason = f"{type(error).__name__}: {first_line(error)}"
    return f"Hydra cannot start ({reason}); check the options that begin with hydra. or leave them out"


def _open_file(error: BaseException) -> str | None:
    """Return the file that was being written where a disk error was raised: what a library raises seldom names it."""
    found: str | None = None
    place = error.__traceback__
    while place is not None:
        for value in place.tb_frame.f_locals.values():
            if isinstance(value, io.IOBase) and isinstance(getattr(value, "name", None), str):
                found = value.name  # type: ignore[attr-defined]
        place = place.tb_next
    return found


@contextmanager
def nothing_left_behind(run_dir: Path) -> Iterator[None]:
    """Remove Hydra's files if bad input or a signal ends the command before it produced anything.

    The folder goes too, if it is empty then.
    """
    try:
        yield
    except BaseException as error:
        is_stopped = isinstance(error, KeyboardInterrupt | SystemExit)
        if is_stopped or explain(error) is not None:
            _remove_hydra_files(run_dir)
        raise


def _remove_hydra_files(run_dir: Path | None = None) -> None:
    """Remove only what Hydra wrote for a run that has nothing yet: the folder may be the user's, with other files.

    Args:
        run_dir: Of the run; None: Hydra's own.
    """
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized():
        return
    run_dir = Path(HydraConfig.get().runtime.output_dir) if run_dir is None else run_dir
    if any((run_dir / kept).exists() for kept in _OF_A_RUN):
        return
    for file in [*(run_dir / ".hydra").glob("*.yaml"), run_dir / f"{HydraConfig.get().job.name}.log"]:
        file.unlink(missing_ok=True)
    here = Path.cwd()
    below = [folder for folder in run_dir.parents if here in folder.resolve().parents]
    for folder in (run_dir / ".hydra", run_dir, run_dir.parent, *below[1:]):  # runs/mrpc, and runs with it
        if folder.is_dir() and not any(folder.iterdir()) and folder.resolve() != here:
            folder.rmdir()
