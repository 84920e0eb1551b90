"""Several processes that share one piece of work, as under DDP; alone, every function does what one process needs."""

from __future__ import annotations

import os
import sys
from typing import Any


def started_as() -> int:
    """Return the number of this process as its launcher (torchrun, SLURM, Lightning) has given it, before they meet."""
    given = [os.environ.get(name) for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK")]
    return next((int(number) for number in given if number is not None and number.isdigit()), 0)


def rank_and_world() -> tuple[int, int]:
    """Return the number of this process, from 0, and how many there are."""
    distributed = _distributed()
    return (0, 1) if distributed is None else (distributed.get_rank(), distributed.get_world_size())


def wait_for_others() -> None:
    """Return when every process has come here."""
    distributed = _distributed()
    if distributed is not None:
        distributed.barrier()


def gather(value: Any) -> list[Any]:
    """Collect one object of each process, in the order of their numbers; every process gets the list."""
    distributed = _distributed()
    if distributed is None:
        return [value]
    found: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, value)
    return found


def _distributed() -> Any:
    """Return ``torch.distributed`` where it is in use, else None; PyTorch is not loaded for the question."""
    torch = sys.modules.get("torch")
    distributed = None if torch is None else torch.distributed
    return (
        distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None
    )
