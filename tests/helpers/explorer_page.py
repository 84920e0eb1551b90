"""Read an explorer page in Python, by a decoder that shares nothing with the packer."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

PYTHONS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def unpacked(text: str, alphabet: str) -> list[int]:
    """Unpack a block, number by number: slow and simple."""
    planes = zlib.decompress(base64.b85decode(text.translate(str.maketrans(alphabet, PYTHONS))))
    count = len(planes) // 3
    coded = [planes[i] + 256 * planes[count + i] + 65536 * planes[2 * count + i] for i in range(count)]
    return [value // 2 if value % 2 == 0 else -(value + 1) // 2 for value in coded]


def header_of(html: str) -> dict[str, Any]:
    """Read what the page holds besides the packed numbers."""
    (text,) = re.findall(r'<script type="application/json" id="header">([^<]*)</script>', html)
    return json.loads(text)


def numbers_of(html: str, side: int, part: str, layer: int) -> Any:
    """Read whole numbers, (head, query, key) or (head, token, d_key); None where the page has none."""
    import numpy as np

    header = header_of(html)
    facts = header["sides"][side]
    name = facts["blocks"][part][layer]
    if name is None:
        return None
    (text,) = re.findall(rf'<script type="text/plain" id="{name}">([^<]*)</script>', html)
    keys = (facts["keys"] or facts)["size"]
    last = facts["d_key"] if part in ("query", "key") else keys
    rows = keys if part == "key" else facts["size"]
    return np.array(unpacked(text, header["alphabet"])).reshape(facts["heads"], rows, last)
