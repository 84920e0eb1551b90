"""Hidden states of a split in one memory-mapped file: (layer + 1, token, width) in float32, then a mark for each text.

Texts lie one after the other; layer 0 is the input embedding. A text's mark is set after its states have been flushed,
so that whoever is killed and started again has lost one batch at most. Several processes may write different texts to
the same file, which is made sparse: what is not written takes no room. A file of the wrong size is thrown away.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor


class States:
    """Nothing is written before the first ``write``.

    Args:
        folder: Of the file; None: a temporary one.
        layers: How many arrays of states, the input embeddings among them.
        lengths: Tokens of each text of the split.
        width: Of a state.
    """

    def __init__(self, folder: Path | None, layers: int, lengths: NDArray[np.int64], width: int) -> None:
        self.folder = folder
        self.layers = layers
        self.lengths = lengths
        self.width = width
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._size = self.bytes_of(np.arange(len(lengths)))

    def bytes_of(self, texts: NDArray[np.int64]) -> int:
        """Return how many bytes their states take."""
        return int(self.lengths[texts].sum()) * self.layers * self.width * np.dtype(np.float32).itemsize

    @cached_property
    def _temporary(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory()

    @property
    def path(self) -> Path:
        return (Path(self._temporary.name) if self.folder is None else self.folder) / "states.bin"

    def there(self) -> NDArray[np.bool_]:
        """Which texts have been written, (text,); reads the disk."""
        if not self._whole():
            return np.zeros(len(self.lengths), dtype=np.bool_)
        with self.path.open("rb") as file:
            file.seek(self._size)
            return np.frombuffer(file.read(), dtype=np.uint8).astype(np.bool_)

    def _whole(self) -> bool:
        if self.folder is None and "_temporary" not in self.__dict__:
            return False
        return self.path.is_file() and self.path.stat().st_size == self._size + len(self.lengths)

    @cached_property
    def _maps(self) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """States and marks, to write to."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self._whole():
            if self.path.is_file() and self.path.stat().st_size > 0:
                self.path.unlink(missing_ok=True)  # not ours to mend
            with self.path.open("ab") as file:
                file.truncate(self._size + len(self.lengths))
        shape = self.layers, int(self.starts[-1]), self.width
        states = np.memmap(self.path, np.float32, mode="r+", shape=shape)
        marks = np.memmap(self.path, np.uint8, mode="r+", offset=self._size, shape=(len(self.lengths),))
        return states, marks

    def write(self, texts: Mapping[int, Float[Tensor, "layer token width"]]) -> None:
        """Write some texts by number, without padding."""
        states, marks = self._maps
        for text, hidden in texts.items():
            states[:, self.starts[text] : self.starts[text + 1]] = hidden.float().cpu().numpy()
        states.flush()  # type: ignore[attr-defined]
        marks[list(texts)] = 1
        marks.flush()  # type: ignore[attr-defined]

    def read(self, layer: int, texts: Iterable[int]) -> Float[Tensor, "token width"]:
        """One layer's states of some texts, one after the other."""
        states, _ = self._maps
        rows = [states[layer, self.starts[text] : self.starts[text + 1]] for text in texts]
        return torch.from_numpy(np.concatenate(rows))

    def delete(self) -> None:
        """Delete the file, and its folder if nothing else is in it."""
        self.__dict__.pop("_maps", None)
        if self._whole() or self.path.is_file():
            self.path.unlink(missing_ok=True)
            if self.folder is not None and not any(self.folder.iterdir()):
                self.folder.rmdir()
