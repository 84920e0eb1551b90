"""Run a model again, and watch its attention while autograd is on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from effective_attention.attention.call import AttentionCall, AttentionOutput, head_outputs
from effective_attention.attention.forward_checks import unsupported
from effective_attention.attention.hook import attention_hook
from effective_attention.attention.trace import Trace, for_model


@dataclass(frozen=True, eq=False)
class Call:
    """One layer's call of the attention function, still part of autograd's graph where that is on.

    Attributes:
        weights: After softmax.
        output: ``weights @ values``, as handed back to the layer.
    """

    weights: Float[Tensor, "batch head query key"]
    output: Float[Tensor, "batch query head d_head"]


@contextmanager
def watching(model: nn.Module) -> Iterator[list[Call]]:
    """Switch ``model`` to evaluation mode inside the block, and list its attention calls as they happen.

    Mode and attention are restored after it.
    """
    calls: list[Call] = []

    def watch(call: AttentionCall) -> AttentionOutput:
        """Compute the layer's output here, so that the recorded weights are those the model really uses."""
        weights, values = call.weights_and_values()
        output = head_outputs(weights, values)
        calls.append(Call(weights, output))
        return output, weights

    with attention_hook(model, watch, evaluation=True):
        yield calls


def check_watched(trace: Trace, calls: list[Call]) -> None:
    """Refuse a second run that did not see each layer of the trace exactly once."""
    name = type(trace.model).__name__
    if not calls:
        raise ValueError(unsupported(name))
    if len(calls) != len(trace.layers):
        raise ValueError(
            f"{name} called its attention {len(calls)} times, but {len(trace.layers)} times when it was traced"
        )


def check_states(trace: Trace) -> None:
    """Refuse a trace that does not hold what each layer was given."""
    if len(trace.hidden) != len(trace.layers) + 1:
        name = type(trace.model).__name__
        raise ValueError(f"{name} does not return what each of its layers is given (hidden_states)")


@contextmanager
def removed_after(hooks: Iterable[RemovableHandle]) -> Iterator[None]:
    """Take hooks off their modules when the block ends, however it ends."""
    handles = list(hooks)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def first_text(trace: Trace) -> dict[str, Tensor]:
    """Return what the model was given of the batch's first text; see ``model_inputs``."""
    return {name: value[:1] for name, value in model_inputs(trace).items()}


@contextmanager
def autograd_on() -> Iterator[None]:
    """Switch autograd on, whatever the caller switched off.

    A trainer that tests may have switched on inference mode, which is stronger.
    """
    with torch.inference_mode(False), torch.enable_grad():
        yield


def model_inputs(trace: Trace) -> dict[str, Tensor]:
    """Return what the model was given, without what only we know.

    Autograd cannot save tensors of inference mode: those are copied.
    """
    return {name: value.clone() if value.is_inference() else value for name, value in for_model(trace.inputs).items()}
