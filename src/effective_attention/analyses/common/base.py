"""What every analysis is: options in ``__init__``, the split and the model in ``setup``, a tidy table from ``compute``.

Three kinds:

- ``SplitAnalysis`` reads a whole split: a ``torchmetrics.Metric`` whose ``update(trace)`` adds to small sums, so that a
  dataset of any size streams through in constant memory and several processes bring their sums together.
- ``TextAnalysis`` reads one text, an example of the split or what the user wrote: ``look(trace)`` makes the table.
- ``Study`` is long work in parts that are kept on disk, so that it goes on where it was when it is killed.

No analysis plots, saves results, or changes what it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torchmetrics import Metric
from transformers import PreTrainedModel

from effective_attention.analyses.common.options import check_example
from effective_attention.analyses.common.schema import Schema
from effective_attention.attention.stacks import Stack
from effective_attention.attention.trace import Trace
from effective_attention.data.tasks import Task
from effective_attention.processes import gather


@dataclass(frozen=True)
class SplitFacts:
    """What is known of the examples before the first batch.

    Attributes:
        examples: How many there are.
        max_length: No example has more tokens.
        lengths: How many tokens each has; None: not known.
        token_ids: Those of one example, by its number; None: not known.
        texts: What was tokenised, a text or a pair, by the example's number; None: not known.
        relations: Names of the dependency relations that tokens have; empty without a tagger.
        token_facts: What the tokens of one example are, by its number; see the module ``tokens``; None: not known.
    """

    examples: int
    max_length: int
    lengths: NDArray[np.int64] | None = None
    token_ids: Callable[[int], list[int]] | None = None
    texts: Callable[[int], tuple[str, ...]] | None = None
    relations: tuple[str, ...] = ()
    token_facts: Callable[[int], Mapping[str, NDArray[Any]]] | None = None


@dataclass(frozen=True)
class UserText:
    """A text, or a pair, that the user wrote: what it says, and its trace."""

    texts: tuple[str, ...]
    trace: Trace


@dataclass(frozen=True)
class OtherModels:
    """Models beside the one that is looked at, loaded when they are first asked for.

    Attributes:
        pretrained: The model that this one started from; None: this is that one, its classification head random.
        masked_lm: The encoder with its masked-language-model head; None: there is no encoder to ask.
    """

    pretrained: Callable[[], PreTrainedModel] | None = None
    masked_lm: Callable[[], PreTrainedModel] | None = None


@dataclass(frozen=True)
class Context:
    """What an analysis may know before the first batch.

    Attributes:
        layers: How many attention layers the model has.
        heads: How many heads a layer has.
        width: Width of the hidden states; 0: a home-made model hands none out.
        split: The examples.
        causal: Whether no token sees a later one.
        probe: The trace of a short text, to try out what the model has; None: there is none.
        seed: Seed of analyses that draw a sample.
        task: What the model was trained for; None where that does not matter.
        tokenizer: To name tokens.
        text: A text of the user's; None: the split is all there is.
        models: Other models.
        facts: What is known of the run, and what testing measured (``run/model``, ``test/standard/seconds`` and so on).
        folder: ``folder(analysis, options)`` is where finished parts of long work on this very model and split are
            kept; None: nowhere. See ``io.PartStore``.
    """

    layers: int
    heads: int
    width: int
    split: SplitFacts
    causal: bool = False
    probe: Trace | None = None
    seed: int = 0
    task: Task | None = None
    tokenizer: Any = None
    text: UserText | None = None
    models: OtherModels = field(default_factory=OtherModels)
    facts: Mapping[str, Any] = field(default_factory=dict)
    folder: Callable[[str, Mapping[str, Any]], Path] | None = None

    @property
    def examples(self) -> int:
        """Return how many examples the split has."""
        return self.split.examples

    @property
    def max_length(self) -> int:
        """Return how many tokens an example can have."""
        return self.split.max_length


class Analysis:
    """What all kinds of analysis share; one that needs neither split nor text of its own (``timing``) is no more.

    Attributes:
        schema: The contract of its table.
        needs_tags: Reads parts of speech, so that texts must be tagged first.
        needs_reference: Compares with the pretrained model, so that it is left out where there is no finetuned one.
        needs_labels: Asks whether the model is right, so that it is left out where the task has no labels.
        needs_answer: Explains what the model answers, so that it is left out where a task has no labels and the head is
            random; which answer is right it need not know.
        reads_text: Looks at the text that the user wrote, where there is one; others look at the split all the same.
        needs_delimiters: Is about [CLS] and [SEP], so that it is left out where the tokenizer does not set them.
        needs_embeddings: Starts from a model's embeddings or reads its hidden states, which home-made models do not
            hand out.
        stacks: Which attentions it can read, beside an encoder's, of a model that reads one text and writes another:
            ``decoder``, ``cross``. See ``attention.stacks``.
        context: What ``setup`` was told.
    """

    schema: ClassVar[Schema | None] = None
    needs_tags: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = False
    needs_labels: bool = False
    needs_answer: ClassVar[bool] = False
    reads_text: ClassVar[bool] = False
    needs_delimiters: ClassVar[bool] = False
    needs_embeddings: ClassVar[bool] = False
    stacks: ClassVar[tuple[Stack, ...]] = ()
    context: Context

    @classmethod
    def analysis_name(cls) -> str:
        """Return the name of the analysis, its table and its config: that of the class with underscores.

        >>> class NullSpace(Analysis): ...
        >>> NullSpace.analysis_name()
        'null_space'
        """
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def obstacle(self, context: Context) -> str | None:
        """Say in a few words why this model cannot be looked at so; None: it can. Asked before ``setup``."""
        model = None if context.probe is None else context.probe.model
        if self.needs_embeddings and model is not None and not isinstance(model, PreTrainedModel):
            return f"embeddings and hidden states are known of transformers models only, not of {type(model).__name__}"
        logits = None if context.probe is None else context.probe.logits
        if self.needs_answer and model is not None and (logits is None or logits.ndim != 2):
            return f"{type(model).__name__} is no classifier"
        return None

    def setup(self, context: Context) -> Analysis:
        """Note what the model and the split are, check the options that depend on them, and start from nothing."""
        self.context = context
        return self

    def wants(self, indices: Sequence[int]) -> bool:
        """Tell whether the analysis wants to see these examples of the split; a batch that none wants is not traced."""
        return False

    def update(self, trace: Trace) -> None:
        """Take in a traced batch."""
        raise NotImplementedError

    def compute(self) -> pd.DataFrame:
        """Make the table of all that was seen, by all processes."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget what was seen."""
        self.setup(self.context)

    def to(self, device: torch.device) -> Analysis:
        """Move the analysis to this device; one without tensors of its own has nothing to move."""
        return self

    def pages(self) -> Iterator[tuple[str, str]]:
        """Yield interactive pages beside the table: each one's place in the run directory, and its HTML.

        The main one is ``<name of the analysis>.html``; others may lie in a folder of that name. Only one process is
        asked, at the end, and each page is written before the next one is asked for.
        """
        yield from ()


