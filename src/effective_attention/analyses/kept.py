"""Finished parts of long work, kept on disk: whoever is killed and started again goes on where they were.

The folder belongs to one analysis with its options, one model (every weight of it) and one split (every token of it), so that
nothing is taken for something else. Each part is one file, written whole or not at all; processes that share the work share the
folder. Without a folder (``Context.folder`` is None) a temporary one is used, and nothing outlives the analysis.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from effective_attention.errors import UserError
from effective_attention.results.files import whole_file


def fingerprint(model: nn.Module, arrays: Iterable[NDArray[Any]]) -> str:
    """Of every weight and every number; the same in every process and on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class Kept:
    """Parts by name. A part that cannot be read counts as missing, and is made anew.

    Args:
        folder: Made when the first part is written; None: a temporary one.
    """

    def __init__(self, folder: Path | None) -> None:
        self._temporary = tempfile.TemporaryDirectory() if folder is None else None
        self.folder = Path(self._temporary.name) if self._temporary is not None else folder

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npz"  # type: ignore[operator]

    def __contains__(self, name: str) -> bool:
        return self.path(name).is_file()

    def write(self, name: str, arrays: Mapping[str, Any]) -> None:
        with whole_file(self.path(name)) as file:
            np.savez(file, **arrays)

    def read(self, name: str) -> dict[str, NDArray[Any]] | None:
        """None: not there, or damaged."""
        if name not in self:
            return None
        try:
            with np.load(self.path(name), allow_pickle=False) as arrays:
                return {key: arrays[key] for key in arrays.files}
        except Exception:  # what a damaged zip raises depends on where the damage is; to make it anew is always right
            self.path(name).unlink(missing_ok=True)
            return None


def check_disk(option: str, folder: Path | None, size: int) -> None:
    """Whether ``size`` bytes fit where ``folder`` is, or will be; said before any work."""
    place = Path(tempfile.gettempdir()) if folder is None else folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if size > free:
        needed, left = (f"{count / 1e9:.1f} GB" for count in (size, free))
        raise UserError(f"{option}: {needed} are needed in {place}, where {left} are free; make room, or choose another disk "
                        f"with data.token_cache=<folder>, or fewer examples with limit=<number>")  # fmt: skip


def wait_for_others() -> None:
    """Until every process has come here."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
