"""What ``cholesky`` computes, in plain PyTorch: for a GPU, for a CPU without numba, and to test the compiled loops by.

Every step is one call for all problems. V stands for the rows of a problem's values that are seen; the others are 0.
"""

from __future__ import annotations

import torch
from torch import Tensor


def independent_rows(value: Tensor, seen: Tensor, shift: float) -> Tensor:
    """Return True where ``V V^T - shift * trace * I`` has a Cholesky factor; see ``cholesky.independent_rows``.

    Args:
        value: (problem, key, d_head), of any floating type, on any device.
        seen: (problem, key), bool.
        shift: Relative to the trace of ``V V^T``.

    Returns:
        (problem,), bool. False where more rows are seen than V has columns.
    """
    precise = torch.where(seen[:, :, None], value, 0).double()
    gram = precise @ precise.mT  # (problem, key, key)
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    trace = diagonal.sum(dim=-1, keepdim=True)
    # Unseen keys become a block of their own, far from singular.
    diagonal.add_(torch.where(seen, -shift * trace, trace.clamp_min(1)))
    return (torch.linalg.cholesky_ex(gram)[1] == 0) & (seen.sum(dim=-1) <= value.shape[-1])


def orthonormal_columns(value: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return Q = V R, R, Q^T V and a bound of V's condition number; see ``cholesky.orthonormal_columns``.

    Args:
        value: (problem, key, d_head), of any floating type, on any device.
        seen: (problem, key), bool.

    Returns:
        Q (problem, key, d_head), float32. R (problem, d_head, d_head), float64, upper triangular. Q^T V (problem,
        d_head, d_head), float32. ``||V||_F ||R||_F`` (problem,). All hold NaN where ``V^T V`` is not positive
        definite.
    """
    precise = torch.where(seen[:, :, None], value, 0).double()
    gram = precise.mT @ precise
    factor, info = torch.linalg.cholesky_ex(gram, upper=True)
    factor = torch.where((info == 0)[:, None, None], factor, torch.nan)
    identity = torch.eye(value.shape[-1], dtype=factor.dtype, device=factor.device)
    inverse = torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=True)
    norm, inverse_norm = (torch.linalg.vector_norm(matrix, dim=(-2, -1)) for matrix in (precise, inverse))
    return (precise @ inverse).float(), inverse, (inverse.mT @ gram).float(), norm * inverse_norm
