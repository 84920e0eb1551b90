"""Compiled: tiles of 4 x 8 numbers that stay in registers, of which products and triangular factors are made.

A tile is four rows (``row0`` to ``row3``) of eight numbers each (``kernels.vectors``), named by its first row (``top``)
and its first column (``column``). A *block* is four of them, 8 x 16 numbers: where the processor has 32 registers of
eight numbers (AVX-512), sixteen sums at once keep it busy, and each number read is used for more of them. On others a
block would not fit the registers, and is made tile by tile.
"""

from __future__ import annotations

import numpy as np

from effective_attention.kernels.threads import leaf
from effective_attention.kernels.vectors import LANES, WIDE, load, minus, plus, store, times, zeros

BLOCK_ROWS, BLOCK_COLUMNS = 8, 2 * LANES


# --- tiles of 4 x 8 ---


@leaf
def less_rows_above(tile, factor, rows, top, column):  # type: ignore[no-untyped-def]
    """Return a tile, less ``factor[:top, top : top + 4]^T rows[:top]``, in those columns."""
    row0, row1, row2, row3 = tile
    for k in range(top):
        right = load(rows, k, column)
        row0 = minus(row0, factor[k, top], right)
        row1 = minus(row1, factor[k, top + 1], right)
        row2 = minus(row2, factor[k, top + 2], right)
        row3 = minus(row3, factor[k, top + 3], right)
    return row0, row1, row2, row3


@leaf
def product_tile(left, right, start, stop, top, column):  # type: ignore[no-untyped-def]
    """Return ``left[top : top + 4, start:stop] @ right[start:stop, column : column + 8]``."""
    row0, row1, row2, row3 = zeros(), zeros(), zeros(), zeros()
    for k in range(start, stop):
        numbers = load(right, k, column)
        row0 = plus(row0, left[top, k], numbers)
        row1 = plus(row1, left[top + 1, k], numbers)
        row2 = plus(row2, left[top + 2, k], numbers)
        row3 = plus(row3, left[top + 3, k], numbers)
    return row0, row1, row2, row3


@leaf
def gram_tile(left, right, start, stop, top, column):  # type: ignore[no-untyped-def]
    """Return ``left[start:stop, top : top + 4]^T @ right[start:stop, column : column + 8]``."""
    row0, row1, row2, row3 = zeros(), zeros(), zeros(), zeros()
    for k in range(start, stop):
        numbers = load(right, k, column)
        row0 = plus(row0, left[k, top], numbers)
        row1 = plus(row1, left[k, top + 1], numbers)
        row2 = plus(row2, left[k, top + 2], numbers)
        row3 = plus(row3, left[k, top + 3], numbers)
    return row0, row1, row2, row3


@leaf
def load_tile(matrix, top, column):  # type: ignore[no-untyped-def]
    return (
        load(matrix, top, column),
        load(matrix, top + 1, column),
        load(matrix, top + 2, column),
        load(matrix, top + 3, column),
    )


@leaf
def tile_plus(tile, factor, other):  # type: ignore[no-untyped-def]
    """Return ``tile + factor other``."""
    row0, row1 = plus(tile[0], factor, other[0]), plus(tile[1], factor, other[1])
    row2, row3 = plus(tile[2], factor, other[2]), plus(tile[3], factor, other[3])
    return row0, row1, row2, row3


@leaf
def store_tile(matrix, top, column, tile):  # type: ignore[no-untyped-def]
    store(matrix, top, column, tile[0])
    store(matrix, top + 1, column, tile[1])
    store(matrix, top + 2, column, tile[2])
    store(matrix, top + 3, column, tile[3])


@leaf
def put_tile(matrix, top, column, tile, keep, factor):  # type: ignore[no-untyped-def]
    """Write a tile; where ``keep``, add ``factor`` times it to what is there."""
    if keep:
        store_tile(matrix, top, column, tile_plus(load_tile(matrix, top, column), factor, tile))
    else:
        store_tile(matrix, top, column, tile)


# --- blocks of 8 x 16 ---


@leaf
def _nothing():  # type: ignore[no-untyped-def]
    return zeros(), zeros()


