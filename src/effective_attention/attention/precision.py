"""The split is exact whatever autocast says: it is switched off around every product of ours."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Switch autocast off inside the block, on the device that is worked on; it costs nothing where it is off already.

    Mixed precision would compute ``A_effective V`` with 8 bits: off by 4e-3, where float32 is exact to 1e-7.
    """
    kind = device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()
