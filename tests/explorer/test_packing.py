"""Numbers packed into a page come out as they went in, by a decoder of our own and by Python's."""

from __future__ import annotations

import base64
import math
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effective_attention.explorer.packing import ALPHABET, pack, whole_numbers
from helpers.explorer_page import PYTHONS, unpacked


def unpack(text: str) -> list[int]:
    return unpacked(text, ALPHABET)


def test_the_alphabet_means_nothing_in_a_page() -> None:
    assert len(set(ALPHABET)) == 85
    assert not set(ALPHABET) & set("<>&\"'`\\/ \n")


def test_by_hand() -> None:
    squeezed = zlib.decompress(
        base64.b85decode(pack(np.array([0, -1, 1, -129])).translate(str.maketrans(ALPHABET, PYTHONS)))
    )
    assert squeezed == bytes(
        [0, 1, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0]
    )  # low bytes, middle bytes, high bytes of 0, 1, 2, 257


@given(st.lists(st.integers(-(2**23) + 1, 2**23 - 1), max_size=300))
def test_round_trip(numbers: list[int]) -> None:
    assert unpack(pack(np.array(numbers, dtype=np.int64))) == numbers


def test_round_trip_of_attention_in_c_order() -> None:
    weights = np.random.default_rng(0).dirichlet([0.2] * 17, size=(3, 17))
    signed = weights - 0.01
    found = np.array(unpack(pack(whole_numbers(signed, 5)))).reshape(signed.shape)
    np.testing.assert_allclose(found / 1e5, signed, atol=0.5e-5 + 1e-12)


def test_whole_numbers_round_to_the_nearest() -> None:
    assert whole_numbers([[0.123456, -0.123456], [1.0, 0.0]], 5).tolist() == [[12346, -12346], [100000, 0]]


def test_the_largest_fits_and_the_next_does_not() -> None:
    assert unpack(pack(whole_numbers([83.88607, -83.88607], 5))) == [2**23 - 1, -(2**23) + 1]
    with pytest.raises(ValueError, match=r"below 83\.88607 to fit in 24 bits with 5 decimals, got 83\.8861"):
        whole_numbers([0.0, -83.88608], 5)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        whole_numbers([value], 5)
