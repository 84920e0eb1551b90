"""Decide which loops run: the compiled ones, or the plain references beside them.

The rest of the package calls only what is here. The compiled loops run where the data is on the CPU and numba and
llvmlite can be imported and can compile them; else the reference does, with the same results. Whether they compile is
found out by running them once on a tiny problem of our own, before the first real one, and only that step is guarded:
an error on the user's data is never taken for a compiler's.

Numba takes a second to import, so nothing here imports it before it is needed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from effective_attention.kernels import cholesky_reference, moving_gram_reference
from effective_attention.kernels.solution import Solution, State

log = logging.getLogger(__name__)

# What it costs is measured by benchmarks/compiled_loops.py; the versions are those of pyproject.toml.
_WARNING = (
    "the compiled loops cannot be used here (%s: %s). Plain PyTorch and SciPy take over: results are the same, but on "
    "the CPU the factorisations behind effective attention take 3 to 5 times as long, and attention flow, if it is hit "
    "too, 60 to 1300 times, intervals of weights 50 to 200 times. To get the compiled loops back, install versions "
    "that fit: pip install 'numba>=0.60,<0.69'"
)


class LayeredGraph(Protocol):
    """``max_flow.LayeredGraph`` or ``max_flow_reference.LayeredGraph``."""

    def flow(self, first: NDArray[np.float64], layers: int) -> NDArray[np.float64]:
        """Return the maximum flow (source, key)."""


class Polytope(Protocol):
    """``simplex.Polytope`` or ``simplex_reference.Polytope``."""

    def least(self, cost: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return a vertex (key,) of least cost, and a cost that no point is below."""


# --- what the package calls ---


def independent_rows(value: Tensor, seen: Tensor, shift: float) -> Tensor:
    """Return True where ``V V^T - shift * trace * I`` has a Cholesky factor, V being the rows that are seen.

    Args:
        value: (problem, key, d_head), of any floating type.
        seen: (problem, key), bool.
        shift: Relative to the trace of ``V V^T``.

    Returns:
        (problem,), bool. False where more rows are seen than V has columns.
    """
    value = _readable(value)
    if value.device.type == "cpu" and _compiles(_compile_cholesky, value.dtype):
        from effective_attention.kernels import cholesky

        return cholesky.independent_rows(value, seen, shift)
    return cholesky_reference.independent_rows(value, seen, shift)