class SplitAnalysis(Analysis, Metric):
    """An analysis of a whole split; see the module's docstring.

    Attributes:
        resampled: Whether its examples may be drawn again for intervals (``resampling``), where it is made of sums;
            false where an example needs more room than sums have, or where its table has intervals of its own.
        values_only: Whether nobody reads other columns of the table than keys and value, as while examples are drawn
            again: what is dear may then be left out of them.
        joined: How each of its states is joined over batches and processes; empty: by a function of its own.
    """

    full_state_update = False
    resampled: ClassVar[bool] = True
    values_only: bool = False
    joined: Mapping[str, str] = MappingProxyType({})

    def wants(self, indices: Sequence[int]) -> bool:
        """Ask for every batch."""
        return True

    def reset(self) -> None:
        """Set all states back to nothing."""
        Metric.reset(self)

    def to(self, device: torch.device) -> Analysis:
        """Move the states."""
        Metric.to(self, device)
        return self

    def add_state(self, name: str, default: Any, dist_reduce_fx: Any = None, persistent: bool = False) -> None:
        """Add a state, and note how it is joined."""
        super().add_state(name, default, dist_reduce_fx, persistent)
        joined = dist_reduce_fx if isinstance(dist_reduce_fx, str) else ""
        self.joined = {**self.joined, name: joined}

    def add_sum(self, name: str, *shape: int) -> None:
        """Add a state that is summed over batches and processes, in double precision."""
        self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def set_dtype(self, dst_type: Any) -> Analysis:
        """Leave sums in double precision whatever the trainer's precision is."""
        return self


class TextAnalysis(Analysis):
    """An analysis of one text: an example of the split, or what the user wrote.

    Args:
        example: Which example of the split, counted from 0; not read where the user wrote a text.
    """

    reads_text = True

    def __init__(self, *, example: int = 0) -> None:
        self.example = example
        self._table: pd.DataFrame | None = None

    def setup(self, context: Context) -> Analysis:
        """Check that the split has the example."""
        super().setup(context)
        self._table = None
        check_example(f"analysis.{self.analysis_name()}.example", self.example, context)
        return self

    def wants(self, indices: Sequence[int]) -> bool:
        """Ask for the batch that has the example."""
        return self.context.text is None and self.example in indices

    def update(self, trace: Trace) -> None:
        """Look at the example, if the batch has it."""
        for place in (trace.inputs["index"] == self.example).nonzero()[:, 0].tolist():
            self._table = self.look(trace.example(place))

    def look(self, trace: Trace) -> pd.DataFrame:
        """Make the table from the trace of one text without padding."""
        raise NotImplementedError

    def compute(self) -> pd.DataFrame:
        """Return the table of whichever process was shown the example."""
        if self.context.text is not None:
            return self.look(self.context.text.trace.example(0))
        found = [table for table in gather(self._table) if table is not None]
        if not found:  # no process was shown the example
            return pd.DataFrame(columns=[] if self.schema is None else self.schema.names)
        return found[0]


class Study(Analysis):
    """Long work in parts, each kept on disk when it is finished; see the module's docstring.

    ``wants`` asks for the examples that still have to be read, ``update`` reads them, ``compute`` does the rest of the
    work, shared among processes.

    Attributes:
        device: The device to work on.
    """

    device: torch.device = torch.device("cpu")

    def to(self, device: torch.device) -> Analysis:
        """Work on this device."""
        self.device = device
        return self
