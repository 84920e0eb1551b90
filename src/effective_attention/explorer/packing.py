"""Write numbers as text inside a page: small, exact to a stated number of decimals, and quick to unpack in a browser.

An array of x becomes the whole numbers ``v = round(x * 10**decimals)``; the sign goes to the lowest bit (0, -1, 1, -2
... become 0, 1, 2, 3 ...); each number takes three bytes, written as three planes (all low bytes, all middle bytes, all
high bytes), because the high bytes are nearly all zero and compress to nothing; then zlib, which browsers unpack by
themselves; then base 85, four bytes as five characters, none of which means anything in HTML. The end is that of
``base64.b85encode``: the last group is as short as the bytes it holds, so a reader fills it up with the last character
of the alphabet and drops as many bytes.
"""

from __future__ import annotations

import base64
import string
import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%,()*+-;.=:?@^_[{|}~"
"""Python's digits of base 85, with , . : [ in place of the four that HTML or JavaScript would take for their own."""

_PYTHONS = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
_LARGEST = 2**23 - 1  # in 24 bits, one of them for the sign


def whole_numbers(values: ArrayLike, decimals: int) -> NDArray[np.int64]:
    """Return ``round(values * 10**decimals)``.

    Raises:
        ValueError: Some are not finite, or too large for 24 bits.

    >>> whole_numbers([0.12344, -1.0], 2)
    array([  12, -100])
    """
    scaled = np.asarray(values, dtype=np.float64) * 10**decimals
    if not np.isfinite(scaled).all():
        raise ValueError(f"values must be finite, got NaN or infinity in shape {scaled.shape}")
    largest = float(np.abs(scaled).max(initial=0))
    if round(largest) > _LARGEST:
        raise ValueError(
            f"values must be below {_LARGEST / 10**decimals} to fit in 24 bits with {decimals} decimals, "
            f"got {largest / 10**decimals:.6g}; pack them with fewer decimals"
        )
    return np.rint(scaled).astype(np.int64)


def pack(numbers: NDArray[np.int64]) -> str:
    """Write whole numbers of at most 23 bits and a sign as text; see the module's docstring."""
    squeeze = zlib.compressobj(
        strategy=zlib.Z_RLE
    )  # low bytes hardly repeat: 4% smaller than a search for matches, in a tenth
    return _base_85(squeeze.compress(_planes(numbers)) + squeeze.flush())


def _planes(numbers: NDArray[np.int64]) -> bytes:
    flat = numbers.reshape(-1)
    coded = np.where(flat < 0, -2 * flat - 1, 2 * flat).astype("<u4")
    return np.ascontiguousarray(coded.view(np.uint8).reshape(-1, 4)[:, :3].T).tobytes()


def _base_85(data: bytes) -> str:
    """Encode bytes as ``base64.b85encode`` does, several times faster and in our alphabet."""
    whole = len(data) // 4 * 4
    groups = np.frombuffer(data[:whole], dtype=">u4").astype(np.uint32)
    digits = np.empty((len(groups), 5), dtype=np.uint8)
    for place in range(4, -1, -1):
        groups, digits[:, place] = np.divmod(groups, np.uint32(85))
    text = np.frombuffer(ALPHABET.encode(), dtype=np.uint8)[digits].tobytes().decode()
    return text + base64.b85encode(data[whole:]).decode().translate(str.maketrans(_PYTHONS, ALPHABET))
