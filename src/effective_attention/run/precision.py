"""Mixed precision where the device computes in bfloat16: for the trainers that ask for it."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import torch

log = logging.getLogger(__name__)
MIXED = "bf16-mixed"
FULL = "32-true"


@cache  # a run asks twice, and is told once
def best_precision(accelerator: str) -> str:
    """Return Lightning's name of the precision to use: ``bf16-mixed`` where that is fast, else ``32-true``.

    Args:
        accelerator: Lightning's name of the kind of device; ``auto``: a GPU where there is one.
    """
    on_gpu = torch.cuda.is_available() and accelerator in ("auto", "gpu", "cuda")
    if gpu_has_bfloat16() if on_gpu else cpu_has_bfloat16():
        return MIXED
    log.warning("this %s has no bfloat16 instructions: precision %s is used", "GPU" if on_gpu else "CPU", FULL)
    return FULL


def gpu_has_bfloat16() -> bool:
    return torch.cuda.is_bf16_supported(including_emulation=False)


def cpu_has_bfloat16() -> bool:
    """Tell whether the processor multiplies bfloat16 itself (AVX512-BF16, AMX-BF16 or Arm's).

    Where it does not, PyTorch imitates it, slower than float32. PyTorch before ``torch.cpu.get_capabilities`` cannot
    tell: then no.
    """
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(present is True for name, present in capabilities.items() if name.endswith("bf16"))