@leaf
def _both(row, factor, here, there):  # type: ignore[no-untyped-def]
    """Return a row of sixteen sums, with the factor's share of sixteen numbers more."""
    return plus(row[0], factor, here), plus(row[1], factor, there)


@leaf
def _product_block(left, right, start, stop, top, column):  # type: ignore[no-untyped-def]
    """Do what ``product_tile`` does for a block; return its upper and its lower four rows."""
    row0, row1, row2, row3 = _nothing(), _nothing(), _nothing(), _nothing()
    row4, row5, row6, row7 = _nothing(), _nothing(), _nothing(), _nothing()
    for k in range(start, stop):
        here, there = load(right, k, column), load(right, k, column + LANES)
        row0 = _both(row0, left[top, k], here, there)
        row1 = _both(row1, left[top + 1, k], here, there)
        row2 = _both(row2, left[top + 2, k], here, there)
        row3 = _both(row3, left[top + 3, k], here, there)
        row4 = _both(row4, left[top + 4, k], here, there)
        row5 = _both(row5, left[top + 5, k], here, there)
        row6 = _both(row6, left[top + 6, k], here, there)
        row7 = _both(row7, left[top + 7, k], here, there)
    return (row0, row1, row2, row3), (row4, row5, row6, row7)


@leaf
def _gram_block(left, right, start, stop, top, column):  # type: ignore[no-untyped-def]
    """Do what ``gram_tile`` does for a block; return its upper and its lower four rows."""
    row0, row1, row2, row3 = _nothing(), _nothing(), _nothing(), _nothing()
    row4, row5, row6, row7 = _nothing(), _nothing(), _nothing(), _nothing()
    for k in range(start, stop):
        here, there = load(right, k, column), load(right, k, column + LANES)
        row0 = _both(row0, left[k, top], here, there)
        row1 = _both(row1, left[k, top + 1], here, there)
        row2 = _both(row2, left[k, top + 2], here, there)
        row3 = _both(row3, left[k, top + 3], here, there)
        row4 = _both(row4, left[k, top + 4], here, there)
        row5 = _both(row5, left[k, top + 5], here, there)
        row6 = _both(row6, left[k, top + 6], here, there)
        row7 = _both(row7, left[k, top + 7], here, there)
    return (row0, row1, row2, row3), (row4, row5, row6, row7)


@leaf
def _put_half(result, top, column, rows, keep, factor):  # type: ignore[no-untyped-def]
    row0, row1, row2, row3 = rows
    put_tile(result, top, column, (row0[0], row1[0], row2[0], row3[0]), keep, factor)
    put_tile(result, top, column + LANES, (row0[1], row1[1], row2[1], row3[1]), keep, factor)


@leaf
def _put_block(result, top, column, block, keep, factor):  # type: ignore[no-untyped-def]
    _put_half(result, top, column, block[0], keep, factor)
    _put_half(result, top + 4, column, block[1], keep, factor)


@leaf
def put_product(left, right, start, stop, place, result, size, keep, factor):  # type: ignore[no-untyped-def]
    """Write a block of ``left right``, or add ``factor`` times it to the result.

    Args:
        left: (row, number).
        right: (number, column).
        start: The first number of each sum.
        stop: One behind the last.
        place: First row and column of the block.
        result: (row, column).
        size: How many rows and columns the result has; a block may reach beyond.
        keep: Whether to add to what is there, with the factor; else there is none.
        factor: See ``keep``.
    """
    top, column = place
    rows, columns = size
    if WIDE and top + BLOCK_ROWS <= rows and column + BLOCK_COLUMNS <= columns:
        _put_block(result, top, column, _product_block(left, right, start, stop, top, column), keep, factor)
        return
    for row in range(top, min(top + BLOCK_ROWS, rows), 4):
        for at in range(column, min(column + BLOCK_COLUMNS, columns), LANES):
            put_tile(result, row, at, product_tile(left, right, start, stop, row, at), keep, factor)


