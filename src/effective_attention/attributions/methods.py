"""Every explanation we offer, of the same examples: the scores each method gives to the tokens, and what it cost.

A method that reads attention looks at one row of it (that of [CLS], from which a classifier reads its answer), in every
layer, on standard and on effective attention; the others have one score per token. Each method is described where it is
computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from effective_attention.attention.trace import Part
from effective_attention.attention.variants import ATTENTIONS
from effective_attention.attributions.blank_out import blank_out
from effective_attention.attributions.gradients import gradient_times_input, gradient_weighted, input_gradients
from effective_attention.attributions.integrated_gradients import STEPS, integrated_gradients
from effective_attention.attributions.norms import norm_weights
from effective_attention.attributions.request import AttributionRequest
from effective_attention.graphs.conventions import RESIDUAL, Convention, signed_to_weights, trace_graph
from effective_attention.graphs.flow import flows
from effective_attention.graphs.rollout import attention_rollout

ATTENTION_METHODS = ("raw", "rollout", "flow", "gradient_attention", "gradient_rollout", "norm", "norm_rollout")
"""Read attention: one score per layer and token, for standard and for effective attention."""
TOKEN_METHODS = ("input_gradient", "gradient_x_input", "integrated_gradients", "blank_out", "random")
"""Do not: one score per token."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Settings:
    """How the methods are computed.

    Attributes:
        unknown: Id of the token that stands for a blank.
        row: The token whose attention is read.
        residual: Weight of the residual connection in rollout and flow.
        convention: What becomes of negative weights in a graph.
        steps: Of integrated gradients.
        seed: Of the random scores.
    """

    unknown: int
    row: int = 0
    residual: float = RESIDUAL
    convention: Convention = "absolute"
    steps: int = STEPS
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Attribution:
    """What one method says of a batch.

    Attributes:
        method: One of ``ATTENTION_METHODS`` or ``TOKEN_METHODS``.
        attention: Which attention it read; None where it reads none.
        scores: One layer where the method has none. May be negative where the token speaks against the target.
        seconds: For the whole batch, beyond the forward pass that all share.
    """

    method: str
    attention: Part | None
    scores: Float[Tensor, "batch layer key"]
    seconds: float


def explain(request: AttributionRequest, words: Bool[Tensor, "batch key"], settings: Settings) -> Iterator[Attribution]:
    """All methods in turn. ``words``: the tokens that may be blanked, so neither padding nor delimiters."""
    _, backward = _timed(request, lambda: request.gradients)  # kept for the next who asks, so each is charged with it
    for part in ATTENTIONS:
        yield from _from_attention(request, part, backward, settings)
    methods: tuple[tuple[str, float, Callable[[], Tensor]], ...] = (
        ("input_gradient", backward, lambda: input_gradients(request)),
        ("gradient_x_input", backward, lambda: gradient_times_input(request)),
        (
            "integrated_gradients",
            0,
            lambda: integrated_gradients(request, ~words, settings.unknown, steps=settings.steps),
        ),
        ("blank_out", 0, lambda: blank_out(request, ~words, settings.unknown)),
        ("random", 0, lambda: _random(request, settings.seed)),
    )
    for name, before, compute in methods:
        scores, seconds = _timed(request, compute)
        yield Attribution(name, None, scores[:, None], before + seconds)


def _from_attention(
    request: AttributionRequest, part: Part, backward: float, settings: Settings
) -> Iterator[Attribution]:
    row, residual, trace = settings.row, settings.residual, request.trace
    _, split = _timed(request, lambda: [layer.part(part) for layer in trace.layers])
    graph, mean = _timed(request, lambda: trace_graph(trace, part, settings.convention))
    weighted, product = _timed(request, lambda: gradient_weighted(request, part).double())
    norms, norm = _timed(request, lambda: norm_weights(trace, part).per_layer.double())
    methods: tuple[tuple[str, float, Callable[[], Tensor]], ...] = (
        ("raw", mean, lambda: graph[:, :, row]),
        ("rollout", mean, lambda: attention_rollout(graph, residual=residual)[:, :, row]),
        ("flow", mean, lambda: flows(graph, trace.mask, rows=[row], residual=residual)[:, :, 0]),
        ("gradient_attention", backward + product, lambda: weighted[:, :, row]),
        ("gradient_rollout", backward + product, lambda: _rolled_out(weighted, residual)[:, :, row]),
        ("norm", norm, lambda: norms[:, :, row]),
        ("norm_rollout", norm, lambda: _rolled_out(norms, residual)[:, :, row]),
    )
    for name, before, compute in methods:
        scores, seconds = _timed(request, compute)
        yield Attribution(name, part, scores, split + before + seconds)


def _rolled_out(weights: Tensor, residual: float) -> Tensor:
    """Rollout wants rows that sum to 1."""
    return attention_rollout(signed_to_weights(weights, "positive"), residual=residual)


def _random(request: AttributionRequest, seed: int) -> Tensor:
    """Scores that depend on the example and the seed alone, not on the batch it comes in: what guessing would earn."""
    mask = request.trace.mask.cpu()
    scores = torch.zeros(mask.shape, dtype=torch.float64)
    for place, index in enumerate(request.trace.inputs["index"].tolist()):
        generator = torch.Generator().manual_seed(seed * 1_000_003 + index)
        scores[place, mask[place]] = torch.rand(int(mask[place].sum()), generator=generator, dtype=torch.float64)
    return scores.to(request.trace.mask.device)


def _timed(request: AttributionRequest, compute: Callable[[], Result]) -> tuple[Result, float]:
    device = request.trace.mask.device
    _wait(device)
    start = time.perf_counter()
    result = compute()
    _wait(device)
    return result, time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
