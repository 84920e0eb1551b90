"""Check a stranger's tensors before any is used: plain numbers in memory that the file itself brought along."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from effective_attention.errors import quoted, shorten

_LONGEST_NAME = 500
_SHARED = 4  # so many names may share one memory: an encoder-decoder ties three embeddings


def check_tensors(state: Any) -> None:
    """Refuse weights that are not dense tensors of numbers, or larger than the memory that they share.

    A tensor with stride 0 claims any size from four bytes, and thousands of tensors may lie in the same memory; a copy
    of each would not fit anywhere.

    Raises:
        ValueError: Says which weight, in one line.
    """
    memory: dict[int, int] = {}
    claimed = 0
    for name, tensor in state.items():
        _check_weight(name, tensor)
        storage = tensor.untyped_storage()
        memory[storage.data_ptr()] = storage.nbytes()
        claimed += tensor.numel() * tensor.element_size()
    if claimed > _SHARED * sum(memory.values()):
        raise ValueError("its weights claim more memory than they have")


def _check_weight(name: Any, tensor: Any) -> None:
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        raise ValueError(f"a weight's name is no short text: {quoted(name)}")
    problem = _problem(tensor)
    if problem is not None:
        raise ValueError(f"weight {shorten(name)} {problem}")


def _problem(tensor: Any) -> str | None:
    if type(tensor) not in (Tensor, nn.Parameter):
        return f"must be a tensor, got {type(tensor).__name__}"
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        return "must be a dense tensor of numbers"
    if tensor.is_complex():
        return f"must be real numbers, got {tensor.dtype}"
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        return f"claims the shape {shorten(str(list(tensor.shape)))}, and has memory for less"
    return None
