"""Products of small matrices against NumPy's, of sizes that fill blocks of 8 x 16 numbers and of others."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from effective_attention.kernels.cholesky import fill_gram
from effective_attention.kernels.memory import room
from effective_attention.kernels.small_matrices import add_gram, multiply_lower, multiply_matrices, square, whiten
from effective_attention.kernels.solution import State
from effective_attention.kernels.vectors import LINE, SPARE

SIZES = [8, 16, 24, 40, 64]  # multiples of 8; blocks are 16 wide
RANDOM = np.random.default_rng(0)


def filled(rows: int, columns: int) -> NDArray[np.float64]:
    matrix: NDArray[np.float64] = room(rows, columns)
    matrix[:] = RANDOM.normal(size=(rows, columns))
    return matrix


def close(found: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", [4, 8, 12, 16])
def test_product(rows: int, size: int) -> None:
    left, right, result = filled(rows, size), filled(size, size + SPARE), filled(rows, size)
    multiply_matrices(left, right, result)
    close(result, left @ right[:, :size])


@pytest.mark.parametrize("size", SIZES)
def test_product_of_a_lower_triangle(size: int) -> None:
    left, right, result = filled(16, 16), filled(16, size), filled(16, size)
    expected = result - 0.5 * np.tril(left) @ right
    multiply_lower(-0.5, left, right, result)
    close(result, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 16])
def test_rows_that_are_added_to_a_gram_matrix(count: int, size: int) -> None:
    matrix, rows = filled(size, size + SPARE), filled(count, size)
    before = matrix.copy()
    add_gram(matrix, -2.0, rows)
    close(matrix[:, :size], before[:, :size] - 2 * rows.T @ rows)
    assert (matrix[:, size:] == before[:, size:]).all()  # spare columns are nobody's


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [0, 3, 130])  # more than are summed at a time
def test_gram_matrix_of_keys_that_are_seen(count: int, size: int) -> None:
    value, gram = RANDOM.normal(size=(count + 2, size - 3)), filled(size, size + SPARE)
    seen = np.arange(count + 2) < count
    fill_gram(value, seen, gram)
    expected = np.zeros((size, size))
    expected[: size - 3, : size - 3] = value[:count].T @ value[:count]
    close(gram[:, :size], expected)


@pytest.mark.parametrize("size", SIZES)
def test_inverse(size: int) -> None:
    gram, whitener, inverse, turned = (room(size, size + SPARE) for _ in range(4))
    rows = RANDOM.normal(size=(3 * size, size))
    gram[:, :size] = rows.T @ rows
    assert whiten(gram, whitener, turned)
    square(whitener, inverse, turned)
    close(inverse[:, :size] @ gram[:, :size], np.eye(size))
    assert (inverse[:, :size] == inverse[:, :size].T).all()  # to the last bit: it is read either way


def test_matrices_begin_on_a_line_of_the_cache() -> None:
    state = State.empty(3, 20)
    for matrix in (room(5, 7), room(3, 8), state.gram, state.inverse, state.outside, state.gram[1]):
        assert matrix.ctypes.data % LINE == 0
    assert not room(5, 7).any()
    assert (state.outside[2] == np.eye(24, 32)).all()
