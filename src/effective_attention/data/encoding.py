"""Turn texts into token ids, once: the result is kept on disk under a key of everything it depends on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention.io import cache_root, read_arrays, write_arrays

_CHUNK = 10_000  # texts a tokenizer call; bounds its memory


@dataclass(frozen=True)
class Encoded:
    """Token ids of many examples, end to end in flat arrays.

    Attributes:
        input_ids: All ids, example after example.
        token_type_ids: Segment of each id (0 first text, 1 second).
        offsets: Example ``i`` is ``input_ids[offsets[i] : offsets[i + 1]]``.
        truncated: Which examples were cut at ``max_length``.
    """

    input_ids: NDArray[np.int32]
    token_type_ids: NDArray[np.int8]
    offsets: NDArray[np.int64]
    truncated: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.truncated)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def row(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
        span = slice(self.offsets[index], self.offsets[index + 1])
        return self.input_ids[span], self.token_type_ids[span]


def encode(texts: Sequence[tuple[str, ...]], tokenizer: Tokenizer, max_length: int, cache_dir: Path | None) -> Encoded:
    """Tokenise texts (a pair is cut longest text first), or read the result of an earlier call from the cache."""
    if cache_dir is None:
        return _tokenise(texts, tokenizer, max_length)
    path = cache_dir / f"{encoding_key(texts, tokenizer, max_length)}.npz"
    found = read_arrays(path, lambda arrays: _build(arrays, len(texts)), "token")
    if found is not None:
        return found
    encoded = _tokenise(texts, tokenizer, max_length)
    write_arrays(path, {name: getattr(encoded, name) for name in Encoded.__dataclass_fields__}, "token")
    return encoded


def default_cache_dir() -> Path:
    """Return ``$EFFECTIVE_ATTENTION_CACHE``, or else a folder in the user's cache."""
    return cache_root() if os.environ.get("EFFECTIVE_ATTENTION_CACHE") else cache_root() / "tokens"


def _tokenise(texts: Sequence[tuple[str, ...]], tokenizer: Tokenizer, max_length: int) -> Encoded:
    ids = []
    types = []
    lengths = [0]
    truncated = []
    for start in range(0, len(texts), _CHUNK):
        columns = [list(column) for column in zip(*texts[start : start + _CHUNK], strict=True)]
        batch = tokenizer(*columns, truncation="longest_first", max_length=max_length, return_token_type_ids=True)
        for row, kinds, encoding in zip(batch["input_ids"], batch["token_type_ids"], batch.encodings, strict=True):
            ids.append(np.asarray(row, dtype=np.int32))
            types.append(np.asarray(kinds, dtype=np.int8))
            lengths.append(len(row))
            truncated.append(bool(encoding.overflowing))
    return Encoded(np.concatenate(ids), np.concatenate(types), np.cumsum(lengths), np.asarray(truncated))


def encoding_key(texts: Sequence[tuple[str, ...]], tokenizer: Tokenizer, max_length: int) -> str:
    """Hash the texts, the whole tokenizer and the length, so that nothing stale can be found under this key."""
    digest = hashlib.sha256(f"1|{max_length}|{len(texts)}|{tokenizer.truncation_side}|".encode())
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    del (
        settings["truncation"],
        settings["padding"],
    )  # set by every call: a fresh tokenizer must find what a used one wrote
    digest.update(json.dumps(settings).encode())
    for text in texts:
        for part in text:
            raw = part.encode()
            digest.update(len(raw).to_bytes(8, "little") + raw)
        digest.update(b"|")
    return digest.hexdigest()[:32]


def _build(arrays: Mapping[str, NDArray[Any]], count: int) -> Encoded:
    encoded = Encoded(**{name: arrays[name] for name in Encoded.__dataclass_fields__})
    sizes = (len(encoded.truncated), len(encoded.offsets) - 1, len(encoded.input_ids), len(encoded.token_type_ids))
    if sizes != (count, count, encoded.offsets[-1], encoded.offsets[-1]):
        raise ValueError("its arrays do not fit together")
    return encoded
