"""Read a GGUF file, version 3: its fields, and its tensors as float32.

The layout, all numbers little-endian: the magic, the version (u32), how many tensors and how many fields (u64 each);
the fields as name, type, value; the tensors as name, sizes (fastest first), type, place; then, from the next multiple
of the alignment on, the tensors' bytes. Of the quantised types only those are read that the models here have: blocks
of 32 numbers with a common scale (Q8_0), or with a scale and a lowest value (Q4_1).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"GGUF"
_VERSION = 3
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT = 8
_LIST = 9
_BLOCK = 32
_F32, _Q4_1, _Q8_0 = 0, 3, 8
_BLOCK_BYTES = {_F32: 4 * _BLOCK, _Q4_1: 4 + _BLOCK // 2, _Q8_0: 2 + _BLOCK}


@dataclass(frozen=True)
class _Entry:
    shape: tuple[int, ...]
    kind: int
    start: int  # of its bytes, from the beginning of the tensors' bytes


class GgufFile:
    """The contents of a GGUF file.

    Attributes:
        fields: Name → number, text, or list of these.
    """

    def __init__(self, path: Path) -> None:
        self._bytes = path.read_bytes()
        self._place = 0
        magic, version, tensors, fields = self._bytes[:4], *struct.unpack_from("<IQQ", self._bytes, 4)
        if (magic, version) != (_MAGIC, _VERSION):
            raise ValueError(f"{path.name} is not a GGUF file of version {_VERSION}")
        self._place = 24
        self.fields: dict[str, Any] = {self._text(): self._value(self._number("<I")) for _ in range(fields)}
        self._entries = {self._text(): self._entry() for _ in range(tensors)}
        alignment = self.fields.get("general.alignment", 32)
        self._start = -(-self._place // alignment) * alignment

    def tensors(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yield every tensor by name, as float32."""
        for name, entry in self._entries.items():
            yield name, self._tensor(entry)

    def _number(self, kind: str) -> Any:
        (value,) = struct.unpack_from(kind, self._bytes, self._place)
        self._place += struct.calcsize(kind)
        return value

    def _text(self) -> str:
        length = self._number("<Q")
        self._place += length
        return self._bytes[self._place - length : self._place].decode()

    def _value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind == _LIST:
            inner = self._number("<I")
            return [self._value(inner) for _ in range(self._number("<Q"))]
        return self._number(_NUMBERS[kind])

    def _entry(self) -> _Entry:
        sizes = [self._number("<Q") for _ in range(self._number("<I"))]
        return _Entry(tuple(reversed(sizes)), self._number("<I"), self._number("<Q"))

    def _tensor(self, entry: _Entry) -> NDArray[np.float32]:
        blocks = math.prod(entry.shape) // _BLOCK
        size = _BLOCK_BYTES[entry.kind]
        raw = np.frombuffer(self._bytes, np.uint8, blocks * size, self._start + entry.start).reshape(blocks, size)
        return _numbers(raw, entry.kind).reshape(entry.shape)


def _numbers(blocks: NDArray[np.uint8], kind: int) -> NDArray[np.float32]:
    """Turn blocks (block, bytes) into numbers (block, 32)."""
    if kind == _F32:
        return blocks.view(np.float32)
    scale = blocks[:, :2].view(np.float16).astype(np.float32)
    if kind == _Q8_0:
        return blocks[:, 2:].view(np.int8).astype(np.float32) * scale
    lowest = blocks[:, 2:4].view(np.float16).astype(np.float32)
    packed = blocks[:, 4:]  # sixteen bytes: the low halves are the first sixteen numbers, the high halves the others
    return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32) * scale + lowest
