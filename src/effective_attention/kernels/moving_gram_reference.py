"""What ``moving_gram`` computes, in plain PyTorch: for a GPU, for a CPU without numba, and to test the loop by.

Queries are taken in blocks. The Gram matrix of the keys that all queries of a block see is summed once; what else each
of them sees is added with a mask, so nothing is ever taken away. Then one Cholesky factor for each query, or its
eigenvalues where there is none that is good enough.
"""

from __future__ import annotations

import torch
from torch import Tensor

from effective_attention.kernels.solution import LIMIT, Solution

_BLOCK = 64
_ROUNDING = 1e-14  # of the largest eigenvalue of a Gram matrix: what is smaller is no dimension


def solve_along(value: Tensor, seen: Tensor, start: Tensor, stop: Tensor, output: Tensor) -> Solution:
    """Solve for every query; see ``moving_gram.solve_along``. Every tensor is on the same device."""
    value = value.double()
    parts = [
        _solve_block(value, seen, start[:, block], stop[:, block], output[:, :, block])
        for block in torch.split(torch.arange(start.shape[1], device=start.device), _BLOCK)
    ]
    coefficients, result, bound, rank = zip(*parts, strict=True)
    return Solution(torch.cat(coefficients, 2), torch.cat(result, 2), torch.cat(bound, 1), torch.cat(rank, 1))


def _solve_block(
    value: Tensor, seen: Tensor, start: Tensor, stop: Tensor, output: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    place = torch.arange(value.shape[1], device=value.device)
    mask = (place >= start[..., None]) & (place < stop[..., None]) & seen[:, None]  # (problem, query, key)
    gram = _grams(value, mask)  # (problem, query, d_head, d_head)
    inverse, bound, rank = _inverses(gram, mask.sum(dim=-1))
    coefficients = torch.einsum("pgqd,pqde->pgqe", output, inverse)
    return coefficients, torch.einsum("pgqd,pqde->pgqe", coefficients, gram), bound, rank


def _grams(value: Tensor, mask: Tensor) -> Tensor:
    """Return ``V^T V`` of each query's keys."""
    common = mask.all(dim=1)  # (problem, key)
    shared = torch.where(common[..., None], value, 0)
    gram = (shared.mT @ shared)[:, None].expand(-1, mask.shape[1], -1, -1)
    own = mask & ~common[:, None]
    keys = own.any(dim=1).any(dim=0).nonzero()[:, 0]
    return gram + torch.einsum("pqk,pkd,pke->pqde", own[..., keys].double(), value[:, keys], value[:, keys])


def _inverses(gram: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return pseudo-inverses, bounds of the condition number, and ranks; 0, infinity and -1 where none is proved."""
    width = gram.shape[-1]
    factor, info = torch.linalg.cholesky_ex(gram)
    identity = torch.eye(width, dtype=gram.dtype, device=gram.device)
    inverse = torch.cholesky_inverse(torch.where((info == 0)[..., None, None], factor, identity))
    total = _trace(gram)
    bound = (total * _trace(inverse)).sqrt()
    good = (info == 0) & (bound < LIMIT) & (count >= width)
    rank = torch.where(good, width, -1)
    if not bool(good.all()):
        inverse[~good], rank[~good] = _by_eigenvalues(gram[~good])
        bound = torch.where(rank >= 0, (total * _trace(inverse)).sqrt(), torch.inf)
        hopeless = ~(bound < LIMIT)
        bound = bound.masked_fill(hopeless, torch.inf)
        rank = rank.masked_fill(hopeless, -1)
        inverse = torch.where(hopeless[..., None, None], 0, inverse)
    return inverse, bound, rank


def _by_eigenvalues(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Return pseudo-inverse and rank of each matrix; -1 where some eigenvalue is neither 0 nor clearly more."""
    values, vectors = torch.linalg.eigh(gram)
    largest = values[..., -1:]
    kept = values > largest / LIMIT**2
    doubtful = (~kept & (values > _ROUNDING * largest)).any(dim=-1)
    scaled = vectors * torch.where(kept, 1 / values, 0)[..., None, :]
    return scaled @ vectors.mT, torch.where(doubtful, -1, kept.sum(dim=-1))


def _trace(matrix: Tensor) -> Tensor:
    return matrix.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
