"""The same model with layers that have learnt nothing: an explanation that stays the same does not explain the model.

Adebayo et al. (2018), "Sanity checks for saliency maps": the weights are drawn anew, all of them or from the top down
(their cascade), and explanations of both models are compared by rank correlation. Here the layers of the encoder are
drawn, as the architecture draws them before training; embeddings and head stay, so that both models see the same
vectors and are asked the same question. Deviation: their randomisation begins with the head.

The model itself is not touched: a second one is made, and random numbers are drawn aside.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import nn
from transformers import PreTrainedModel

from effective_attention.attention.trace import Trace, trace
from effective_attention.attributions.layer_modules import layer_modules
from effective_attention.errors import first_line


def randomised(seen: Trace, *, top: int | None = None, seed: int = 0) -> PreTrainedModel:
    """Make the model of a trace again, with random weights in its layers; it is in evaluation mode.

    Args:
        seen: A trace of the model; its first text is run once, to find the layers.
        top: How many layers are drawn, counted from the top; None: all. Layers that share weights are drawn together.
        seed: Of the weights.

    Raises:
        ValueError: It is no transformers model, a layer cannot be told from the rest, or the model cannot be built from
            its config alone.
    """
    model = seen.transformer
    layers = layer_modules(seen)
    if top is not None and not 1 <= top <= len(layers):
        raise ValueError(f"top must be from 1 to {len(layers)}, the layers of the model, or None for all, got {top!r}")
    with torch.inference_mode(False):  # gradients are asked of it too, wherever it is made
        fresh = _built(model, seed)
        _copy_others(model, fresh, layers if top is None else layers[-top:])
    return fresh


def trace_again(seen: Trace, model: nn.Module) -> Trace:
    """Trace the same batch in another model of the same shape, to be read in the same way."""
    return trace(model, seen.inputs, reading=seen.layers[0].reading, tokens=seen.tokens)


def _built(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    """Build a model of the same kind with the weights that it would begin a training with."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            fresh = type(model)(copy.deepcopy(model.config))
        except Exception as error:
            raise ValueError(
                f"{type(model).__name__} cannot be built from its config, to have random weights: {first_line(error)}"
            ) from error
    return fresh.to(device=model.device, dtype=model.dtype).eval()


@torch.no_grad()
def _copy_others(model: PreTrainedModel, fresh: PreTrainedModel, drawn: Iterable[nn.Module]) -> None:
    """Copy every weight that is not in one of the drawn modules."""
    kept_out = {id(value) for part in drawn for value in part.parameters()}
    for before, after in (
        (model.named_parameters(), fresh.named_parameters()),
        (model.named_buffers(), fresh.named_buffers()),
    ):
        targets = dict(after)
        for name, value in before:
            if id(value) not in kept_out:
                targets[name].copy_(value)
