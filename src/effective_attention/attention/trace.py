"""One forward pass, everything an analysis asks for: attention, values, masks and hidden states, layer by layer.

Standard and effective attention have the same output, so the model runs once, with its own attention; the effective
part is split off beside it, when an analysis first asks, and kept for the next one. A trace holds one batch: memory
does not grow with the dataset.

Notation: batch, head, query, key, d_head; ``width`` is that of the hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from effective_attention.attention.decomposition import Decomposition, Reading, decompose
from effective_attention.attention.implementations import (
    attention_function,
    check_swappable,
    eager_function,
    unsupported,
    visible_keys,
)

Part = Literal["standard", "effective", "null"]


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer's attention.

    Attributes:
        attention: Weights after softmax; rows of padding are there too, see ``Trace.mask``.
        value: One set of values per head (repeated under grouped-query attention).
        visible: What each query may see, (batch, 1 or head, 1 or query, key); None: everything.
        reading: What ``part`` means by effective attention; ``padded`` wants inputs padded to the maximum length.
        query: As the model compares them with keys, rotated where it rotates; None: not recorded.
        key: One set per head, as of values.
        scaling: The factor of query times key before the softmax; None: not known.
    """

    attention: Float[Tensor, "batch head query key"]
    value: Float[Tensor, "batch head key d_head"]
    visible: Bool[Tensor, "batch heads queries key"] | None = None
    reading: Reading = "exact"
    query: Float[Tensor, "batch head query d_key"] | None = None
    key: Float[Tensor, "batch head key d_key"] | None = None
    scaling: float | None = None

    @cached_property
    def exact(self) -> Decomposition:
        """The split with padding removed before."""
        return decompose(self.attention, self.value, self.visible)

    @cached_property
    def _parts(self) -> Decomposition:
        return (
            self.exact
            if self.reading == "exact"
            else decompose(self.attention, self.value, self.visible, reading=self.reading)
        )

    def part(self, name: Part) -> Float[Tensor, "batch head query key"]:
        """Standard, effective or null attention."""
        if name == "standard":
            return self.attention
        return self._parts.effective if name == "effective" else self._parts.null


@dataclass(frozen=True, eq=False)
class Trace:
    """A batch and what the model did with it.

    Attributes:
        model: Who did it.
        inputs: What the model was given, and ``labels`` and ``index`` (the examples' places in the split) where known.
        layers: From the first to the last.
        hidden: Embeddings, then the output of each layer.
        logits: What the model answered.
        tokens: Facts about each token, each (batch, key), -1 on padding; see ``analyses.tokens``.
        more: How to trace the same examples otherwise; see ``reference`` and ``at_full_length``.
    """

    model: PreTrainedModel
    inputs: Mapping[str, Tensor]
    layers: tuple[Layer, ...]
    hidden: tuple[Float[Tensor, "batch key width"], ...]
    logits: Tensor
    tokens: Mapping[str, Int[Tensor, "batch key"]] = field(default_factory=dict)
    more: Mapping[str, Callable[..., Trace]] = field(default_factory=dict)

    @cached_property
    def mask(self) -> Bool[Tensor, "batch key"]:
        """True on real tokens."""
        mask = self.inputs.get("attention_mask")
        return torch.ones_like(self.inputs["input_ids"], dtype=torch.bool) if mask is None else mask.bool()

    @cached_property
    def lengths(self) -> Int[Tensor, batch]:
        return self.mask.sum(dim=-1)

    @cached_property
    def reference(self) -> Trace | None:
        """The same batch in the pretrained model this one started from; None where there is none."""
        make = self.more.get("reference")
        return None if make is None else make()

    def at_full_length(self, chosen: Bool[Tensor, batch]) -> Trace:
        """Some of the examples again, padded to the maximum length: what the published protocol is defined on."""
        return self.more["full_length"](chosen)


_RECORDING: ContextVar[list[Layer] | None] = ContextVar("layers of the trace being made", default=None)


def traced_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """The model's own eager attention, which leaves a record."""
    output, weights = eager_function(module)(module, query, key, value, attention_mask, **kwargs)
    layers = _RECORDING.get()
    if layers is not None:
        groups = weights.shape[1] // value.shape[1]
        keys, values = (
            part.detach().repeat_interleave(groups, dim=1) if groups > 1 else part.detach() for part in (key, value)
        )
        visible = visible_keys(attention_mask, weights)
        scaling = kwargs.get("scaling")
        layers.append(Layer(weights.detach(), values, visible, query=query.detach(), key=keys, scaling=scaling))
    return output, weights


AttentionInterface.register(traced_attention.__name__, traced_attention)
AttentionMaskInterface.register(traced_attention.__name__, eager_mask)


@torch.no_grad()
def trace(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    *,
    reading: Reading = "exact",
    tokens: Mapping[str, Tensor] | None = None,
    more: Mapping[str, Callable[..., Trace]] | None = None,
) -> Trace:
    """Run ``model`` once, in evaluation mode, and keep what happened; mode and attention are restored.

    Args:
        model: Any transformers model whose attention goes through the ``AttentionInterface``.
        inputs: The model's inputs; ``labels`` and ``index`` are kept but not handed to the model.
        reading: What the layers' ``part("effective")`` is.
        tokens: See ``Trace.tokens``.
        more: See ``Trace.more``.

    Raises:
        ValueError: The model does not use the interface.
    """
    check_swappable(model, "standard")
    layers: list[Layer] = []
    with _recording(model, layers):
        output = model(**for_model(inputs), output_hidden_states=True)
    if not layers:
        raise ValueError(unsupported(type(model).__name__))
    logits = output.get("logits", output.get("last_hidden_state"))
    layers = [replace(layer, reading=reading) for layer in layers]
    return Trace(model, inputs, tuple(layers), tuple(output.hidden_states), logits, tokens or {}, more or {})


def for_model(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A batch without what only we know of it."""
    return {name: value for name, value in inputs.items() if name not in ("labels", "index")}


@contextmanager
def _recording(model: PreTrainedModel, layers: list[Layer]) -> Iterator[None]:
    token = _RECORDING.set(layers)
    try:
        with evaluation_mode(model), attention_function(model, traced_attention.__name__):
            yield
    finally:
        _RECORDING.reset(token)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Without dropout; every part is put back into the mode it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
