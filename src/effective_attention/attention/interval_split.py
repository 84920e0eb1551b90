"""Effective attention where queries see different keys: causal attention, sliding windows.

Query ``q`` sees the values ``V_q``. Its row of effective attention is ``w V_q^T`` with ``w (V_q^T V_q) = a V_q``, so
one vector of d_head numbers, its *coefficients*, says it all (``kernels.choice.solve_along`` finds them for all).
The naive equivalent is ``a @ V_q @ pinv(V_q)``, query by query.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from effective_attention.attention.intervals import Intervals
from effective_attention.kernels import choice
from effective_attention.kernels.solution import Solution, State

SMALLEST_RTOL = 3e-7
"""The smallest tolerance for which what the recursion takes for zero counts as zero."""
_ROWS = 256  # queries that are worked on at once, in float64


def solve(
    output: Float[Tensor, "batch shared group query d_head"],
    value: Float[Tensor, "batch shared key d_head"],
    intervals: Intervals,
    rtol: float,
    *,
    state: State | None = None,
    skip_independent: bool = False,
) -> Solution:
    """Find the coefficients of every query.

    Args:
        output: What each query's head hands on, ``a V``.
        value: One set of values for each group of query heads.
        intervals: The keys each query sees, the same for all heads of a group.
        rtol: Up to ``rtol`` times the largest, singular values count as zero; below ``SMALLEST_RTOL`` nothing is sure.
        state: See ``choice.solve_along``.
        skip_independent: See there too.

    Returns:
        Coefficients and output (batch, shared, group, query, d_head), bound and rank (batch, shared, query).
    """
    batch, shared, group, queries, width = output.shape

    def flat(part: Tensor) -> Tensor:
        return part.expand(batch, shared, -1).flatten(0, 1)  # (problem, query or key)

    places = flat(intervals.start), flat(intervals.stop)
    order = _order(*places, value.shape[2])
    outputs = _double(output).flatten(0, 1)
    if order is not None:
        places = places[0].gather(1, order), places[1].gather(1, order)
        outputs = _in_order(outputs, order)
    options: dict[str, Any] = {"state": state, "skip_independent": skip_independent}
    found = choice.solve_along(_double(value).flatten(0, 1), flat(intervals.seen), *places, outputs, **options)
    if order is not None:
        found = _unsorted(found, order)
    certain = found.bound * rtol < 1  # then nothing that was kept counts as zero
    if rtol < SMALLEST_RTOL:
        certain = torch.zeros_like(certain)
    return Solution(
        found.coefficients.view(batch, shared, group, queries, width),
        found.output.view(batch, shared, group, queries, width),
        torch.where(certain, found.bound, torch.inf).view(batch, shared, queries),
        torch.where(certain, found.rank, -1).view(batch, shared, queries),
    )


def _double(part: Tensor) -> Tensor:
    """Return numbers in float64, one behind the other: a kernel's are most often not, and would be copied twice."""
    return part.detach().to(torch.float64, memory_format=torch.contiguous_format)


def _order(start: Tensor, stop: Tensor, keys: int) -> Int[Tensor, "problem query"] | None:
    """Return the order in which as few keys as possible are taken away; None where that is the one they are in.

    Intervals move forward; those that end at the last key, where a window runs out, come last and grow backwards.
    """
    places = torch.where(stop < keys, start * (keys + 1) + stop, (2 * keys + 1) * (keys + 1) - start)
    return None if bool((places[:, 1:] >= places[:, :-1]).all()) else places.argsort(dim=1, stable=True)


def _unsorted(found: Solution, order: Tensor) -> Solution:
    back = order.argsort(dim=1)
    return Solution(
        _in_order(found.coefficients, back),
        _in_order(found.output, back),
        found.bound.gather(1, back),
        found.rank.gather(1, back),
    )


def _in_order(rows: Tensor, order: Tensor) -> Tensor:
    """Put the queries of (problem, group, query, d_head) in an order (problem, query)."""
    if bool((order == order[0]).all()):  # most often; some times faster
        return rows[:, :, order[0]]
    return rows.gather(2, order[:, None, :, None].expand_as(rows))


class IntervalSplit(torch.autograd.Function):
    """From attention and values to effective attention; its derivative is in closed form.

    With ``g`` the gradient of a row ``a``, ``w_a`` and ``w_g`` their coefficients, and ``null`` what is left of each
    beside its effective part: the gradient of ``a`` is the effective part of ``g``, as a projection is its own
    transpose, and that of the values is ``null(g)^T w_a + null(a)^T w_g``, summed over queries.
    """

    @staticmethod
    def forward(ctx: Any, attention: Tensor, value: Tensor, intervals: Intervals, rtol: float) -> tuple[Tensor, Tensor]:
        """Split (batch, shared, group, query, key) by (batch, shared, key, d_head).

        Returns:
            The effective part; rows that are not solved are left as they are. The rank, (batch, shared, query), which
            is -1 for those.
        """
        effective, found = _split_rows(attention, value, intervals, rtol)
        ctx.save_for_backward(attention, value, found.coefficients, found.rank)
        ctx.intervals = intervals
        ctx.rtol = rtol
        ctx.mark_non_differentiable(found.rank)
        return effective, found.rank

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _rank: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        """Return the gradients of attention and values."""
        attention, value, coefficients, rank = ctx.saved_tensors
        intervals = ctx.intervals
        gradient = gradient * intervals.visible()[:, :, None]
        effective, found = _split_rows(gradient, value, intervals, ctx.rtol)
        own, _ = _split_rows(attention, value, intervals, ctx.rtol)
        solved = (rank >= 0)[:, :, None, :, None]
        change = torch.where(solved, (gradient - effective).double(), 0).mT @ coefficients
        change = change + torch.where(solved, (attention - own).double(), 0).mT @ found.coefficients
        return effective, change.sum(dim=2).to(value.dtype), None, None


def _split_rows(attention: Tensor, value: Tensor, intervals: Intervals, rtol: float) -> tuple[Tensor, Solution]:
    """Return the effective part and what was found on the way; blocks of queries, so that little is in float64."""
    precise = value.double()[:, :, None]
    queries = attention.shape[3]
    output = torch.cat([attention[:, :, :, rows].double() @ precise for rows in _blocks(queries)], dim=3)
    found = solve(output, value, intervals, rtol, skip_independent=True)
    free = (found.rank == intervals.counts) | (found.rank < 0)  # all keys independent: then A is all effective
    effective = torch.empty_like(attention)
    for rows in _blocks(queries):
        part = (found.coefficients[:, :, :, rows] @ precise.mT).to(attention.dtype)
        effective[:, :, :, rows] = part.mul_(intervals.visible(rows)[:, :, None])
    if bool(free.any()):
        effective = torch.where(free[:, :, None, :, None], attention, effective)
    return effective, found


def _blocks(queries: int) -> list[slice]:
    return [slice(first, first + _ROWS) for first in range(0, queries, _ROWS)]