@leaf
def put_gram(left, right, start, stop, place, result, size, keep, factor):  # type: ignore[no-untyped-def]
    """Do the same with ``left^T right``, ``left`` being (number, row)."""
    top, column = place
    rows, columns = size
    if WIDE and top + BLOCK_ROWS <= rows and column + BLOCK_COLUMNS <= columns:
        _put_block(result, top, column, _gram_block(left, right, start, stop, top, column), keep, factor)
        return
    for row in range(top, min(top + BLOCK_ROWS, rows), 4):
        for at in range(column, min(column + BLOCK_COLUMNS, columns), LANES):
            put_tile(result, row, at, gram_tile(left, right, start, stop, row, at), keep, factor)


# --- the 4 x 4 block U on the diagonal of the factor ---
#
# It is passed around as numbers: ``scales`` are one over its diagonal, ``upper`` are (u01, u02, u03, u12, u13, u23),
# where u12 stands in its row 1 and column 2.


@leaf
def factor_block(gram, top):  # type: ignore[no-untyped-def]
    """Factor the 4 x 4 block of ``gram`` at ``top``; return scales and upper.

    A pivot that is not positive makes the last scale NaN or infinite.
    """
    scale0 = 1 / np.sqrt(gram[top, top])
    u01 = scale0 * gram[top, top + 1]
    u02 = scale0 * gram[top, top + 2]
    u03 = scale0 * gram[top, top + 3]
    scale1 = 1 / np.sqrt(gram[top + 1, top + 1] - u01 * u01)
    u12 = scale1 * (gram[top + 1, top + 2] - u01 * u02)
    u13 = scale1 * (gram[top + 1, top + 3] - u01 * u03)
    scale2 = 1 / np.sqrt(gram[top + 2, top + 2] - u02 * u02 - u12 * u12)
    u23 = scale2 * (gram[top + 2, top + 3] - u02 * u03 - u12 * u13)
    scale3 = 1 / np.sqrt(gram[top + 3, top + 3] - u03 * u03 - u13 * u13 - u23 * u23)
    return (scale0, scale1, scale2, scale3), (u01, u02, u03, u12, u13, u23)


@leaf
def read_block(factor, top):  # type: ignore[no-untyped-def]
    """Return scales and upper of the block at ``top`` of a finished factor."""
    scale0, scale1 = 1 / factor[top, top], 1 / factor[top + 1, top + 1]
    scale2, scale3 = 1 / factor[top + 2, top + 2], 1 / factor[top + 3, top + 3]
    u01, u02, u03 = factor[top, top + 1], factor[top, top + 2], factor[top, top + 3]
    u12, u13 = factor[top + 1, top + 2], factor[top + 1, top + 3]
    u23 = factor[top + 2, top + 3]
    return (scale0, scale1, scale2, scale3), (u01, u02, u03, u12, u13, u23)


@leaf
def solve_from_top(scales, upper, tile):  # type: ignore[no-untyped-def]
    """Return the tile T with ``U^T T = tile``: each row needs those above it."""
    u01, u02, u03, u12, u13, u23 = upper
    row0 = times(scales[0], tile[0])
    row1 = times(scales[1], minus(tile[1], u01, row0))
    row2 = times(scales[2], minus(minus(tile[2], u02, row0), u12, row1))
    row3 = times(scales[3], minus(minus(minus(tile[3], u03, row0), u13, row1), u23, row2))
    return row0, row1, row2, row3


@leaf
def solve_from_bottom(scales, upper, tile, known):  # type: ignore[no-untyped-def]
    """Return the tile T with ``U T = tile - known``: each row needs those below it."""
    u01, u02, u03, u12, u13, u23 = upper
    row3 = times(scales[3], minus(tile[3], 1.0, known[3]))
    row2 = times(scales[2], minus(minus(tile[2], 1.0, known[2]), u23, row3))
    row1 = times(scales[1], minus(minus(minus(tile[1], 1.0, known[1]), u12, row2), u13, row3))
    row0 = times(scales[0], minus(minus(minus(minus(tile[0], 1.0, known[0]), u01, row1), u02, row2), u03, row3))
    return row0, row1, row2, row3
