"""Batches: every example once, similar lengths together, padded as asked, the same for the same seed."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.data import batches as batches_module
from effective_attention.data.batches import LengthBucketSampler
from effective_attention.data.datamodule import TextDataModule
from effective_attention.data.examples import Examples
from effective_attention.errors import UserError

WORDS = [3, 9, 1, 5, 7, 2, 4, 6, 8, 10]


class ListSource:
    """A source of examples made here: ``WORDS[i]`` and one word, so example ``i`` has ``WORDS[i] + 4`` tokens."""

    name = "list"

    def __init__(self, labels: list[Any] | None = None) -> None:
        self.labels = labels or [index % 2 for index in range(len(WORDS))]
        self.loaded = []

    def load(self, task: Any, split: str) -> Examples:
        self.loaded.append(split)
        return Examples([("dog " * words, "cat") for words in WORDS], self.labels, "a list")


@pytest.fixture
def module(make_task: Callable[[str], Any], tokenizer: Any, tmp_path: Path) -> Callable[..., TextDataModule]:
    def make(task: str = "mrpc", source: Any = None, tokens: Any = tokenizer, **options: Any) -> TextDataModule:
        defaults = {"batch_size": 4, "max_length": 16, "padding": "longest", "token_cache": str(tmp_path)}
        return TextDataModule(make_task(task), source or ListSource(), tokens, **(defaults | options))

    return make


# --- the sampler ---

lengths_lists = st.lists(st.integers(3, 128), min_size=1, max_size=200).map(np.array)


def batches(lengths: Any, size: int = 4, *, shuffle: bool = True, seed: int = 0, epoch: int = 0) -> list[list[int]]:
    sampler = LengthBucketSampler(np.asarray(lengths), size, shuffle=shuffle, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


@settings(deadline=None)
@given(lengths_lists, st.integers(1, 9), st.booleans(), st.integers(0, 5), st.integers(0, 5))
def test_every_example_exactly_once_an_epoch(lengths: Any, size: int, shuffle: bool, seed: int, epoch: int) -> None:
    drawn = batches(lengths, size, shuffle=shuffle, seed=seed, epoch=epoch)
    assert sorted(index for batch in drawn for index in batch) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= size for batch in drawn)
    assert len(drawn) == len(LengthBucketSampler(lengths, size, shuffle=shuffle)) == -(-len(lengths) // size)


@settings(deadline=None)
@given(lengths_lists, st.integers(1, 9), st.integers(0, 5))
def test_batches_hold_neighbours_in_length(lengths: Any, size: int, seed: int) -> None:
    """Check that the length ranges of two batches of a pool do not overlap: no better grouping exists.

    200 examples fit in one pool.
    """
    spans = sorted((min(lengths[batch]), max(lengths[batch])) for batch in batches(lengths, max(size, 4), seed=seed))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


@settings(deadline=None)
@given(lengths=lengths_lists, size=st.integers(1, 9), shuffle=st.booleans(), seed=st.integers(0, 5))
def test_batches_of_one_length(lengths: Any, size: int, shuffle: bool, seed: int) -> None:
    sampler = LengthBucketSampler(lengths, size, shuffle=shuffle, seed=seed, equal=True)
    drawn = list(sampler)
    assert sorted(index for batch in drawn for index in batch) == list(range(len(lengths)))
    assert all(len({int(lengths[index]) for index in batch}) == 1 for batch in drawn)
    fewest = sum(-(-int((lengths == length).sum()) // size) for length in set(lengths.tolist()))
    assert len(drawn) == len(sampler) == sampler.total == fewest


def test_batches_of_one_length_change_from_epoch_to_epoch() -> None:
    sampler = LengthBucketSampler(np.asarray([7, 5] * 40), 4, shuffle=True, equal=True)
    first = [frozenset(batch) for batch in sampler]
    sampler.set_epoch(1)
    assert set(first) != {frozenset(batch) for batch in sampler}
    assert [len(sampler.lengths[list(batch)]) for batch in first] == [4] * 20


def test_a_loader_of_texts_that_may_not_be_padded(module: Callable[..., TextDataModule]) -> None:
    for batch in module(equal_lengths=True).val_dataloader():
        assert bool(batch["attention_mask"].all())
    assert any(not bool(batch["attention_mask"].all()) for batch in module().val_dataloader())


def test_bucketing_saves_padding_over_several_pools() -> None:
    lengths = np.random.default_rng(0).integers(10, 128, size=4 * batches_module._POOL * 3)
    padded = sum(len(batch) * lengths[batch].max() for batch in batches(lengths))
    assert padded < 1.05 * lengths.sum()


def test_evaluation_goes_from_long_to_short_and_is_stable() -> None:
    assert batches([5, 9, 5, 7, 9], 2, shuffle=False) == [[1, 4], [3, 0], [2]]


def test_order_depends_on_seed_and_epoch_and_on_nothing_else() -> None:
    lengths = np.random.default_rng(1).integers(5, 60, size=100)
    torch.manual_seed(1)
    first = batches(lengths, seed=0, epoch=0)
    torch.manual_seed(2)
    assert batches(lengths, seed=0, epoch=0) == first
    assert batches(lengths, seed=0, epoch=1) != first
    assert batches(lengths, seed=1, epoch=0) != first
    assert batches(lengths, seed=1, epoch=0) != batches(lengths, seed=0, epoch=1)
    members = {frozenset(batch) for batch in batches([7] * 100, epoch=1)}
    assert members != {frozenset(batch) for batch in batches([7] * 100)}, "not only the order of the batches changes"


def test_evaluation_order_ignores_seed_and_epoch() -> None:
    lengths = np.random.default_rng(1).integers(5, 60, size=50)
    assert batches(lengths, shuffle=False) == batches(lengths, shuffle=False, seed=3, epoch=2)


def each_rank(monkeypatch: Any, lengths: Any, size: int, world: int, *, shuffle: bool) -> list[list[list[int]]]:
    drawn = []
    for rank in range(world):
        monkeypatch.setattr(batches_module, "rank_and_world", lambda rank=rank: (rank, world))
        drawn.append(batches(lengths, size, shuffle=shuffle))
        assert len(LengthBucketSampler(np.asarray(lengths), size, shuffle=shuffle)) == len(drawn[-1])
    return drawn


@settings(deadline=None)
@given(lengths=lengths_lists, size=st.integers(1, 9), world=st.integers(1, 4))
def test_ranks_share_evaluation_out(lengths: Any, size: int, world: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        drawn = each_rank(patch, lengths, size, world, shuffle=False)
    seen = [index for rank in drawn for batch in rank for index in batch]
    assert sorted(seen) == list(range(len(lengths))), "nothing twice: metrics are summed over ranks"


@settings(deadline=None)
@given(lengths=lengths_lists, size=st.integers(1, 9), world=st.integers(1, 4))
def test_ranks_take_equally_many_training_steps(lengths: Any, size: int, world: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        drawn = each_rank(patch, lengths, size, world, shuffle=True)
    assert len({len(rank) for rank in drawn}) == 1, "unequal steps hang a gradient exchange"
    assert {index for rank in drawn for batch in rank for index in batch} == set(range(len(lengths)))


def test_a_resumed_sampler_leaves_out_what_was_done_once() -> None:
    lengths = np.random.default_rng(1).integers(5, 60, size=40)
    sampler = LengthBucketSampler(lengths, 4, shuffle=True)
    sampler.resume(epoch=2, batches_done=3)
    assert list(sampler) == batches(lengths, epoch=2)[3:]
    assert list(sampler) == batches(lengths, epoch=2)
    sampler.resume(epoch=1, batches_done=10)
    assert list(sampler) == batches(lengths, epoch=1), "a finished epoch leaves nothing out of the next"


# --- batches ---


def collect(loader: Any) -> dict[int, dict[str, torch.Tensor]]:
    """Collect the examples one by one, cut out of their batches."""
    rows = {}
    for batch in loader:
        for row, index in enumerate(batch["index"].tolist()):
            rows[index] = {name: value[row] for name, value in batch.items()}
    return rows


def test_padding_to_the_longest_of_the_batch(module: Callable[..., TextDataModule]) -> None:
    loader = module().val_dataloader()
    assert [tuple(batch["input_ids"].shape) for batch in loader] == [(4, 14), (4, 10), (2, 6)]


def test_padding_to_the_maximum(module: Callable[..., TextDataModule]) -> None:
    loader = module(padding="max_length").test_dataloader()
    assert [tuple(batch["attention_mask"].shape) for batch in loader] == [(4, 16), (4, 16), (2, 16)]


def test_padding_can_be_changed_between_loaders(module: Callable[..., TextDataModule]) -> None:
    data = module()
    data.padding = "max_length"
    assert next(iter(data.test_dataloader()))["input_ids"].shape[1] == 16


@pytest.mark.parametrize("padding", ["longest", "max_length"])
def test_rows_hold_tokens_mask_segments_and_label(
    padding: str, module: Callable[..., TextDataModule], tokenizer: Any
) -> None:
    rows = collect(module(padding=padding).train_dataloader())
    assert sorted(rows) == list(range(10))
    for index, row in rows.items():
        alone = tokenizer("dog " * WORDS[index], "cat")
        length = len(alone["input_ids"])
        pads = len(row["input_ids"]) - len(alone["input_ids"])
        assert row["input_ids"].tolist() == alone["input_ids"] + [tokenizer.pad_token_id] * pads
        assert row["token_type_ids"].tolist() == alone["token_type_ids"] + [0] * pads
        assert row["attention_mask"].tolist() == [1] * length + [0] * pads
        assert row["labels"].item() == index % 2


def test_pad_token_is_the_tokenizers_own(module: Callable[..., TextDataModule], tmp_path: Path) -> None:
    from effective_attention.models.encoders import TinyEncoder

    tokens = TinyEncoder().tokenizer()
    tokens.pad_token = "[MASK]"
    rows = collect(module(tokens=tokens, padding="max_length").val_dataloader())
    assert rows[2]["input_ids"][-1].item() == tokens.mask_token_id != 0


def test_a_model_without_segments_gets_none(module: Callable[..., TextDataModule]) -> None:
    from effective_attention.models.encoders import TinyEncoder

    tokens = TinyEncoder().tokenizer()
    tokens.model_input_names = ["input_ids", "attention_mask"]
    assert set(next(iter(module(tokens=tokens).val_dataloader()))) == {"input_ids", "attention_mask", "labels", "index"}


def test_dtypes(module: Callable[..., TextDataModule]) -> None:
    batch = next(iter(module().val_dataloader()))
    assert {name: value.dtype for name, value in batch.items()} == dict.fromkeys(
        ("input_ids", "attention_mask", "labels", "index", "token_type_ids"), torch.int64
    )
    scores = [index / 2 for index in range(10)]
    rows = collect(module("stsb", ListSource(scores)).val_dataloader())
    assert rows[3]["labels"].dtype == torch.float32
    assert [rows[index]["labels"].item() for index in range(10)] == scores


def test_limits_take_the_first_examples_of_each_split(module: Callable[..., TextDataModule]) -> None:
    data = module(limit_train=3, limit_eval=2)
    assert sorted(collect(data.train_dataloader())) == [0, 1, 2]
    assert sorted(collect(data.val_dataloader())) == sorted(collect(data.test_dataloader())) == [0, 1]
    assert len(module(limit_train=99).split("train")) == 10


def test_a_split_is_loaded_once(module: Callable[..., TextDataModule]) -> None:
    source = ListSource()
    data = module(source=source)
    data.val_dataloader(), data.test_dataloader(), data.train_dataloader(), data.split("train")
    assert source.loaded == ["validation", "train"]


def test_split_to_evaluate_on(module: Callable[..., TextDataModule]) -> None:
    assert module().eval_split == "validation"
    assert module("mnli").eval_split == "validation_matched"
    assert module("mnli", split="validation_mismatched").eval_split == "validation_mismatched"


def test_facts_tell_what_was_cut(module: Callable[..., TextDataModule]) -> None:
    data = module(max_length=8, limit_eval=4)  # texts 0, 2, 5 and 7 of 3, 1, 2 and 6 dogs
    data.split("validation")
    assert data.facts() == {
        "data/validation/examples": 4,
        "data/validation/truncated": 1,
        "data/validation/skipped_rows": 0,
        "data/validation/mean_length": (7 + 5 + 6 + 8) / 4,
        "data/validation/max_length": 8,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": "eight"}, r"data\.batch_size must be a whole number, at least 1, got 'eight'"),
        ({"batch_size": 2.5}, r"data\.batch_size must be a whole number.* got 2\.5"),
        ({"batch_size": 0}, r"data\.batch_size must be a whole number, at least 1, got 0"),
        ({"max_length": 4}, r"data\.max_length must be at least 5 .*, got 4"),
        ({"max_length": 513, "max_positions": 512}, r"add data\.max_length=512"),
        ({"padding": "left"}, r"data\.padding must be longest or max_length, got 'left'"),
        ({"limit_train": 0}, r"data\.limit_train must be .* at least 1, got 0"),
        ({"limit_eval": -3}, r"data\.limit_eval must be .* at least 1, got -3"),
        ({"num_workers": -1}, r"data\.num_workers must be .* at least 0, got -1"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str, module: Callable[..., TextDataModule]) -> None:
    with pytest.raises(UserError, match=message):
        module(**options)


def test_a_tokenizer_without_a_padding_token(module: Callable[..., TextDataModule]) -> None:
    from effective_attention.models.encoders import TinyEncoder

    tokens = TinyEncoder().tokenizer()
    tokens.pad_token = None
    rows = collect(module(tokens=tokens, padding="max_length").val_dataloader())
    assert rows[2]["input_ids"][-1].item() == tokens.cls_token_id  # [SEP] stands behind every text
    rows = collect(module(tokens=tokens, padding="max_length", pad_id=7).val_dataloader())
    assert rows[2]["input_ids"][-1].item() == 7  # what the model knows as padding


def test_workers_make_the_same_batches(module: Callable[..., TextDataModule]) -> None:
    alone, helped = (module(num_workers=count).val_dataloader() for count in (0, 1))
    for one, other in zip(alone, helped, strict=True):
        assert {name: value.tolist() for name, value in one.items()} == {
            name: value.tolist() for name, value in other.items()
        }


def test_fewer_batches_than_processes_is_one_line(
    module: Callable[..., TextDataModule], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("effective_attention.data.datamodule.rank_and_world", lambda: (0, 4))
    with pytest.raises(UserError, match="validation split has 3 batches for 4 processes"):
        module().test_dataloader()
    assert len(module(batch_size=2).test_dataloader().dataset) == len(WORDS)
