"""Effective attention of a layer by a fast kernel: its output and its values give the factors, without the matrix.

PyTorch's ``scaled_dot_product_attention`` returns ``O = A V`` in a third of the time of softmax and product, without a
matrix of queries by keys. What ``O``'s rounding would spoil, because the values are ill-conditioned, is computed from
the attention weights of those heads, or of those queries, alone: ``softmax(Q K^T)``, as the kernel computes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from effective_attention.attention.column_space import column_space, has_full_row_rank
from effective_attention.attention.decomposition import default_rtol, for_each_head
from effective_attention.attention.factorise import by_keys, from_solution, rows_of, solve_shared
from effective_attention.attention.factors import Factors, WholeRows
from effective_attention.attention.intervals import Intervals
from effective_attention.attention.plain import Plain
from effective_attention.attention.precision import without_autocast
from effective_attention.attention.projection import by_query_mask

LARGEST_ERROR = 5e-6  # what was seen is 0.15 of it at most
"""How far an entry may be off, by ``Factors.error``, before it is computed from attention weights instead."""
_LONG = (
    2  # times d_head keys: with fewer, the kernel saves less than it costs (benchmarks/lengths.py bert --lengths 96)
)
_FEW = 1.25  # times d_head keys: a query that sees no more has values too ill-conditioned to go by its output


def is_worth_it(call: Plain) -> bool:
    """Tell whether the kernel is the better way: not where most queries see few keys, and need their weights anyway."""
    if call.intervals is None:
        return call.key.shape[2] >= _LONG * call.value.shape[-1]
    return bool(call.intervals.regular.all()) and 2 * int(_few(call, call.intervals).sum()) <= call.query.shape[2]


@torch.no_grad()
def factors_of(call: Plain, output: Tensor) -> Factors | None:
    """Return effective attention of a call as factors; None where too little can be proved from the output.

    Args:
        call: What the layer was asked.
        output: What the kernel answered, (batch, head, query, d_head).
    """
    if call.intervals is None:
        return _by_keys(call, output)
    return _by_intervals(call, call.intervals, output)


# --- all queries see the same keys ---


def _by_keys(call: Plain, output: Tensor) -> Factors:
    factors = by_keys(output, call.value, call.seen)
    doubtful = ~(factors.error[..., 0] <= LARGEST_ERROR)  # (batch, head)
    doubtful = torch.unflatten(doubtful, 1, (call.value.shape[1], -1)).any(dim=-1)
    if bool(doubtful.any()):
        _replace(factors, call, doubtful)
    return factors


def _replace(factors: Factors, call: Plain, doubtful: Tensor) -> None:
    """Compute the factors of some heads (batch, shared) from their attention weights: left = A Q, right = Q."""
    batch, shared = doubtful.nonzero(as_tuple=True)
    groups = call.query.shape[1] // call.value.shape[1]
    heads = shared[:, None] * groups + torch.arange(groups, device=shared.device)  # (problem, group)
    mask = call.mask
    if mask is not None:
        mask = mask.expand(len(call.query), -1, -1, -1)[batch]
        mask = mask if mask.shape[1] == 1 else mask[torch.arange(len(batch))[:, None], heads]
    part = replace(
        call,
        query=call.query[batch[:, None], heads],
        key=call.key[batch, shared][:, None],
        value=call.value[batch, shared][:, None],
        mask=mask,
    )
    weights = part.weights()  # (problem, group, query, key)
    value = part.value[:, 0]
    seen = call.seen.expand(-1, call.value.shape[1], -1)[batch, shared]
    basis, rank = _basis(value, seen)
    with without_autocast(value.device):
        left = weights.flatten(1, 2).to(basis.dtype) @ basis
        back = left @ (basis.mT @ torch.where(seen[..., None], value, 0).to(basis.dtype))
    shape = (len(batch), groups, call.query.shape[2], value.shape[-1])
    factors.left[batch[:, None], heads] = left.view(shape).to(factors.left.dtype)
    factors.right[batch, shared] = basis.to(factors.right.dtype)
    factors.output[batch[:, None], heads] = back.view(shape).to(factors.output.dtype)
    factors.error[batch[:, None], heads] = torch.finfo(weights.dtype).eps
    factors.rank[batch[:, None], heads] = rank[:, None]


def _basis(value: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Return an orthonormal basis of the column space, (problem, key, d_head), and the rank.

    Where all keys that are seen are independent it is the keys themselves: then effective attention is attention, bit
    for bit.
    """
    rtol = default_rtol(value.dtype)
    basis, _, rank = column_space(value, seen, rtol)
    free = has_full_row_rank(value, seen, rtol) | (rank == seen.sum(dim=-1))
    if bool(free.any()):
        place = seen.long().cumsum(dim=-1) - 1
        keys = torch.nn.functional.one_hot(place.clamp(0, value.shape[-1] - 1), value.shape[-1]).to(basis.dtype)
        basis = torch.where(free[:, None, None], keys * seen[..., None], basis)
        rank = torch.where(free, seen.sum(dim=-1), rank)
    return basis, rank


