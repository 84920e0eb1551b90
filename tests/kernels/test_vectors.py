"""Eight numbers at once against one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from effective_attention.kernels.vectors import LANES, load, minus, plus, store, times, zeros


@njit
def combine(left, right, out, row, column):  # type: ignore[no-untyped-def]
    one, two = load(left, row, column), load(right, row, column)
    store(out, row, column, plus(one, 3.0, two))
    store(out, row + 1, column, minus(one, 0.5, two))
    store(out, row + 2, column, times(-2.0, two))
    store(out, row + 3, column, zeros())


@pytest.mark.parametrize("column", [0, 1, 5])
def test_each_operation(column: int) -> None:
    random = np.random.default_rng(0)
    left, right = random.normal(size=(6, 13)), random.normal(size=(6, 13))
    out = np.full((6, 13), 7.0)
    combine(left, right, out, 2, column)
    place = slice(column, column + LANES)
    one, two = left[2, place], right[2, place]
    np.testing.assert_allclose(
        out[2:6, place], [one + 3 * two, one - 0.5 * two, -2 * two, 0 * two], rtol=1e-15, atol=1e-15
    )
    out[2:6, place] = 7
    assert (out == 7).all()  # nothing else was written to
