"""One run at a time in a folder: the second is refused, and what a killed one left half-written is cleared away.

The lock is the kernel's (``flock``) on a hidden file, so it ends with its process however that ends. Over NFS it holds
between hosts if the server has a lock manager; where a disk knows no locks, the run says so and goes on without.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytorch_lightning.utilities import rank_zero_only

from effective_attention.errors import UserError
from effective_attention.io import clear_unfinished

log = logging.getLogger(__name__)
_NAME = ".lock"
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


@contextmanager
def only_run_in(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder; of the processes of one run the first does.

    Raises:
        UserError: Another run is there.
    """
    if rank_zero_only.rank != 0:
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Hydra makes a folder for every process; only the first one fills it
                folder.rmdir()
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / _NAME
    handle = _take(path)
    try:
        clear_unfinished(folder)
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):  # the whole folder may have been removed
            path.unlink()
        os.close(handle)
        with contextlib.suppress(OSError):  # not empty, as a rule; what was refused leaves nothing behind
            folder.rmdir()


def _take(path: Path) -> int:
    """Return a handle that holds the lock."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _is_free(handle, path):
            os.close(handle)
            _refuse_unless_dead(path)
            path.unlink(missing_ok=True)
            continue
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(handle).st_ino == path.stat().st_ino:  # else its owner removed it while we were here
                owner = json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode()
                os.ftruncate(handle, 0)
                os.pwrite(handle, owner, 0)
                return handle
        os.close(handle)


def _is_free(handle: int, path: Path) -> bool:
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (OSError, ImportError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
            raise
        log.warning("%s: this disk knows no locks, so nothing keeps a second run out of the folder", path.parent)
    return True


def _refuse_unless_dead(path: Path) -> None:
    """Refuse while the owner lives; a process it started may hold the lock some seconds longer."""
    owner = _owner(path)
    here = owner.get("host") == socket.gethostname()
    if here and not Path(f"/proc/{owner['process']}").exists() and Path("/proc/self").exists():
        return
    by = f"process {owner['process']} on {owner['host']}" if owner else "another process"
    raise UserError(
        f"{path.parent} is in use by a run that has not ended ({by}); "
        "wait for it, stop it, or choose another folder with hydra.run.dir=<folder>"
    )


def _owner(path: Path) -> dict[str, str]:
    try:
        owner = json.loads(path.read_text())
        return {"process": str(int(owner["process"])), "host": str(owner["host"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
