"""Effective attention of one new token after the other: what a model does that writes text, with its values cached.

The new token's row needs ``(V^T V)^-1`` of all keys so far. That inverse is the state of a stream, d_head x d_head for
each set of values: a new key changes it in d_head^2 steps, however long the text has become. A cache that drops old
keys (a sliding window) takes them out again; one that stays as it is (cross-attention to a text that was read) leaves
the state alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from effective_attention.attention.decomposition import for_each_head
from effective_attention.attention.factorise import rows_of, solve_shared
from effective_attention.attention.intervals import Intervals
from effective_attention.attention.plain import Plain
from effective_attention.attention.precision import without_autocast
from effective_attention.kernels.solution import State


@dataclass(eq=False)
class Stream:
    """One layer's stream; ``beginnings`` counts how often the cache was neither the last one nor that, a key later.

    Attributes:
        state: What the kernel keeps.
        value: The values of the last call, (batch, shared, key, d_head).
        seen: Which of their keys are seen, (batch, 1, key).
        beginnings: How often all keys had to be taken in.
    """

    state: State | None = None
    value: Tensor | None = None
    seen: Tensor | None = None
    beginnings: int = 0

    @torch.no_grad()
    def row(self, call: Plain) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return effective attention of the new token, (batch, head, 1, key), the output, and the rank (batch, head).

        None where too little can be proved.
        """
        value, seen, first = self._continue(call)
        weights = call.weights()
        batch, heads, _, keys = weights.shape
        with without_autocast(value.device):
            output = weights.double() @ for_each_head(call.value, heads).double()  # (batch, head, 1, d_head)
        start = torch.full((batch, 1, 1), first, device=value.device)
        intervals = Intervals(seen, start, start + keys, torch.ones_like(start, dtype=torch.bool))
        found = solve_shared(output, value, intervals, state=self.state)
        if not bool(found.bound.isfinite().all()):
            return None
        effective = rows_of(found, weights, call.value, call.seen[:, :, None])
        rank = found.rank[..., 0].repeat_interleave(heads // value.shape[1], dim=1)
        return effective, found.output.flatten(1, 2).to(call.value.dtype), rank

    def _continue(self, call: Plain) -> tuple[Tensor, Tensor, int]:
        """Make the state fit the cache.

        Returns:
            Values and which keys are seen, as the state numbers them; the number of the first that is still there.
        """
        before, seen = self.value, self.seen
        self.value = call.value.clone()  # a cache may be written over
        self.seen = call.seen
        if before is not None and seen is not None and self.state is not None:
            self.state.places[:, 0] = 0  # the keys of ``before``, counted from its first
            self.state.places[:, 1] = before.shape[2]
            if torch.equal(before, call.value) and torch.equal(seen, call.seen):  # cross-attention's keys do not grow
                return call.value, call.seen, 0
            if _goes_on(before, call.value) and _goes_on(seen[..., None], call.seen[..., None]):
                return call.value, call.seen, 0
            if _goes_on(before[:, :, 1:], call.value) and _goes_on(seen[:, :, 1:, None], call.seen[..., None]):
                value = torch.cat([before[:, :, :1], call.value], dim=2)
                return value, torch.cat([seen[..., :1], call.seen], dim=-1), 1
        self.beginnings += 1
        self.state = State.empty(call.value.shape[0] * call.value.shape[1], call.value.shape[3])
        return call.value, call.seen, 0


def _goes_on(before: Tensor, now: Tensor) -> bool:
    """Tell whether ``now`` is ``before`` and one key more: not where a search has put other texts into the cache."""
    return (
        now.shape[:2] == before.shape[:2]
        and now.shape[2] == before.shape[2] + 1
        and torch.equal(now[:, :, :-1], before)
    )
