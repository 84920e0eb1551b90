"""From what a head hands on and its values to effective attention as two thin factors."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.column_space import column_space
from effective_attention.attention.decomposition import default_rtol, for_each_head
from effective_attention.attention.factors import Factors
from effective_attention.attention.inputs import check_output, only_seen
from effective_attention.attention.interval_split import solve
from effective_attention.attention.intervals import Intervals, causal_intervals
from effective_attention.attention.precision import without_autocast
from effective_attention.kernels.solution import Solution


@torch.no_grad()
def factorise(
    output: Float[Tensor, "batch head query d_head"],
    value: Float[Tensor, "batch shared key d_head"],
    mask: Tensor | None = None,
    *,
    causal: bool = False,
) -> Factors:
    """Return effective attention as two thin factors, from a head's output ``A V`` and its values alone.

    No attention matrix is needed, so it works with any kernel that returns outputs, and on lengths at which a matrix of
    queries by keys does not fit the memory. The naive equivalent is ``output @ pinv(value)``.

    Args:
        output: What each head hands on, of any floating type; its rounding is what limits the result, see
            ``Factors.error``.
        value: The values; under grouped queries one set for each group of heads.
        mask: Which keys are seen, (batch, key): bool, or numbers 0 and 1. None: all.
        causal: Whether a query sees no key behind itself; the last query stands at the last key.

    Returns:
        Factors: ``dense()``, ``rows(queries)``, ``columns(keys)``, ``row_sums()``, ``column_means()``, ``top(count)``,
        ``entry(query, key)``, ``blocks()``, ``error``.

    Raises:
        ValueError: Shapes do not fit; ``NotFiniteError`` where a number is NaN or infinite.

    Example:
        >>> import torch
        >>> attention, value = torch.full((1, 1, 3, 3), 1 / 3), torch.randn(1, 1, 3, 2)
        >>> factors = factorise(attention @ value, value)
        >>> factors.shape, factors.rows(0).shape
        ((1, 1, 3, 3), torch.Size([1, 1, 1, 3]))
    """
    check_output(output, value)
    output = output.detach()
    value = value.detach()
    seen = _seen(mask, value)
    value = only_seen(value, seen[:, None, :, None], "value")
    output = only_seen(output, None, "output")
    if not causal:
        return _by_keys(output, value, seen[:, None])
    if output.shape[2] > value.shape[2]:
        raise ValueError(f"causal attention has no more queries than keys, got {output.shape[2]} and {value.shape[2]}")
    intervals = causal_intervals(seen[:, None], output.shape[2])
    solution = solve_shared(output.double(), value, intervals)
    factors = from_solution(output, value, intervals, solution)
    return _with_doubtful_rows(factors, output, value, solution)


def _by_keys(output: Tensor, value: Tensor, seen: Tensor) -> Factors:
    """Factorise where all queries see the same keys, (batch, 1 or shared, key)."""
    batch, heads, queries, width = output.shape
    shared, keys = value.shape[1:3]
    with without_autocast(value.device):
        own = seen.expand(batch, shared, keys).flatten(0, 1)
        values = value.flatten(0, 1)  # (problem, key, d_head)
        space = column_space(values, own, default_rtol(value.dtype), whitener=True, products=True)
        wide = torch.promote_types(output.dtype, space.basis.dtype)
        folded = output.reshape(batch * shared, -1, width).to(wide)  # (problem, group * query, d_head)
        left = folded @ space.whitener.to(wide)
        back = left @ space.products.to(wide)
    largest = torch.linalg.vector_norm(output, dim=-1).amax(dim=-1)  # (batch, head)
    size = torch.linalg.matrix_norm(space.whitener).view(batch, shared).repeat_interleave(heads // shared, dim=1)
    return Factors(
        left.view(batch, heads, queries, width),
        space.basis.to(wide).view(batch, shared, keys, width),
        back.view(batch, heads, queries, width).to(output.dtype),
        (torch.finfo(output.dtype).eps * largest * size.to(largest.dtype))[..., None],
        space.rank.view(batch, shared).repeat_interleave(heads // shared, dim=1),
    )


def solve_shared(output: Tensor, value: Tensor, intervals: Intervals, **options: Any) -> Solution:
    """Find the coefficients of every query; heads that share values are solved together. For options see ``solve``."""
    with without_autocast(value.device):
        grouped = torch.unflatten(output, 1, (value.shape[1], -1))
        return solve(grouped, value, intervals, default_rtol(value.dtype), **options)


def rows_of(
    solution: Solution, weights: Tensor, value: Tensor, visible: Tensor, queries: slice | Tensor = slice(None)
) -> Tensor:
    """Return the effective part of weights, (batch, head, row, key): all of a row whose query sees independent keys.

    ``queries`` are the places of the rows in the solution.
    """
    rank = solution.rank.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)[:, :, queries]
    free = rank == visible.sum(dim=-1)  # (batch, head, row)
    others = (~free).flatten(0, 1).any(dim=0).nonzero()[:, 0]  # rows that are not free in some head
    if len(others) == 0:
        return weights
    places = torch.arange(solution.rank.shape[-1], device=others.device)[queries][others]
    coefficients = solution.coefficients.flatten(1, 2)[:, :, places]
    with without_autocast(value.device):
        found = coefficients @ for_each_head(value.double(), weights.shape[1]).mT
    found = (found * visible.expand(-1, -1, weights.shape[2], -1)[:, :, others]).to(weights.dtype)
    return weights.index_copy(2, others, torch.where(free[:, :, others, None], weights[:, :, others], found))


def from_solution(output: Tensor, value: Tensor, intervals: Intervals, solution: Solution) -> Factors:
    """Put coefficients together as factors."""
    groups = output.shape[1] // value.shape[1]
    left = solution.coefficients.flatten(1, 2)
    total = _squared_sizes(value, intervals)  # tr G, (batch, shared, query)
    amplified = (solution.bound / total.sqrt()).repeat_interleave(groups, dim=1)  # ||V^+||_F, at most
    error = torch.finfo(output.dtype).eps * torch.linalg.vector_norm(output, dim=-1) * amplified
    return Factors(
        left,
        value,
        solution.output.flatten(1, 2).to(output.dtype),
        error.nan_to_num(0.0, posinf=torch.inf),  # a query without keys has no error
        solution.rank.amax(dim=-1).repeat_interleave(groups, dim=1),
        intervals,
    )


def _squared_sizes(value: Tensor, intervals: Intervals) -> Tensor:
    """Return the sum of squares of the values that each query sees, (batch, shared, query)."""
    wide = torch.promote_types(value.dtype, torch.float32)  # float64 takes longer, and gains nothing here
    size = torch.linalg.vector_norm(value, dim=-1, dtype=wide).double().square()
    size = torch.where(intervals.seen, size, 0)
    up_to = torch.nn.functional.pad(size.cumsum(dim=-1), (1, 0))
    places = (part.expand(*size.shape[:2], -1) for part in (intervals.stop, intervals.start))
    stop, start = (up_to.gather(-1, place) for place in places)
    return stop - start


def _with_doubtful_rows(factors: Factors, output: Tensor, value: Tensor, solution: Solution) -> Factors:
    """Solve by SVD, query by query, where the recursion could prove nothing."""
    assert factors.intervals is not None
    groups = output.shape[1] // value.shape[1]
    eps = torch.finfo(output.dtype).eps
    for batch, shared, query in (~solution.bound.isfinite()).nonzero().tolist():
        own = factors.intervals.visible(slice(query, query + 1))[batch, 0]
        exact = value[batch, shared].double()
        whitener = column_space(exact[None], own, default_rtol(value.dtype), whitener=True).whitener[0]
        heads = slice(shared * groups, (shared + 1) * groups)
        answer = output[batch, heads, query].double()  # (group, d_head)
        coefficients = answer @ whitener @ whitener.mT
        gram = exact[own[0]].mT @ exact[own[0]]
        factors.left[batch, heads, query] = coefficients
        factors.output[batch, heads, query] = (coefficients @ gram).to(output.dtype)
        size = torch.linalg.vector_norm(answer, dim=-1) * torch.linalg.matrix_norm(whitener)
        factors.error[batch, heads, query] = (eps * size).to(factors.error.dtype)
    return factors


def _seen(mask: Tensor | None, value: Tensor) -> Tensor:
    """Return which keys are seen, (batch, key)."""
    shape = (value.shape[0], value.shape[2])
    if mask is None:
        return torch.ones(shape, dtype=torch.bool, device=value.device)
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask must be a tensor, got {type(mask).__name__}")
    if mask.shape != shape:
        raise ValueError(f"mask must have shape (batch, key) = {shape}, got {tuple(mask.shape)}")
    if mask.dtype != torch.bool and not ((mask == 0) | (mask == 1)).all():
        raise ValueError("mask must be bool or hold 0 and 1 only; turn an additive mask into one with `mask == 0`")
    return mask.to(device=value.device, dtype=torch.bool)