def orthonormal_columns(
    value: Tensor, seen: Tensor, *, whitener: bool, products: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return Q = V R with ``Q^T Q = I``, R, Q^T V and a bound of V's condition number, V being the rows that are seen.

    Args:
        value: (problem, key, d_head), of any floating type.
        seen: (problem, key), bool.
        whitener: Whether R is wanted; if not, it may come back empty.
        products: Whether Q^T V is; likewise.

    Returns:
        Q (problem, key, d_head), float32, 0 where not seen. R (problem, d_head, d_head), float64. Q^T V likewise,
        float32. The bound (problem,): NaN where ``V^T V`` is not positive definite; the others then mean nothing.
    """
    value = _readable(value)
    if value.device.type == "cpu" and _compiles(_compile_cholesky, value.dtype):
        from effective_attention.kernels import cholesky

        return cholesky.orthonormal_columns(value, seen, whitener=whitener, products=products)
    return cholesky_reference.orthonormal_columns(value, seen)


def solve_along(
    value: Tensor,
    seen: Tensor,
    start: Tensor,
    stop: Tensor,
    output: Tensor,
    *,
    state: State | None = None,
    skip_independent: bool = False,
) -> Solution:
    """Solve ``w (V^T V) = o`` for every query, V being the keys of its interval that are seen.

    Fast where each interval is the one before, moved by a key or so.

    Args:
        value: (problem, key, d_head), of any floating type.
        seen: (problem, key), bool.
        start: First key of each query's interval, (problem, query).
        stop: One behind its last.
        output: o, (problem, group, query, d_head), float64: ``group`` queries share their keys.
        state: Go on from an earlier call, of which these values are a continuation; changed. The reference has no use
            for it.
        skip_independent: Whether queries whose keys are independent may get 0 for coefficients, because the caller
            knows their attention, all of which is effective. The reference solves them all the same.
    """
    if value.device.type == "cpu" and _compiles(_compile_moving_gram):
        from effective_attention.kernels import moving_gram

        known = State.empty(len(value), value.shape[2]) if state is None else state
        skip = skip_independent and state is None
        numbers = value.detach().double()  # it reads each of them several times, and is dear to compile for a type more
        return moving_gram.solve_along(numbers, seen, start, stop, output, state=known, skip_independent=skip)
    return moving_gram_reference.solve_along(_readable(value), seen, start, stop, output)


def layered_graph(capacity: NDArray[np.float64]) -> LayeredGraph:
    """Return the graph with these capacities (layer, query, key), ready to be asked for maximum flows."""
    if _compiles(_compile_max_flow):
        from effective_attention.kernels import max_flow

        return max_flow.LayeredGraph(capacity)
    from effective_attention.kernels import max_flow_reference

    return max_flow_reference.LayeredGraph(capacity)


def polytope(reached: NDArray[np.float64], weights: NDArray[np.float64]) -> Polytope:
    """Return all rows with one row's output and sum, ready to be asked for the cheapest.

    Args:
        reached: Orthonormal columns, fewer than rows, that span the column space of ``[V, 1]``, (key, rank).
        weights: The row, (key,), not negative.
    """
    if _compiles(_compile_simplex):
        from effective_attention.kernels import simplex

        return simplex.Polytope(reached, weights)
    from effective_attention.kernels import simplex_reference

    return simplex_reference.Polytope(reached, weights)


def weight_intervals(
    reached: NDArray[np.float64], sizes: NDArray[np.int64], which: NDArray[np.int64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the smallest and the largest value of every weight of many rows, (2, row, key); see ``polytope``.

    Args:
        reached: Of each space, (space, key, rank), 0 beyond its own sizes.
        sizes: How many keys and columns each has, (space, 2).
        which: The space of each row, (row,).
        weights: The rows, (row, key).
    """
    if _compiles(_compile_simplex):
        from effective_attention.kernels import simplex

        return simplex.intervals(reached, sizes, which, weights)
    from effective_attention.kernels import simplex_reference

    return simplex_reference.intervals(reached, sizes, which, weights)


def compile_all() -> bool:
    """Compile every loop for every type of number; return whether all could be."""
    types = [_compiles(_compile_cholesky, dtype) for dtype in (torch.float32, torch.float64)]
    others = [_compiles(one) for one in (_compile_moving_gram, _compile_max_flow, _compile_simplex)]
    return all([*types, *others])


def _readable(value: Tensor) -> Tensor:
    """Return the values as compiled loops can read them: float32 or float64, without a gradient."""
    return value.detach().to(torch.promote_types(value.dtype, torch.float32))


# --- whether the compiled loops can be had ---


def _compile_cholesky(dtype: torch.dtype) -> None:
    from effective_attention.kernels import cholesky

    cholesky.compile_loops(dtype)


def _compile_moving_gram() -> None:
    from effective_attention.kernels import moving_gram

    moving_gram.compile_loops()


def _compile_max_flow() -> None:
    from effective_attention.kernels import max_flow

    max_flow.compile_loops()


def _compile_simplex() -> None:
    from effective_attention.kernels import simplex

    simplex.compile_loops()


_known: dict[tuple[object, ...], bool] = {}
_deciding = threading.Lock()


def _compiles(compile_loops: Callable[..., None], *given: object) -> bool:
    """Return whether these loops compile; tried once per process for each type."""
    case = (compile_loops, *given)
    if case not in _known:
        with _deciding:
            if case not in _known:
                _known[case] = _try_to_compile(compile_loops, *given)
    return _known[case]


def _try_to_compile(compile_loops: Callable[..., None], *given: object) -> bool:
    try:
        compile_loops(*given)
    # Of any class: what a changed compiler raises inside is not for us to list, and no data of the user's is involved.
    except Exception as error:
        if all(_known.values()):  # the first failure of this process
            log.warning(_WARNING, type(error).__name__, next(iter(str(error).splitlines()), "no message"))
        log.debug("%s failed", compile_loops.__name__, exc_info=error)
        return False
    return True
