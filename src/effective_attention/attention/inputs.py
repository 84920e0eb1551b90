"""What may be split: attention and values that belong together and are finite, and the keys that are seen."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from effective_attention.finite import NotFiniteError, all_finite


def check_shapes(attention: Tensor, value: Tensor) -> None:
    """Refuse attention and values that do not belong together.

    Raises:
        ValueError: A shape does not fit.
        TypeError: They are no floating-point numbers.
    """
    _check("attention", "(batch, head, query, key)", attention, value)
    if attention.shape[3] != value.shape[2]:
        raise ValueError(f"attention {tuple(attention.shape)} and value {tuple(value.shape)} disagree in key")


def check_output(output: Tensor, value: Tensor) -> None:
    """Refuse what heads hand on and values that do not belong together, as ``check_shapes`` does."""
    _check("output", "(batch, head, query, d_head)", output, value)
    if 0 in (*output.shape, *value.shape):
        raise ValueError(f"output and value must not be empty, got {tuple(output.shape)} and {tuple(value.shape)}")
    if output.shape[3] != value.shape[3]:
        raise ValueError(f"output {tuple(output.shape)} and value {tuple(value.shape)} disagree in d_head")


def _check(name: str, axes: str, first: Tensor, value: Tensor) -> None:
    if not (isinstance(first, Tensor) and isinstance(value, Tensor)):
        raise TypeError(f"{name} and value must be tensors, got {type(first).__name__} and {type(value).__name__}")
    shapes = f"{tuple(first.shape)} and {tuple(value.shape)}"
    if first.ndim != 4 or value.ndim != 4:
        raise ValueError(f"{name} and value must have 4 axes {axes} and (batch, head, key, d_head), got {shapes}")
    grouped = value.shape[1] > 0 and first.shape[1] % value.shape[1] == 0
    if first.shape[0] != value.shape[0] or not grouped:
        raise ValueError(
            f"{name} and value, {shapes}, disagree in batch or head; under grouped queries the number of heads is a "
            f"multiple of the number of sets of values (transformers has the heads third: transpose(1, 2))"
        )
    if not (first.is_floating_point() and value.is_floating_point()):
        raise TypeError(f"{name} and value must be floating point, got {first.dtype} and {value.dtype}")


def only_seen(numbers: Tensor, seen: Tensor | None, name: str) -> Tensor:
    """Return the numbers, with 0 for hidden ones where some are not finite: 0 times NaN would be NaN.

    Raises:
        NotFiniteError: One that is seen is not finite.
    """
    if all_finite(numbers):
        return numbers
    kept = numbers if seen is None else torch.where(seen, numbers, 0)
    if not all_finite(kept):
        example, head = (~kept.isfinite()).nonzero()[0, :2].tolist()
        raise NotFiniteError(
            f"{name} holds NaN or infinite numbers, first in example {example}, head {head}: "
            "the model's activations have overflowed, or its weights have diverged"
        )
    return kept


def as_visible(mask: Tensor, shape: tuple[int, ...]) -> Bool[Tensor, "batch heads queries key"] | None:
    """Return the mask as bool (batch, 1 or head, 1 or query, key), with a query axis only where queries differ.

    None where nothing is hidden. ``shape`` is that of the attention.
    """
    batch, head, query, key = shape
    if mask.is_floating_point() and not ((mask == 0) | (mask == 1)).all():
        raise ValueError("mask must be bool or hold 0 and 1 only; turn an additive mask into one with `mask == 0`")
    visible = mask.to(torch.bool)
    if visible.shape == (batch, key):
        visible = visible[:, None, None, :]
    elif visible.shape == (query, key):
        visible = visible[None, None]
    if (
        visible.ndim != 4
        or any(got not in (1, want) for got, want in zip(visible.shape[:3], (batch, head, query), strict=True))
        or visible.shape[3] != key
    ):
        raise ValueError(
            f"mask must have shape (batch, key) = {(batch, key)}, (query, key), or broadcast to "
            f"{tuple(shape)}, got {tuple(mask.shape)}"
        )
    if bool(visible.all()):
        return None
    first = visible[:, :, :1]
    return first.expand(batch, -1, -1, -1) if bool((visible == first).all()) else visible.expand(batch, -1, -1, -1)
