"""Effective attention of a layer by a fast kernel: as factors, without the matrix of queries by keys.

PyTorch's ``scaled_dot_product_attention`` multiplies attention with whatever columns it is given, in a third of the
time of softmax and product.

- All queries see the same keys: it is given an orthonormal basis ``B`` of the values' column space in place of the
  values. ``A_effective = (A B) B^T``, however ill-conditioned the values are: nothing is divided by anything.
- Each query sees keys of its own: it is given the values, and ``O = A V`` is what coefficients are solved from. What
  ``O``'s rounding would spoil there, because the values are ill-conditioned, is computed from the attention weights of
  those queries alone: ``softmax(Q K^T)``, as the kernel computes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from effective_attention.attention.column_space import column_space, has_full_row_rank
from effective_attention.attention.decomposition import default_rtol, for_each_head
from effective_attention.attention.factorise import from_solution, rows_of, solve_shared
from effective_attention.attention.factors import Factors, WholeRows
from effective_attention.attention.intervals import Intervals
from effective_attention.attention.plain import Plain
from effective_attention.attention.precision import without_autocast
from effective_attention.attention.projection import by_query_mask

LARGEST_ERROR = 5e-6  # what was seen is 0.15 of it at most
"""How far an entry may be off, by ``Factors.error``, before it is computed from attention weights instead."""
_LONG = 2
"""Times d_head keys: with fewer, the kernel saves less than it costs (benchmarks/lengths.py bert --lengths 96)."""
_FEW = 1.25  # times d_head keys: a query that sees no more has values too ill-conditioned to go by its output


def is_worth_it(call: Plain) -> bool:
    """Tell whether the kernel is the better way: not where most queries see few keys, and need their weights anyway."""
    if call.intervals is None:
        return call.key.shape[2] >= _LONG * call.value.shape[-1]
    return bool(call.intervals.regular.all()) and 2 * int(_few(call, call.intervals).sum()) <= call.query.shape[2]


@torch.no_grad()
def factors_of(call: Plain, output: Tensor | None = None) -> Factors | None:
    """Return effective attention of a call as factors; None where too little can be proved from the output.

    Args:
        call: What the layer was asked.
        output: What the kernel answered, (batch, head, query, d_head), where it has been asked; read only where each
            query sees keys of its own.
    """
    if call.intervals is None:
        return _by_keys(call)
    return _by_intervals(call, call.intervals, call.output() if output is None else output)


# --- all queries see the same keys ---


def _by_keys(call: Plain) -> Factors:
    """Return left = A B and right = B, an orthonormal basis of the column space; hand on ``A B (B^T V)``.

    ``B^T V`` is made of the Gram matrix ``V^T V``, not of what B was rounded to or of the kernel's output.
    """
    batch, shared, keys, width = call.value.shape
    heads, queries = call.query.shape[1:3]
    seen = call.seen.expand(batch, shared, keys).flatten(0, 1)
    basis, products, rank = _basis(call.value.flatten(0, 1), seen)  # (problem, ...)
    left, right, products = call.times_basis(basis.view(batch, shared, keys, width), products)
    with without_autocast(call.value.device):
        back = left.reshape(len(products), -1, width) @ products  # (problem, group * query, d_head)
    return Factors(
        left,
        right,
        back.view(batch, heads, queries, width),
        torch.full((batch, heads, 1), torch.finfo(left.dtype).eps, device=left.device),
        rank.view(batch, shared).repeat_interleave(heads // shared, dim=1),
    )


def _basis(value: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return an orthonormal basis of the column space, (problem, key, d_head), its products with V, and the rank.

    Where all keys that are seen are independent it is the keys themselves: then effective attention is attention, bit
    for bit.
    """
    rtol = default_rtol(value.dtype)
    width, counts = value.shape[-1], seen.sum(dim=-1)
    few = counts <= width
    if not bool(few.any()):
        space = column_space(value, seen, rtol, products=True)
        return space.basis, space.products, space.rank
    free = few & has_full_row_rank(value, seen, rtol)
    basis, rank = value.new_zeros(value.shape), counts.clone()
    products = value.new_zeros(len(value), width, width)
    if not bool(free.all()):
        space = column_space(value[~free], seen[~free], rtol, products=True)
        basis[~free], products[~free], rank[~free] = space.basis, space.products, space.rank
        free = few & (rank == counts)  # an SVD may know what could not be proved before
    places = (seen[free].long().cumsum(dim=-1) - 1).clamp(0, width - 1)
    basis[free] = one_hot(places, width).to(basis.dtype) * seen[free][..., None]
    products[free] = basis[free].mT @ torch.where(seen[free][..., None], value[free], 0)
    return basis, products, rank


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
    left = factors.left.to(dtype)
    sizes = torch.linalg.vector_norm(left, dim=-1) * largest.repeat_interleave(groups, dim=1)[..., None]
    return replace(factors, left=left, error=factors.error + torch.finfo(dtype).eps / 2 * sizes)


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
