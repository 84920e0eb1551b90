"""One forward pass, everything an analysis asks for: attention, values, masks and hidden states, layer by layer.

Standard and effective attention have the same output, so the model runs once, with its own attention; the effective
part is split off beside it, when an analysis first asks, and kept for the next one. A trace holds one batch: memory
does not grow with the dataset.

Notation: batch, head, query, key, d_head; ``width`` is that of the hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from effective_attention.attention.decomposition import Decomposition, Reading, decompose
from effective_attention.attention.hook import AttentionCall, AttentionOutput, attention_hook
from effective_attention.attention.variants import PARTS, VARIANTS

Part = str
"""The name of an attention that a trace can show, one of ``variants.PARTS``."""


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
        groups: How many heads share a set of values, which is then split once for all of them.
    """

    attention: Float[Tensor, "batch head query key"]
    value: Float[Tensor, "batch head key d_head"]
    visible: Bool[Tensor, "batch heads queries key"] | None = None
    reading: Reading = "exact"
    query: Float[Tensor, "batch head query d_key"] | None = None
    key: Float[Tensor, "batch head key d_key"] | None = None
    scaling: float | None = None
    groups: int = 1

    @cached_property
    def exact(self) -> Decomposition:
        """Split the attention into effective and null part, with padding removed before."""
        return decompose(self.attention, self.value[:, :: self.groups], self.visible)

    @cached_property
    def _parts(self) -> Decomposition:
        return (
            self.exact
            if self.reading == "exact"
            else decompose(self.attention, self.value, self.visible, reading=self.reading)
        )

    def part(self, name: str) -> Float[Tensor, "batch head query key"]:
        """Return standard, effective or null attention.

        Raises:
            ValueError: There is no such part.
        """
        if name == "standard":
            return self.attention  # without a split, and rows of hidden keys as the model has them
        if name not in PARTS:
            raise ValueError(f"attention must be one of {', '.join(PARTS)}, got {name!r}")
        return VARIANTS[name].part(self._parts)  # type: ignore[misc]


@dataclass(frozen=True, eq=False)
class _CutLayer(Layer):
    """One example of a layer; its parts are cut out of those of the whole layer, which is split once for all examples.

    Attributes:
        whole: The layer of the batch.
        place: The example's row of the batch, and its real tokens.
    """

    whole: Layer | None = None
    place: tuple[int, Tensor] | None = None

    @classmethod
    def out_of(cls, layer: Layer, row: int, places: Tensor) -> Layer:
        """Cut one example's real tokens out of a layer."""
        visible = layer.visible
        if visible is not None:
            visible = visible.expand(len(layer.attention), *visible.shape[1:])[row : row + 1][..., places]
            visible = visible if visible.shape[2] == 1 else visible[:, :, places]
        own = slice(row, row + 1)
        return cls(
            layer.attention[own][:, :, places][..., places],
            layer.value[own][:, :, places],
            visible,
            layer.reading,
            query=None if layer.query is None else layer.query[own][:, :, places],
            key=None if layer.key is None else layer.key[own][:, :, places],
            scaling=layer.scaling,
            groups=layer.groups,
            whole=layer,
            place=(row, places),
        )

    @cached_property
    def exact(self) -> Decomposition:
        """Cut the example out of the whole layer's split."""
        return self.whole.exact.example(*self.place)  # type: ignore[union-attr, misc]

    @cached_property
    def _parts(self) -> Decomposition:
        return self.whole._parts.example(*self.place)  # type: ignore[union-attr, misc]


@dataclass(frozen=True, eq=False)
class Trace:
    """A batch and what the model did with it.

    Attributes:
        model: The model.
        inputs: What the model was given, and ``labels`` and ``index`` (the examples' places in the split) where known.
        layers: The attention of each layer, from the first to the last.
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
        """Return a mask that is True on real tokens."""
        mask = self.inputs.get("attention_mask")
        return torch.ones_like(self.inputs["input_ids"], dtype=torch.bool) if mask is None else mask.bool()

    @cached_property
    def lengths(self) -> Int[Tensor, batch]:
        return self.mask.sum(dim=-1)

    @cached_property
    def reference(self) -> Trace | None:
        """Trace the same batch in the pretrained model this one started from; None where there is none."""
        make = self.more.get("reference")
        return None if make is None else make()

    def example(self, row: int) -> Trace:
        """Cut one example out of the batch, without its padding; parts already split are cut too, not split again."""
        places = self.mask[row].nonzero()[:, 0]
        if len(self.mask) == 1 and len(places) == self.mask.shape[1]:
            return self
        own = slice(row, row + 1)
        size = self.mask.shape[1:]

        def cut(value: Tensor) -> Tensor:
            return value[own][:, places] if value.shape[1:2] == size else value[own]

        return Trace(
            self.model,
            {name: cut(value) for name, value in self.inputs.items()},
            tuple(_CutLayer.out_of(layer, row, places) for layer in self.layers),
            tuple(cut(hidden) for hidden in self.hidden),
            self.logits[own],
            {name: cut(value) for name, value in self.tokens.items()},
        )

    def at_full_length(self, chosen: Bool[Tensor, batch]) -> Trace:
        """Trace the chosen examples again, padded to the maximum length: what the published protocol is defined on."""
        return self.more["full_length"](chosen)


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
    layers: list[Layer] = []

    def keep(call: AttentionCall) -> AttentionOutput:
        output, weights = call.eager()
        assert weights is not None
        layers.append(_layer_of(call, weights, reading))
        return output, weights

    with attention_hook(model, keep, evaluation=True):
        output = model(**for_model(inputs), output_hidden_states=True)
    logits = output.get("logits", output.get("last_hidden_state"))
    return Trace(model, inputs, tuple(layers), tuple(output.hidden_states), logits, tokens or {}, more or {})


def one_text(trace: Trace, row: int) -> dict[str, Tensor]:
    """Return the inputs of one text of a batch, without the other texts and padding, as a batch of one."""
    real = trace.mask[row]
    inputs = {name: value[row : row + 1] for name, value in for_model(trace.inputs).items()}
    inputs = {name: value[:, real] if value.shape[1:2] == real.shape else value for name, value in inputs.items()}
    return {name: value.clone() if value.is_inference() else value for name, value in inputs.items()}


def for_model(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a batch without labels and indices, which the model does not take."""
    return {name: value for name, value in inputs.items() if name not in ("labels", "index")}


def _layer_of(call: AttentionCall, weights: Tensor, reading: Reading) -> Layer:
    """Record what a layer's call tells of the layer."""
    return Layer(
        weights.detach(),
        call.for_each_head(call.value, weights).detach(),
        call.visible(),
        reading,
        query=call.query.detach(),
        key=call.for_each_head(call.key, weights).detach(),
        scaling=call.options.get("scaling"),
        groups=call.query.shape[1] // call.value.shape[1],
    )
