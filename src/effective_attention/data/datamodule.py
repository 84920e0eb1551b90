"""Lightning data module of a task: tokenised once, grouped by length, padded to the batch's longest or a maximum."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase as Tokenizer

from effective_attention.data.agreement.verbs import askable, first_tokens
from effective_attention.data.batches import Batch, EncodedSplit, LengthBucketSampler, Padding, collate
from effective_attention.data.encoding import Encoded, default_cache_dir, encode
from effective_attention.data.examples import Examples
from effective_attention.data.padding import padding_id
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError
from effective_attention.io import add_arrays
from effective_attention.processes import rank_and_world


class Source(Protocol):
    """Any object that loads examples; see ``data.sources``."""

    @property
    def name(self) -> str:
        """Return what results call it."""

    def load(self, task: Task, split: str) -> Examples:
        """Load a split and check it."""


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
        limit_eval: Use so many evaluation examples, evenly spread over the split; None: all.
        num_workers: Processes that collate; 0 is fastest for short texts.
        seed: Seed of the training order.
        token_cache: Where token ids are kept; None: a folder in the user's cache.
        max_positions: How many tokens the model can take; None: no limit.
        pad_id: The token that the model knows as padding; None: the tokenizer's, or one that is chosen (``padding``).
        equal_lengths: Whether the texts of a batch must be of one length, so that none is padded (``padding``).
        verbs: Whether a language model is asked for the verb behind each text: batches then have its two forms.
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
        pad_id: int | None = None,
        equal_lengths: bool = False,
        verbs: bool = False,
    ) -> None:
        super().__init__()
        _check_options(batch_size, max_length, padding, max_positions)
        _check_at_least(1, limit_train=limit_train, limit_eval=limit_eval)
        _check_at_least(0, num_workers=num_workers)
        self.task = task
        self.source = source
        self.tokenizer = tokenizer
        self.pad_id = padding_id(tokenizer, pad_id)
        self.equal_lengths = equal_lengths
        self.verbs = verbs
        self.batch_size = batch_size
        self.max_length = max_length
        self.padding = padding
        self.limit_train = limit_train
        self.limit_eval = limit_eval
        self.num_workers = num_workers
        self.seed = seed
        self.eval_split = split or task.eval_splits[0]
        self.token_cache = default_cache_dir() if token_cache is None else Path(token_cache)
        self._splits: dict[str, EncodedSplit] = {}
        self._resumed: dict[str, int] | None = None

    def split(self, name: str) -> EncodedSplit:
        """Return a split, loaded and tokenised on first use."""
        if name not in self._splits:
            every = self.source.load(self.task, name)
            examples = self._askable(every) if self.verbs else every
            left_out = len(every) - len(examples)
            limit = self.limit_train if name == "train" else self.limit_eval
            if limit is not None:
                examples = examples.spread(limit)
            asked = first_tokens(examples.verbs or [], self.tokenizer) if self.verbs else None
            self._splits[name] = EncodedSplit(name, examples, self._encode(examples), asked, left_out)
        return self._splits[name]

    def _encode(self, examples: Examples) -> Encoded:
        return encode(examples.texts, self.tokenizer, self.max_length, self.token_cache)

    def _askable(self, examples: Examples) -> Examples:
        """Return the texts after which a language model can be asked for the verb."""
        return askable(examples, self._encode(examples).truncated, self.tokenizer)

    def facts(self) -> dict[str, float]:
        return {key: value for split in self._splits.values() for key, value in split.facts().items()}

    def fingerprint(self) -> str:
        """Digest what is learnt from and validated on: every token and every label, in their order."""
        digest = hashlib.blake2b(digest_size=16)
        for name in ("train", self.eval_split):
            split = self.split(name)
            add_arrays(digest, [split.encoded.input_ids, split.encoded.token_type_ids, split.encoded.offsets])
            digest.update(repr(split.examples.labels).encode())
        return digest.hexdigest()

    def resume(self, epoch: int, batches_done: int) -> None:
        """Begin in the middle of an epoch.

        Lightning counts the batches of an epoch, but does not leave them out on resuming.
        """
        self._resumed = {"epoch": epoch, "batches_done": batches_done}

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
        sampler = LengthBucketSampler(
            split.encoded.lengths, self.batch_size, shuffle=shuffle, seed=self.seed, equal=self.equal_lengths
        )
        _check_enough_for_all(name, sampler.total)
        return DataLoader(
            split,  # type: ignore[arg-type]
            batch_sampler=sampler,
            collate_fn=lambda indices: self.collate(split, indices),
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
        )

    def collate(self, split: EncodedSplit, indices: Sequence[int], *, padding: Padding | None = None) -> Batch:
        """Make a batch of some examples; see ``batches.collate``."""
        width = self.max_length if (padding or self.padding) == "max_length" else None
        scores = self.task.is_regression
        return collate(split, indices, self.tokenizer, pad_id=self.pad_id, width=width, scores=scores)


def _check_enough_for_all(split: str, batches: int) -> None:
    world = rank_and_world()[1]
    if batches < world:
        raise UserError(
            f"the {split} split has {batches} batches for {world} processes; choose a smaller "
            "data.batch_size, or fewer trainer.devices"
        )


def _check_options(batch_size: int, max_length: int, padding: str, max_positions: int | None) -> None:
    _check_at_least(1, batch_size=batch_size, max_length=max_length)
    if max_length < 5:
        raise UserError(f"data.max_length must be at least 5 to hold two texts and their delimiters, got {max_length}")
    if max_positions is not None and max_length > max_positions:
        raise UserError(
            f"data.max_length={max_length} is more than the model's positions; add data.max_length={max_positions}"
        )
    if padding not in ("longest", "max_length"):
        raise UserError(f"data.padding must be longest or max_length, got {padding!r}")


def _check_at_least(least: int, **options: int | None) -> None:
    for name, value in options.items():
        if value is not None and (not isinstance(value, int) or value < least):
            raise UserError(f"data.{name} must be a whole number, at least {least}, got {value!r}")