# --- each query sees keys of its own ---


def _few(call: Plain, intervals: Intervals) -> Tensor:
    """Return which queries see few keys in some example, (query,)."""
    return (intervals.counts <= _FEW * call.value.shape[-1]).flatten(0, 1).any(dim=0)


def _by_intervals(call: Plain, intervals: Intervals, output: Tensor) -> Factors | None:
    few = _few(call, intervals)
    rows = _Rows.of(call, intervals, few)
    answers = output.to(torch.float64, memory_format=torch.contiguous_format)
    answers[:, :, rows.queries] = rows.output
    solution = solve_shared(answers, call.value, intervals, skip_independent=True)  # few keys: weights are known
    factors = _rounded(from_solution(output, call.value, intervals, solution), output.dtype)
    unsure = ~(factors.error <= LARGEST_ERROR)  # (batch, head, query)
    unsure[:, :, rows.queries] = ~solution.bound.isfinite().repeat_interleave(rows.groups, dim=1)[:, :, rows.queries]
    more = unsure.flatten(0, 1).any(dim=0)
    if 2 * int((more | few).sum()) > len(few):
        return None
    kept = [_put(factors, rows, rows_of(solution, rows.weights, rows.value, rows.visible, rows.queries))]
    if bool(more.any()):
        rows = _Rows.of(call, intervals, more)
        effective, _ = by_query_mask(rows.weights, rows.value, rows.visible, default_rtol(rows.value.dtype))
        kept.append(_put(factors, rows, effective))
    return replace(factors, rows_kept=tuple(kept))


def _rounded(factors: Factors, dtype: torch.dtype) -> Factors:
    """Round the coefficients, and add to the error what that may cost."""
    largest = torch.linalg.vector_norm(factors.right, dim=-1).amax(dim=-1)  # (batch, shared)
    groups = factors.left.shape[1] // factors.right.shape[1]
    sizes = torch.linalg.vector_norm(factors.left, dim=-1) * largest.repeat_interleave(groups, dim=1)[..., None]
    return replace(factors, left=factors.left.to(dtype), error=factors.error + torch.finfo(dtype).eps / 2 * sizes)


def _put(factors: Factors, rows: _Rows, effective: Tensor) -> WholeRows:
    """Let factors hand on what these rows do."""
    with without_autocast(effective.device):
        back = effective @ for_each_head(rows.value, effective.shape[1])
    factors.output[:, :, rows.queries] = back.to(factors.output.dtype)
    factors.error[:, :, rows.queries] = torch.finfo(effective.dtype).eps
    return WholeRows(rows.queries, effective)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some queries with their attention weights.

    Attributes:
        queries: Which.
        weights: (batch, head, row, key), up to the last key that one of them sees.
        value: The values of those keys, (batch, shared, key, d_head).
        visible: What they see, (batch, 1, row, key).
    """

    queries: Tensor
    weights: Tensor
    value: Tensor
    visible: Tensor

    @classmethod
    def of(cls, call: Plain, intervals: Intervals, chosen: Tensor) -> _Rows:
        """Compute the weights of the chosen queries, (query,)."""
        queries = chosen.nonzero()[:, 0]
        keys = int(intervals.stop[..., queries].max()) if len(queries) > 0 else 1
        mask = call.mask if call.mask is None or call.mask.shape[2] == 1 else call.mask[:, :, queries]
        some = slice(0, keys)
        weights = replace(call, query=call.query[:, :, queries], mask=mask).weights(some)
        return cls(queries, weights, call.value[:, :, some], intervals.visible(queries, some))

    @property
    def groups(self) -> int:
        """Return how many heads share a set of values."""
        return self.weights.shape[1] // self.value.shape[1]

    @property
    def output(self) -> Tensor:
        """Return what the queries hand on, in float64."""
        batch, heads, rows, keys = self.weights.shape
        folded = self.weights.double().reshape(batch, heads // self.groups, self.groups * rows, keys)
        return (folded @ self.value.double()).view(batch, heads, rows, self.value.shape[-1])
