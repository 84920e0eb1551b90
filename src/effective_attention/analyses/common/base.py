"""What every analysis is: a ``torchmetrics.Metric`` that is shown traces and answers with a tidy table.

``update(trace)`` adds to small sums, so that a dataset of any size streams through in constant memory and several
processes bring their sums together as with any metric. ``compute()`` gives a table with one value per row. An analysis
never plots, saves, or changes what it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics import Metric
from transformers import PreTrainedModel

from effective_attention.attention.trace import Trace
from effective_attention.data.tasks import Task
from effective_attention.errors import UserError


@dataclass(frozen=True)
class Context:
    """What an analysis may know before the first batch.

    Attributes:
        layers: How many attention layers the model has.
        heads: How many heads a layer has.
        d_head: Width of a head's values.
        width: Of the hidden states.
        max_length: No example is longer.
        examples: How many examples the split has.
        seed: For analyses that draw a sample.
        task: What the model was trained for; None where that does not matter.
        metrics: What testing measured (``test/standard/seconds`` and so on).
        tokenizer: To name tokens.
        text: The trace of a text the user gave; None: the split is all there is.
        texts: What the user gave, as it was written: a text or a pair; None: nothing.
        example_trace: Runs the model on one example of the split, by its number; None: the model is not to be had.
        example_texts: What that example's texts are; None: not known.
        reference: Loads the pretrained model that this one started from; None: this is that one, its classification
            head random.
        masked_lm: Loads the encoder with its masked-language-model head; None: there is no encoder to ask.
        lengths: How many tokens each example of the split has; None: not known.
        token_ids: Those of one example of the split, by its number; None: not known.
        relations: Names of the dependency relations that tokens of the split have; empty without a tagger.
        folder: ``folder(analysis, options)`` is where finished parts of long work on this very model and split are
            kept; None: nowhere. See ``analyses.kept``.
    """

    layers: int
    heads: int
    d_head: int
    width: int
    max_length: int
    examples: int
    seed: int = 0
    task: Task | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Any = None
    text: Trace | None = None
    texts: tuple[str, ...] | None = None
    example_trace: Callable[[int], Trace] | None = None
    example_texts: Callable[[int], tuple[str, ...]] | None = None
    reference: Callable[[], PreTrainedModel] | None = None
    masked_lm: Callable[[], PreTrainedModel] | None = None
    lengths: NDArray[np.int64] | None = None
    token_ids: Callable[[int], list[int]] | None = None
    relations: tuple[str, ...] = ()
    folder: Callable[[str, Mapping[str, Any]], Path] | None = None


class Analysis(Metric):
    """Base of all analyses; see the module's docstring.

    Attributes:
        needs_tags: Reads parts of speech, so that texts must be tagged first.
        needs_reference: Compares with the pretrained model, so that it is skipped where there is no finetuned one.
        needs_labels: Asks whether the model is right, so that it is skipped where the task has no labels.
        streams: Reads the split; False: ``compute`` needs the context only.
    """

    full_state_update = False
    needs_tags: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False
    streams: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context

    def wants(self, indices: Sequence[int]) -> bool:
        """Whether to be shown these examples of the split; a batch that no analysis wants is not traced."""
        return self.streams

    def update(self, trace: Trace) -> None:
        raise NotImplementedError

    def compute(self) -> pd.DataFrame:
        raise NotImplementedError

    def page(self) -> str | None:
        """An interactive page beside the table, as HTML; None: there is none. Asked for after ``compute``, by one process."""
        return None

    def add_sum(self, name: str, *shape: int) -> None:
        """A state that is added up over batches and processes, in double precision."""
        self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def set_dtype(self, dst_type: Any) -> Analysis:
        """Sums stay in double precision whatever the trainer's precision is."""
        return self


def tidy(values: Tensor, names: Mapping[str, Any], **columns: Tensor) -> pd.DataFrame:
    """A tensor as rows: one column per axis, named and labelled by ``names``, then ``value``.

    >>> import torch
    >>> tidy(torch.tensor([[1.0, 2.0]]), {"attention": ["standard"], "head": range(2)}).to_dict("list")
    {'attention': ['standard', 'standard'], 'head': [0, 1], 'value': [1.0, 2.0]}
    """
    index = pd.MultiIndex.from_product([list(labels) for labels in names.values()], names=list(names))
    table = index.to_frame(index=False)
    for column, tensor in {"value": values, **columns}.items():
        table[column] = tensor.detach().cpu().expand(values.shape).reshape(-1).numpy()
    return table


def mean_over(total: Tensor, count: Tensor) -> Tensor:
    """NaN where nothing was counted."""
    return torch.where(count > 0, total / count.clamp_min(1), torch.nan)


def layer_numbers(choice: Any, layers: int, option: str) -> list[int]:
    """``last``, ``all`` or a number (counted from 0; -1 is the last) as a list of layers."""
    if choice == "all":
        return list(range(layers))
    number = -1 if choice == "last" else choice
    if not isinstance(number, int) or isinstance(number, bool) or not -layers <= number < layers:
        raise UserError(f"{option} must be last, all or a layer from 0 to {layers - 1}, got {choice!r}")
    return [number % layers]


def whole(value: Any, least: int = 1) -> bool:
    """Whether it is a whole number, and no smaller.

    >>> whole(1), whole(0), whole(0, 0), whole(True), whole(2.0)
    (True, False, True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def check_limit(option: str, limit: Any) -> None:
    """Of examples; None: all."""
    if limit is not None and not whole(limit):
        raise UserError(f"{option} must be at least 1, or null for all, got {limit!r}")


def check_example(option: str, example: Any, context: Context) -> None:
    """A place in the split, which is not read where the user gave a text."""
    if context.text is None and (not isinstance(example, int) or not 0 <= example < context.examples):
        raise UserError(f"{option} must be from 0 to {context.examples - 1}, got {example!r}")


def name_tokens(table: pd.DataFrame, ids: Tensor, tokenizer: Any) -> None:
    """Add what stands at ``query`` and ``key``."""
    tokens = tokenizer.convert_ids_to_tokens(ids.tolist())
    for axis in ("query", "key"):
        table[f"{axis}_token"] = [tokens[place] for place in table[axis]]


def sample(context: Context, count: int | None) -> Tensor:
    """Which examples of the split, (examples,), belong to a random sample of ``count``; None: all. The same in every process."""
    chosen = torch.zeros(context.examples, dtype=torch.bool)
    order = torch.randperm(context.examples, generator=torch.Generator().manual_seed(context.seed))
    chosen[order if count is None else order[:count]] = True
    return chosen


def in_sample(chosen: Tensor, trace: Trace) -> Tensor:
    """Which examples of a batch, (batch,), belong to a sample; see ``sample``."""
    return chosen[trace.inputs["index"].cpu()].to(trace.mask.device)


def drawn(index: Tensor, share: float, seed: int) -> Tensor:
    """Which of some whole numbers (examples, or heads of examples) belong to a random sample of about this share.

    Decided by each number alone, so that neither batching nor the number of processes changes the sample.
    """
    mixed = index.long() + seed * 1_000_003
    for shift, factor in ((33, 0x7F51AFD7ED558CCD), (29, 0x44CEB9FE1A85EC53), (32, 1)):  # a 64-bit finaliser
        mixed = (mixed ^ ((mixed >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (mixed & ((1 << 53) - 1)).double() / (1 << 53) < share
