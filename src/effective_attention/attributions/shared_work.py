"""What methods are computed from: a batch, the settings, and the work that several of them share.

Shared work is done when a method first reads it, timed once, and kept while the batch lasts. Each method that reads it
is charged with all of it, so that its cost is what it would be alone, whatever else ran before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from effective_attention.attention.trace import Part, Trace
from effective_attention.attributions.answer import answer_position
from effective_attention.attributions.request import AttributionRequest, Gradients
from effective_attention.graphs.conventions import RESIDUAL, Convention, trace_graph

STEPS = 32
Query = Literal["answer", "max"]
Result = TypeVar("Result")
Piece = tuple[str, Part | None]  # of shared work: its name, and of which attention


@dataclass(frozen=True)
class Settings:
    """How the methods are computed.

    Attributes:
        unknown: Id of the token that stands for a blank.
        row: The token whose attention is read; None: the one that the model answers from.
        query: Whether raw attention, rollout and flow are read from that token's row (``answer``), or are the largest
            that any query gives each token (``max``). Other methods that read attention read the row all the same.
        residual: Weight of the residual connection in rollout and flow.
        convention: What becomes of negative weights in a graph.
        steps: Of integrated gradients.
        seed: Of the random scores.
        receptive_field: Whether rollout and flow are divided by what even attention would bring; see
            ``graphs.receptive_field``.
        title: Under which a method that takes long shows how far it has got; None: it shows nothing.
    """

    unknown: int
    row: int | None = None
    residual: float = RESIDUAL
    convention: Convention = "absolute"
    steps: int = STEPS
    seed: int = 0
    receptive_field: bool = False
    title: str | None = None
    query: Query = "answer"


@dataclass(eq=False)
class Measured(Generic[Result]):
    """A result and what it cost.

    Attributes:
        result: What was computed.
        own: Seconds, without those of shared work.
        needs: The shared work that was read.
        shared: Seconds of it, and of the shared work that it read in turn, each without the others.
    """

    result: Result
    own: float
    needs: frozenset[str]
    shared: dict[Piece, float]

    @property
    def seconds(self) -> float:
        """What it would have cost alone."""
        return self.own + sum(self.shared.values())


@dataclass(eq=False)
class _Usage:
    """What a running computation has read so far, and the seconds that passed in making it."""

    needs: set[str] = field(default_factory=set)
    shared: dict[Piece, float] = field(default_factory=dict)
    elsewhere: float = 0.0


class SharedWork:
    """One batch for all methods.

    Args:
        request: The batch and its targets.
        words: The tokens that may be blanked, so neither padding nor delimiters.
        settings: How the methods are computed.
    """

    def __init__(self, request: AttributionRequest, words: Bool[Tensor, "batch key"], settings: Settings) -> None:
        self.request = request
        self.words = words
        self.settings = settings
        self._kept: dict[Piece, Measured[Any]] = {}
        self._running: list[_Usage] = []

    @property
    def trace(self) -> Trace:
        """The batch."""
        return self.request.trace

    @cached_property
    def rows(self) -> Int[Tensor, " batch"]:
        """Return the token of each example whose attention is read."""
        row = self.settings.row
        if row is None:
            return answer_position(self.trace)
        return torch.full((len(self.trace.mask),), row, device=self.trace.mask.device)

    @property
    def seeds(self) -> list[int]:
        """Return a seed for what is random about each example: that of its place in the split, not in the batch."""
        return [self.settings.seed * 1_000_003 + index for index in self.trace.inputs["index"].tolist()]

    @property
    def gradients(self) -> Gradients:
        """Shared work ``gradients``: one forward and one backward pass."""
        return self.shared("gradients", None, lambda: self.request.gradients)

    def weights(self, attention: Part) -> list[Float[Tensor, "batch head query key"]]:
        """Shared work ``weights``: each layer's attention; effective attention is split off here."""
        return self.shared("weights", attention, lambda: [layer.part(attention) for layer in self.trace.layers])

    def graph(self, attention: Part) -> Float[Tensor, "batch layer query key"]:
        """Shared work ``graph``: heads averaged, without residual, not negative."""

        def compute() -> Tensor:
            self.weights(attention)  # kept by the trace, where the graph finds it
            return trace_graph(self.trace, attention, self.settings.convention)

        return self.shared("graph", attention, compute)

    def row(self, weights: Float[Tensor, "batch layer query key"]) -> Float[Tensor, "batch layer key"]:
        """Read the row of ``Settings.row``; 0 on padding, also where that token is padding itself."""
        batch = torch.arange(len(weights), device=weights.device)
        return weights[batch, :, self.rows].masked_fill(~self.trace.mask[:, None], 0)

    def read(
        self, maps: Float[Tensor, "batch layer query key"], query: Query | None = None
    ) -> Float[Tensor, "batch layer key"]:
        """Read maps as ``query`` says (None: as ``Settings.query`` does); 0 on padding."""
        if (self.settings.query if query is None else query) == "answer":
            return self.row(maps)
        mask = self.trace.mask
        real = mask[:, None, :, None] & mask[:, None, None, :]  # (batch, 1, query, key)
        return maps.masked_fill(~real, 0).amax(dim=-2)

    def shared(self, name: str, attention: Part | None, compute: Callable[[], Result]) -> Result:
        """Compute once, keep, and charge everyone who reads it.

        Args:
            name: Of this work; methods that read it say so in their ``needs``.
            attention: Of which attention it is; None: of none.
            compute: Does the work; it may read other shared work.
        """
        piece = (name, attention)
        if piece not in self._kept:
            self._kept[piece] = self.measured(compute)
        kept: Measured[Result] = self._kept[piece]
        if self._running:
            reader = self._running[-1]
            reader.needs.add(name)
            reader.shared |= {**kept.shared, piece: kept.own}
        return kept.result

    def measured(self, compute: Callable[[], Result]) -> Measured[Result]:
        """Compute, and find out what it costs with all the shared work it reads."""
        usage = _Usage()
        self._running.append(usage)
        try:
            start = self._now()
            result = compute()
            spent = self._now() - start
        finally:
            self._running.pop()
        if self._running:
            self._running[-1].elsewhere += spent
        return Measured(result, spent - usage.elsewhere, frozenset(usage.needs), usage.shared)

    def _now(self) -> float:
        device = self.trace.mask.device
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()
