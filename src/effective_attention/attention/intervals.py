"""Which keys each query sees, as intervals: causal attention, sliding windows, padding on either side.

A mask of queries by keys says more than most models use. Of the keys that anybody sees, a causal query sees those up to
itself, a window those around itself: an interval. Where that holds, effective attention of all queries follows one
recursion (``kernels.choice.solve_along``) instead of one factorisation each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Intervals:
    """The keys each query sees.

    Attributes:
        seen: Keys that some query sees, (batch, 1 or head, key).
        start: First key of each query, (batch, 1 or head, query).
        stop: One behind its last key, likewise.
        regular: Whether the query sees every key between the two that is seen at all; likewise.
    """

    seen: Bool[Tensor, "batch heads key"]
    start: Int[Tensor, "batch heads query"]
    stop: Int[Tensor, "batch heads query"]
    regular: Bool[Tensor, "batch heads query"]

    @cached_property
    def counts(self) -> Int[Tensor, "batch heads query"]:
        """Return how many keys each query sees, between its first and its last."""
        up_to = torch.nn.functional.pad(self.seen.long().cumsum(dim=-1), (1, 0))
        return up_to.gather(-1, self.stop) - up_to.gather(-1, self.start)

    def visible(
        self, queries: slice | Tensor = slice(None), keys: slice | Tensor = slice(None)
    ) -> Bool[Tensor, "batch heads some_queries some_keys"]:
        """Return the mask again, or that of some queries and some keys."""
        place = torch.arange(self.seen.shape[-1], device=self.seen.device)[keys]
        start, stop = self.start[..., queries, None], self.stop[..., queries, None]
        return (place >= start) & (place < stop) & self.seen[..., None, keys]

    @cached_property
    def is_causal(self) -> bool:
        """Tell whether every query sees itself and all keys before it, and nothing is hidden."""
        keys = self.seen.shape[-1]
        if self.stop.shape[-1] != keys or not bool(self.seen.all()) or bool(self.start.any()):
            return False
        return bool((self.stop == torch.arange(1, keys + 1, device=self.stop.device)).all())

    def hide_(self, weights: Tensor, queries: slice | Tensor) -> None:
        """Set what some queries do not see to 0, in place, (batch, head, query, key)."""
        if self.is_causal and isinstance(queries, slice):
            weights.tril_(queries.indices(self.stop.shape[-1])[0])
        else:
            weights.mul_(self.visible(queries))


def intervals_of(visible: Bool[Tensor, "batch heads query key"]) -> Intervals:
    """Read intervals off a mask; every query sees some key."""
    seen = visible.any(dim=-2)
    numbers = visible.to(torch.uint8)  # argmax takes no bool
    start = numbers.argmax(dim=-1)
    stop = visible.shape[-1] - numbers.flip(-1).argmax(dim=-1)
    found = Intervals(seen, start, stop, torch.ones_like(start, dtype=torch.bool))
    return Intervals(seen, start, stop, found.counts == visible.sum(dim=-1))


def causal_intervals(seen: Bool[Tensor, "batch heads key"], queries: int) -> Intervals:
    """Return the intervals of queries that see themselves and what stands before: the last query sees the last key.

    A query with nothing but hidden keys before it sees none.
    """
    keys = seen.shape[-1]
    stop = torch.arange(keys - queries + 1, keys + 1, device=seen.device).expand(*seen.shape[:-1], -1)
    first = seen.to(torch.uint8).argmax(dim=-1, keepdim=True)
    return Intervals(seen, torch.minimum(first, stop), stop, torch.ones_like(stop, dtype=torch.bool))
