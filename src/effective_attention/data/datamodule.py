"""Examples of a task as batches: tokenised once, grouped by length, padded to the longest of the batch or to the maximum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention.data.encoding import Encoded, default_cache_dir, encode
from effective_attention.data.examples import Examples
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError

Batch = dict[str, Tensor]
Padding = Literal["longest", "max_length"]
_POOL = 50  # batches that are sorted together; large enough to waste little padding, small enough to stay random


class Source(Protocol):
    """Where examples come from: see ``data.sources``."""

    name: str

    def load(self, task: Task, split: str) -> Examples:
        """A split, checked."""


@dataclass(frozen=True)
class EncodedSplit(Dataset[int]):
    """One split, tokenised. Items are bare indices; ``collate`` turns a list of them into a batch."""

    name: str
    examples: Examples
    encoded: Encoded

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> int:
        return index

    def facts(self) -> dict[str, float]:
        """What a reader of the results should know of the split."""
        lengths = self.encoded.lengths
        return {
            f"data/{self.name}/examples": len(self),
            f"data/{self.name}/truncated": int(self.encoded.truncated.sum()),
            f"data/{self.name}/skipped_rows": self.examples.skipped_rows,
            f"data/{self.name}/mean_length": round(float(lengths.mean()), 2),
            f"data/{self.name}/max_length": int(lengths.max()),
        }


class LengthBucketSampler(Sampler[list[int]]):
    """Batches of similar length, in an order drawn anew each epoch. With several processes each gets every n-th batch.

    Evaluation (``shuffle=False``) goes from long to short, so that memory runs out at once or not at all.
    """

    def __init__(self, lengths: NDArray[np.int64], batch_size: int, *, shuffle: bool, seed: int = 0) -> None:
        self.lengths, self.batch_size, self.shuffle, self.seed = lengths, batch_size, shuffle, seed
        self.epoch, self._skip = 0, 0
        self.sampler = self  # where Lightning looks for set_epoch

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def resume(self, epoch: int, batches_done: int) -> None:
        """Go on in the middle of an epoch: its first batches are left out, once."""
        self.epoch, self._skip = epoch, batches_done % len(self)

    def __iter__(self) -> Iterator[list[int]]:
        rank, world = rank_and_world()
        skip, self._skip = self._skip, 0
        batches = self._batches()
        if self.shuffle:  # every process must take as many steps: start over until they come out even
            batches = [batches[i % len(batches)] for i in range(world * len(self))]
        yield from batches[rank::world][skip:]

    def __len__(self) -> int:
        rank, world = rank_and_world()
        count = -(-len(self.lengths) // self.batch_size)
        return -(-count // world) if self.shuffle else len(range(rank, count, world))

    def _batches(self) -> list[list[int]]:
        if not self.shuffle:
            return self._cut(np.argsort(-self.lengths, kind="stable"))
        generator = np.random.default_rng((self.seed, self.epoch))
        order = generator.permutation(len(self.lengths))
        pool = _POOL * self.batch_size
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            part = order[start : start + pool]
            batches += self._cut(part[np.argsort(self.lengths[part], kind="stable")])
        return [batches[i] for i in generator.permutation(len(batches))]

    def _cut(self, order: NDArray[Any]) -> list[list[int]]:
        return [order[i : i + self.batch_size].tolist() for i in range(0, len(order), self.batch_size)]


def rank_and_world() -> tuple[int, int]:
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


class TextDataModule(LightningDataModule):
    """A task's training and evaluation batches.

    Args:
        task: What the columns and labels are.
        source: Where the examples come from: sample, hub or local.
        tokenizer: The model's tokenizer.
        batch_size: Examples a batch, training and evaluation.
        max_length: Longer inputs are cut, counted and reported.
        padding: ``longest`` of the batch, or always to ``max_length`` as the paper does.
        split: The split to evaluate on; the task's first by default.
        limit_train: Use so many training examples, evenly spread over the split; None: all.
        limit_eval: Likewise for evaluation.
        num_workers: Processes that collate; 0 is fastest for short texts.
        seed: Of the training order.
        token_cache: Where token ids are kept; None: a folder in the user's cache.
        max_positions: How many tokens the model can take; None: no limit.
    """

    def __init__(
        self,
        task: Task,
        source: Source,
        tokenizer: Tokenizer,
        *,
        batch_size: int,
        max_length: int,
        padding: Padding,
        split: str | None = None,
        limit_train: int | None = None,
        limit_eval: int | None = None,
        num_workers: int = 0,
        seed: int = 0,
        token_cache: str | None = None,
        max_positions: int | None = None,
    ) -> None:
        super().__init__()
        _check_options(batch_size, max_length, padding, max_positions)
        _check_at_least(1, limit_train=limit_train, limit_eval=limit_eval)
        _check_at_least(0, num_workers=num_workers)
        if tokenizer.pad_token_id is None:
            raise UserError("the model's tokenizer has no padding token, so batches cannot be made; choose a model that has one")
        self.task, self.source, self.tokenizer = task, source, tokenizer
        self.batch_size, self.max_length, self.padding = batch_size, max_length, padding
        self.limit_train, self.limit_eval = limit_train, limit_eval
        self.num_workers, self.seed = num_workers, seed
        self.eval_split = split or task.eval_splits[0]
        self.token_cache = default_cache_dir() if token_cache is None else Path(token_cache)
        self._splits: dict[str, EncodedSplit] = {}
        self._resumed: dict[str, int] | None = None

    def split(self, name: str) -> EncodedSplit:
        """A split, loaded and tokenised on first use."""
        if name not in self._splits:
            examples = self.source.load(self.task, name)
            limit = self.limit_train if name == "train" else self.limit_eval
            if limit is not None:
                examples = examples.spread(limit)
            encoded = encode(examples.texts, self.tokenizer, self.max_length, self.token_cache)
            self._splits[name] = EncodedSplit(name, examples, encoded)
        return self._splits[name]

    def facts(self) -> dict[str, float]:
        return {key: value for split in self._splits.values() for key, value in split.facts().items()}

    def state_dict(self) -> dict[str, int]:
        """How far training had got: Lightning counts the batches of an epoch, but does not leave them out on resuming."""
        loop = self.trainer.fit_loop
        return {"epoch": loop.epoch_progress.current.processed, "batches_done": loop.epoch_loop.batch_progress.current.processed}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self._resumed = state_dict

    def train_dataloader(self) -> DataLoader[Batch]:
        loader = self._loader("train", shuffle=True)
        if self._resumed is not None:
            loader.batch_sampler.resume(**self._resumed)  # type: ignore[union-attr]
        return loader

    def val_dataloader(self) -> DataLoader[Batch]:
        return self._loader(self.eval_split, shuffle=False)

    def test_dataloader(self) -> DataLoader[Batch]:
        return self._loader(self.eval_split, shuffle=False)

    def _loader(self, name: str, *, shuffle: bool) -> DataLoader[Batch]:
        split = self.split(name)
        sampler = LengthBucketSampler(split.encoded.lengths, self.batch_size, shuffle=shuffle, seed=self.seed)
        return DataLoader(
            split,  # type: ignore[arg-type]
            batch_sampler=sampler,
            collate_fn=lambda indices: self.collate(split, indices),
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
        )

    def collate(self, split: EncodedSplit, indices: Sequence[int], *, padding: Padding | None = None) -> Batch:
        """Token ids, mask, segments, labels where the task has them, and the examples' positions in the split."""
        lengths = split.encoded.lengths[list(indices)]
        width = self.max_length if (padding or self.padding) == "max_length" else int(lengths.max())
        ids = np.full((len(indices), width), self.tokenizer.pad_token_id, dtype=np.int64)
        types = np.zeros_like(ids)
        for row, index in enumerate(indices):
            tokens, segments = split.encoded.row(index)
            ids[row, : len(tokens)], types[row, : len(tokens)] = tokens, segments
        batch = {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy((np.arange(width) < lengths[:, None]).astype(np.int64)),
            "index": torch.tensor(indices),
        }
        if split.examples.labels is not None:
            labels = [split.examples.labels[index] for index in indices]
            batch["labels"] = torch.tensor(labels, dtype=torch.float32 if self.task.is_regression else torch.long)
        if "token_type_ids" in self.tokenizer.model_input_names:
            batch["token_type_ids"] = torch.from_numpy(types)
        return batch


def _check_options(batch_size: int, max_length: int, padding: str, max_positions: int | None) -> None:
    _check_at_least(1, batch_size=batch_size, max_length=max_length)
    if max_length < 5:
        raise UserError(f"data.max_length must be at least 5 to hold two texts and their delimiters, got {max_length}")
    if max_positions is not None and max_length > max_positions:
        raise UserError(f"data.max_length={max_length} is more than the model's positions; add data.max_length={max_positions}")
    if padding not in ("longest", "max_length"):
        raise UserError(f"data.padding must be longest or max_length, got {padding!r}")


def _check_at_least(least: int, **options: int | None) -> None:
    for name, value in options.items():
        if value is not None and (not isinstance(value, int) or value < least):
            raise UserError(f"data.{name} must be a whole number, at least {least}, got {value!r}")
