"""The compiled factorisations against eigenvalues and against what PyTorch computes, on one thread and on two."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from effective_attention.attention import column_space
from effective_attention.compiled.cholesky import inverse_factor, is_positive_definite


@pytest.fixture(params=[1, 2], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def grams(size: int, problems: int = 5) -> Tensor:
    rows = torch.randn(problems, size, size + 3, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    return rows @ rows.mT


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 32, 33, 64])
def test_inverse_factor(size: int) -> None:
    gram = grams(size)
    inverse = inverse_factor(gram.clone())
    assert torch.equal(inverse, inverse.triu())
    torch.testing.assert_close(
        inverse.mT @ gram @ inverse, torch.eye(size, dtype=torch.float64).expand_as(gram), atol=1e-9, rtol=0
    )


def test_one_broken_problem_leaves_the_others_alone() -> None:
    gram = grams(6)
    want = inverse_factor(gram.clone())
    gram[1, 2, 2] = -1
    gram[3, 0, 5] = gram[3, 5, 0] = torch.nan
    got = inverse_factor(gram.clone())
    assert got[[1, 3]].isnan().all()
    assert torch.equal(got[[0, 2, 4]], want[[0, 2, 4]])


@pytest.mark.parametrize("size", [1, 2, 5, 8, 17, 51])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_positive_up_to_the_smallest_eigenvalue(size: int, dtype: torch.dtype) -> None:
    gram = grams(size, problems=1).to(dtype)
    seen = torch.rand(1, size, generator=torch.Generator().manual_seed(1)) < 0.8
    seen[0, size // 2] = True
    part = gram[0][seen[0]][:, seen[0]].double()
    smallest = float(torch.linalg.eigvalsh(part)[0] / part.trace())
    assert is_positive_definite(gram, seen, 0.999 * smallest).item()
    assert not is_positive_definite(gram, seen, 1.001 * smallest).item()


def test_nothing_seen_is_positive_and_nan_is_not() -> None:
    gram = grams(4, problems=2)
    gram[1, 1, 3] = torch.nan
    seen = torch.tensor([[False] * 4, [True] * 4])
    assert is_positive_definite(gram, seen, 1e-9).tolist() == [True, False]


@pytest.mark.parametrize("size", [3, 16, 33])
def test_the_route_for_other_devices_agrees(size: int) -> None:
    """On a GPU PyTorch's own routines do the work; they run on the CPU as well, so that both can be compared here."""
    gram = grams(size)
    gram[2] = gram[2, :1] * gram[2, :, :1]  # rank one
    seen = torch.rand(5, size, generator=torch.Generator().manual_seed(2)) < 0.7
    ours = is_positive_definite(gram, seen, 1e-12)
    assert torch.equal(ours, column_space._is_positive_definite_by_torch(gram, seen, 1e-12))
    theirs = column_space._inverse_factor_by_torch(gram[[0, 1, 3, 4]].clone())
    torch.testing.assert_close(inverse_factor(gram[[0, 1, 3, 4]].clone()), theirs)
