"""The compiled factorisations against eigenvalues and against what PyTorch computes, on one thread and on two."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from effective_attention.kernels import cholesky_reference
from effective_attention.kernels.cholesky import independent_rows, orthonormal_columns


@pytest.fixture(params=[1, 2], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def values(keys: int, width: int, *, problems: int = 5, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(problems, keys, width, generator=torch.Generator().manual_seed(keys), dtype=dtype)


def some(problems: int, keys: int, least: int = 1) -> Tensor:
    """Masks with holes, each with ``least`` keys or more."""
    seen = torch.rand(problems, keys, generator=torch.Generator().manual_seed(1)) < 0.8
    seen[:, :least] = True
    return seen


SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 32, 33, 64]


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("more", [0, 1, 6])
def test_orthonormal_columns(width: int, more: int) -> None:
    value = values(width + more, width)
    seen = some(5, width + more, least=width)
    basis, whitener, products, bound = orthonormal_columns(value, seen, whitener=True, products=True)
    visible = value * seen[..., None]
    assert basis.dtype == torch.float32
    assert torch.equal(whitener, whitener.triu())
    identity = torch.eye(width, dtype=torch.float64).expand(5, -1, -1)
    torch.testing.assert_close((visible @ whitener).mT @ (visible @ whitener), identity, atol=1e-9, rtol=0)
    torch.testing.assert_close(basis.double(), visible @ whitener, atol=1e-7, rtol=0)
    assert not basis[~seen].any()
    torch.testing.assert_close(products.double(), (visible @ whitener).mT @ visible, atol=1e-6, rtol=1e-6)
    norms = [torch.linalg.matrix_norm(matrix) for matrix in (visible, whitener)]
    torch.testing.assert_close(bound, norms[0] * norms[1])
    assert (bound * (1 + 1e-9) >= torch.linalg.cond(visible)).all()


def test_the_whitener_and_the_products_only_where_they_are_wanted() -> None:
    value, seen = values(9, 4, dtype=torch.float32), some(5, 9, least=4)
    both, neither = (orthonormal_columns(value, seen, whitener=wanted, products=wanted) for wanted in (True, False))
    assert neither[1].shape == neither[2].shape == (5, 0, 0)
    assert torch.equal(both[0], neither[0])
    assert torch.equal(both[3], neither[3])


def test_one_broken_problem_leaves_the_others_alone() -> None:
    value, seen = values(9, 6), torch.ones(5, 9, dtype=torch.bool)
    want = orthonormal_columns(value, seen, whitener=True, products=True)
    value[1, :, 2] = 0
    value[3, 4, 5] = torch.nan
    got = orthonormal_columns(value, seen, whitener=True, products=True)
    for part, whole in zip(got, want, strict=True):
        assert part[[1, 3]].isnan().all()
        assert torch.equal(part[[0, 2, 4]], whole[[0, 2, 4]])


@pytest.mark.parametrize("keys", [1, 2, 5, 8, 17, 51])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_independent_up_to_the_smallest_singular_value(keys: int, dtype: torch.dtype) -> None:
    value, seen = values(keys, 53, problems=1, dtype=dtype), some(1, keys)
    singular = torch.linalg.svdvals(value[0, seen[0]].double())
    smallest = float(singular[-1] ** 2 / singular.square().sum())
    assert independent_rows(value, seen, 0.999 * smallest).item()
    assert not independent_rows(value, seen, 1.001 * smallest).item()


def test_more_rows_than_columns_are_never_independent() -> None:
    seen = torch.tensor([[True] * 5, [True] * 4 + [False], [False] * 5])
    assert independent_rows(values(5, 4, problems=3), seen, 1e-12).tolist() == [False, True, True]


def test_nothing_seen_is_independent_and_nan_is_not() -> None:
    value = values(4, 6, problems=3)
    value[1, 1, 3], value[2, 1] = torch.nan, value[2, 0]
    seen = torch.tensor([[False] * 4, [True] * 4, [True] * 4])
    assert independent_rows(value, seen, 1e-9).tolist() == [True, False, False]


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scale_does_not_matter(scale: float) -> None:
    value, seen = values(5, 6), torch.ones(5, 5, dtype=torch.bool)
    value[2, 3] = value[2, 1]
    assert torch.equal(independent_rows(value * scale, seen, 1e-12), independent_rows(value, seen, 1e-12))
    tall, whole = values(7, 5), torch.ones(5, 7, dtype=torch.bool)
    large, small = (orthonormal_columns(one, whole, whitener=False, products=True) for one in (tall * scale, tall))
    for part in (0, 3):
        torch.testing.assert_close(large[part], small[part])
    torch.testing.assert_close(large[2].double() / scale, small[2].double(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("width", [3, 16, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_reference_agrees(width: int, dtype: torch.dtype) -> None:
    """PyTorch's own routines do the work on a GPU and without numba."""
    value = values(width + 4, width, dtype=dtype)
    value[2, 1] = value[2, 0]
    few = torch.rand(5, width + 4, generator=torch.Generator().manual_seed(2)) < 0.1
    few[:, :2] = True
    ours = independent_rows(value, few, 1e-12)
    assert ours.tolist() == [True, True, False, True, True]
    assert torch.equal(ours, cholesky_reference.independent_rows(value, few, 1e-12))
    everything = torch.ones_like(few)
    assert not independent_rows(value, everything, 1e-12).any()
    assert not cholesky_reference.independent_rows(value, everything, 1e-12).any()
    value[2, :, 1] = 0
    seen = some(5, width + 4, least=width)
    theirs = cholesky_reference.orthonormal_columns(value, seen)
    ours_too = orthonormal_columns(value, seen, whitener=True, products=True)
    for part, other in zip(ours_too, theirs, strict=True):
        torch.testing.assert_close(part[[0, 1, 3, 4]], other[[0, 1, 3, 4]], atol=1e-6, rtol=1e-6)
        assert part[2].isnan().all()
        assert other[2].isnan().any()


def test_the_reference_on_what_is_not_finite_or_not_seen() -> None:
    value = values(4, 6, problems=3)
    value[1, 1, 3] = torch.nan
    value[2, 3] = torch.nan
    seen = torch.tensor([[False] * 4, [True] * 4, [True] * 3 + [False]])
    assert cholesky_reference.independent_rows(value, seen, 1e-9).tolist() == [True, False, True]
    tall = values(6, 4, problems=3)
    tall[1, 1, 3], tall[2, 5] = torch.nan, torch.nan
    hidden = torch.ones(3, 6, dtype=torch.bool)
    hidden[2, 5] = False
    basis, _, _, bound = cholesky_reference.orthonormal_columns(tall, hidden)
    assert bound.isnan().tolist() == [False, True, False]
    assert not basis[2, 5].any()
