"""What ``kernels/vectors.py`` offers, in plain numba: eight numbers are a tuple, and nothing of numba's inside is used.

A stand-in with the same names and arguments: ``benchmarks/compiled_loops.py`` measures what the vector type gains.
"""

from __future__ import annotations

from typing import Any

from numba import njit

COMPILE: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
LANES = SPARE = 8
LINE = 64
WIDE = False
FUSED: dict[str, Any] = {"fastmath": {"contract"}, **COMPILE}  # a product and a sum may be one instruction


@njit(**COMPILE)
def load(matrix, row, column):
    return (
        matrix[row, column],
        matrix[row, column + 1],
        matrix[row, column + 2],
        matrix[row, column + 3],
        matrix[row, column + 4],
        matrix[row, column + 5],
        matrix[row, column + 6],
        matrix[row, column + 7],
    )


@njit(**COMPILE)
def store(matrix, row, column, numbers):
    for lane in range(LANES):
        matrix[row, column + lane] = numbers[lane]


@njit(**COMPILE)
def times(factor, numbers):
    return (
        factor * numbers[0],
        factor * numbers[1],
        factor * numbers[2],
        factor * numbers[3],
        factor * numbers[4],
        factor * numbers[5],
        factor * numbers[6],
        factor * numbers[7],
    )


@njit(**FUSED)
def plus(total, factor, numbers):
    return (
        total[0] + factor * numbers[0],
        total[1] + factor * numbers[1],
        total[2] + factor * numbers[2],
        total[3] + factor * numbers[3],
        total[4] + factor * numbers[4],
        total[5] + factor * numbers[5],
        total[6] + factor * numbers[6],
        total[7] + factor * numbers[7],
    )


@njit(**COMPILE)
def minus(total, factor, numbers):
    return plus(total, -factor, numbers)


@njit(**COMPILE)
def zeros():
    return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
