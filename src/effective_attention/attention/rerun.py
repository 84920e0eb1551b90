"""Run a model again, and watch its attention while autograd is on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from effective_attention.attention.implementations import (
    attention_function,
    head_outputs,
    unsupported,
    weights_and_values,
)
from effective_attention.attention.trace import Trace, evaluation_mode, for_model


@dataclass(frozen=True, eq=False)
class Call:
    """One layer's call of the attention function, still part of autograd's graph where that is on.

    Attributes:
        weights: After softmax.
        output: ``weights @ values``, as handed back to the layer.
    """

    weights: Float[Tensor, "batch head query key"]
    output: Float[Tensor, "batch query head d_head"]


_WATCHED: ContextVar[list[Call] | None] = ContextVar("calls of the attention being watched", default=None)


def watched_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """The model's own eager attention. The product is taken here, so that the recorded weights are those it really uses."""
    weights, values = weights_and_values(module, query, key, value, attention_mask, **kwargs)
    output = head_outputs(weights, values)
    calls = _WATCHED.get()
    if calls is not None:
        calls.append(Call(weights, output))
    return output, weights


AttentionInterface.register(watched_attention.__name__, watched_attention)
AttentionMaskInterface.register(watched_attention.__name__, eager_mask)


@contextmanager
def watching(model: PreTrainedModel) -> Iterator[list[Call]]:
    """The attention calls of ``model``, in evaluation mode, as they happen; mode and attention are restored."""
    calls: list[Call] = []
    token = _WATCHED.set(calls)
    try:
        with evaluation_mode(model), attention_function(model, watched_attention.__name__):
            yield calls
    finally:
        _WATCHED.reset(token)


def check_watched(trace: Trace, calls: list[Call]) -> None:
    """Every layer of the trace must have been seen again, no more and no fewer."""
    name = type(trace.model).__name__
    if not calls:
        raise ValueError(unsupported(name))
    if len(calls) != len(trace.layers):
        raise ValueError(
            f"{name} called its attention {len(calls)} times, but {len(trace.layers)} times when it was traced"
        )


@contextmanager
def autograd_on() -> Iterator[None]:
    """Whatever the caller switched off; a trainer that tests may have switched on inference mode, which is stronger."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def model_inputs(trace: Trace) -> dict[str, Tensor]:
    """What the model was given, without what only we know. Autograd cannot save tensors of inference mode: those are copied."""
    return {name: value.clone() if value.is_inference() else value for name, value in for_model(trace.inputs).items()}
