"""The states of all random generators a process draws from, as tensors and numbers that load with ``weights_only``."""

from __future__ import annotations

import random
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

RandomState = dict[str, Any]
_NumpyState = tuple[str, NDArray[np.uint32], int, int, float]


def capture(device: torch.device) -> RandomState:
    """Return the states of Python's, NumPy's and PyTorch's generators, and of the device's own."""
    version, words, next_gauss = random.getstate()
    kind, keys, position, has_gauss, gauss = cast(_NumpyState, np.random.get_state())
    states: RandomState = {
        "python": [version, list(words), next_gauss],
        "numpy": [kind, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, gauss],
        "torch": torch.get_rng_state(),
    }
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state(device)
    return states


def restore(states: RandomState, device: torch.device) -> None:
    """Set every generator to the state it had."""
    version, words, next_gauss = states["python"]
    random.setstate((version, tuple(words), next_gauss))
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(states["torch"].cpu())
    if device.type in states:
        torch.get_device_module(device).set_rng_state(states[device.type].cpu(), device)
