"""How effective attention is read: with or without padding, in which space, and how exactly it keeps the output.

Three choices, which every caller hands on together:

- ``protocol``: ``exact`` removes hidden keys before the split; ``padded`` is the one published by Sun & Marasovic
  (2021), with padding inside the null space.
- ``space``: ``value`` projects each row on the column space of V, as the papers do; ``affine`` on that of ``[V, 1]``.
  Both keep the output. The second also keeps what a row sums to, so that effective weights are shares again: the vector
  1 lies in the space that is projected on.
- ``epsilon``: 0 keeps the output; above 0 a row is the smallest one whose output differs by at most that share
  (``smallest_rows``). Where no more tokens are seen than a head is wide, nothing is free and the exact reading is
  attention itself; this one is not blind there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Protocol = Literal["exact", "padded"]
Space = Literal["value", "affine"]


@dataclass(frozen=True)
class Reading:
    """How effective attention is read; see the module's docstring.

    >>> Reading("exact", "affine", 0.01).name
    'affine within 0.01'
    """

    protocol: Protocol = "exact"
    space: Space = "value"
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no reading.

        Raises:
            ValueError: Names the option.
        """
        for name, choices in (("protocol", get_args(Protocol)), ("space", get_args(Space))):
            got = getattr(self, name)
            if got not in choices:
                said = "reading" if name == "protocol" else name
                raise ValueError(f"{said} must be one of {choices}, got {got!r}")
        if isinstance(self.epsilon, bool) or not isinstance(self.epsilon, int | float) or not 0 <= self.epsilon < 1:
            raise ValueError(f"epsilon must be at least 0 and below 1, got {self.epsilon!r}")
        if self.pads and (self.space != "value" or self.epsilon > 0):
            raise ValueError("reading='padded' is the published protocol, which knows space='value' and epsilon=0 only")

    @property
    def pads(self) -> bool:
        """Tell whether texts are padded to the maximum length, because padding is part of the reading."""
        return self.protocol == "padded"

    @property
    def name(self) -> str:
        """Return the name by which tables call it: that of the protocol, or what differs from the exact reading."""
        name = "affine" if self.space == "affine" else self.protocol
        return name if self.epsilon == 0 else f"{name} within {self.epsilon:g}"


EXACT = Reading()
AFFINE = Reading(space="affine")


def as_reading(reading: Reading | Protocol) -> Reading:
    """Return a reading, which may be given by the name of its protocol."""
    return reading if isinstance(reading, Reading) else Reading(reading)


def with_ones(
    value: Float[Tensor, "batch shared key d_head"],
    seen: Bool[Tensor, "batch heads key"] | None = None,
    *,
    scale: Tensor | float | None = None,
) -> Float[Tensor, "batch shared key d_head_and_one"]:
    """Return ``[V, 1]``, the column of ones scaled to the typical size of a number in V, so that neither drowns.

    Args:
        value: V.
        seen: Keys that count for the scale, the same for all heads or one row each; None: all.
        scale: Of the column; None: found from the values.
    """
    if scale is None:
        scale = _typical_size(value.detach(), seen)
    ones = torch.ones_like(value[..., :1]) * scale
    return torch.cat([value, ones], dim=-1)


def _typical_size(value: Tensor, seen: Tensor | None) -> Tensor:
    """Return the root of the mean square of V's numbers, (batch, shared, 1, 1); 1 where all are 0."""
    squares = value.double().square().mean(dim=-1)  # (batch, shared, key)
    if seen is None:
        mean = squares.mean(dim=-1)
    else:
        mean = torch.where(seen, squares, 0).sum(dim=-1) / seen.sum(dim=-1).clamp_min(1)
    size = torch.where(mean > 0, mean.sqrt(), 1.0)
    return size[..., None, None].to(value.dtype)
