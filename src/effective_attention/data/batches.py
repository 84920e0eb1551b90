"""Make batches of examples, grouped by length and padded to the longest of the batch or to the maximum.

Plain torch, no Lightning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention.data.encoding import Encoded
from effective_attention.data.examples import Examples
from effective_attention.processes import rank_and_world

Batch = dict[str, Tensor]
Padding = Literal["longest", "max_length"]
_POOL = 50  # batches that are sorted together; large enough to waste little padding, small enough to stay random


@dataclass(frozen=True)
class EncodedSplit(Dataset[int]):
    """One split, tokenised. Items are bare indices; ``collate`` turns a list of them into a batch.

    Attributes:
        name: Of the split.
        examples: Its texts and labels.
        encoded: Their tokens.
        verb_ids: The tokens of the verb that follows each text, singular and plural (``data.agreement.verbs``); None:
            no verb is asked for.
        left_out: How many texts are not there because their verb cannot be asked for.
    """

    name: str
    examples: Examples
    encoded: Encoded
    verb_ids: NDArray[np.int64] | None = None
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> int:
        return index

    def facts(self) -> dict[str, float]:
        """Return numbers a reader of the results should know: examples, truncated ones, skipped rows and lengths."""
        lengths = self.encoded.lengths
        asked = {} if self.verb_ids is None else {f"data/{self.name}/left_out": self.left_out}
        return {
            **asked,
            f"data/{self.name}/examples": len(self),
            f"data/{self.name}/truncated": int(self.encoded.truncated.sum()),
            f"data/{self.name}/skipped_rows": self.examples.skipped_rows,
            f"data/{self.name}/mean_length": round(float(lengths.mean()), 2),
            f"data/{self.name}/max_length": int(lengths.max()),
        }


class LengthBucketSampler(Sampler[list[int]]):
    """A sampler of batches of similar length, in a new order each epoch; of n processes each gets every n-th batch.

    Evaluation (``shuffle=False``) goes from long to short, so that memory runs out at once or not at all.

    Args:
        lengths: Tokens of each example.
        batch_size: Most examples a batch.
        shuffle: Whether each epoch has another order.
        seed: Of that order.
        equal: Whether the examples of a batch must be of one length, so that none is padded.
    """

    def __init__(
        self, lengths: NDArray[np.int64], batch_size: int, *, shuffle: bool, seed: int = 0, equal: bool = False
    ) -> None:
        self.lengths = lengths
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.equal = equal
        self.epoch = 0
        self._skip = 0
        self.sampler = self  # where Lightning looks for set_epoch

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def resume(self, epoch: int, batches_done: int) -> None:
        """Continue in the middle of an epoch: leave out its first batches, once."""
        self.epoch = epoch
        self._skip = batches_done % len(self)

    def __iter__(self) -> Iterator[list[int]]:
        rank, world = rank_and_world()
        skip = self._skip
        self._skip = 0
        batches = self._batches()
        if self.shuffle:  # every process must take as many steps: start over until they come out even
            batches = [batches[i % len(batches)] for i in range(world * len(self))]
        yield from batches[rank::world][skip:]

    def __len__(self) -> int:
        rank, world = rank_and_world()
        return -(-self.total // world) if self.shuffle else len(range(rank, self.total, world))

    @property
    def total(self) -> int:
        """Return how many batches all processes have together."""
        groups = np.unique(self.lengths, return_counts=True)[1] if self.equal else np.asarray([len(self.lengths)])
        return int((-(-groups // self.batch_size)).sum())

    def _batches(self) -> list[list[int]]:
        if not self.shuffle:
            return self._cut(np.argsort(-self.lengths, kind="stable"))
        generator = np.random.default_rng((self.seed, self.epoch))
        order = generator.permutation(len(self.lengths))
        pool = len(order) if self.equal else _POOL * self.batch_size  # so that only the last of a length is not full
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            part = order[start : start + pool]
            batches += self._cut(part[np.argsort(self.lengths[part], kind="stable")])
        return [batches[i] for i in generator.permutation(len(batches))]

    def _cut(self, order: NDArray[Any]) -> list[list[int]]:
        """Cut examples, sorted by length, into batches."""
        changes = np.diff(self.lengths[order]).nonzero()[0] + 1 if self.equal else []
        runs = np.split(order, changes)
        return [run[i : i + self.batch_size].tolist() for run in runs for i in range(0, len(run), self.batch_size)]


def collate(
    split: EncodedSplit,
    indices: Sequence[int],
    tokenizer: Tokenizer,
    *,
    pad_id: int,
    width: int | None = None,
    scores: bool = False,
) -> Batch:
    """Make a batch: token ids, mask, segments, labels where there are any, and the examples' places in the split.

    Where verbs are asked for, ``verb_ids`` too: (text, 1, number), so that no length of the texts is taken for theirs.

    Args:
        split: The examples.
        indices: The chosen examples.
        tokenizer: Says whether the model takes segments.
        pad_id: What texts are filled up with, on the right; see ``padding``.
        width: Tokens to pad to; None: as many as the longest has.
        scores: Whether labels are numbers, not classes.
    """
    lengths = split.encoded.lengths[list(indices)]
    width = int(lengths.max()) if width is None else width
    ids = np.full((len(indices), width), pad_id, dtype=np.int64)
    types = np.zeros_like(ids)
    for row, index in enumerate(indices):
        tokens, segments = split.encoded.row(index)
        ids[row, : len(tokens)] = tokens
        types[row, : len(tokens)] = segments
    batch = {
        "input_ids": torch.from_numpy(ids),
        "attention_mask": torch.from_numpy((np.arange(width) < lengths[:, None]).astype(np.int64)),
        "index": torch.tensor(indices),
    }
    if split.examples.labels is not None:
        labels = [split.examples.labels[index] for index in indices]
        batch["labels"] = torch.tensor(labels, dtype=torch.float32 if scores else torch.long)
    if split.verb_ids is not None:
        batch["verb_ids"] = torch.from_numpy(split.verb_ids[list(indices)])[:, None]  # (text, 1, number)
    if "token_type_ids" in tokenizer.model_input_names:
        batch["token_type_ids"] = torch.from_numpy(types)
    return batch


@runtime_checkable
class Batches(Protocol):
    """How examples become batches: what analyses need of a data module, be it Lightning's or ``TextBatches``."""

    tokenizer: Tokenizer
    batch_size: int
    max_length: int
    pad_id: int
    equal_lengths: bool

    @property
    def token_cache(self) -> Path | None:
        """Return the folder for token ids, annotations and finished parts of long work; None: nothing is kept."""

    def collate(self, split: EncodedSplit, indices: Sequence[int], *, padding: Padding | None = None) -> Batch:
        """Make a batch of some examples."""


@dataclass
class TextBatches:
    """Batches of texts without Lightning.

    Attributes:
        tokenizer: The model's tokenizer.
        batch_size: Examples a batch.
        max_length: Longer inputs have been cut.
        pad_id: What texts are filled up with.
        token_cache: The folder for token ids and finished work; see ``Batches``.
        scores: Whether labels are numbers, not classes.
        equal_lengths: Whether the examples of a batch must be of one length; see ``padding``.
    """

    tokenizer: Tokenizer
    batch_size: int
    max_length: int
    pad_id: int
    token_cache: Path | None = None
    scores: bool = False
    equal_lengths: bool = False

    def collate(self, split: EncodedSplit, indices: Sequence[int], *, padding: Padding | None = None) -> Batch:
        """Make a batch of some examples, padded to the longest of them or, if asked, to the maximum."""
        width = self.max_length if padding == "max_length" else None
        return collate(split, indices, self.tokenizer, pad_id=self.pad_id, width=width, scores=self.scores)
