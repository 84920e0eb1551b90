"""One forward pass, everything an analysis asks for: attention, values, masks and hidden states, layer by layer.

Standard and effective attention have the same output, so the model runs once, with its own attention; the effective
part is split off beside it, when an analysis first asks, and kept for the next one. A trace holds one batch: memory
does not grow with the dataset.

A model that reads one text and writes another has three attentions (``stacks``), and a trace is of one of them.

Notation: batch, head, query, key, d_head; ``width`` is that of the hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from effective_attention.attention.call import AttentionCall, AttentionOutput
from effective_attention.attention.handlers import Handler
from effective_attention.attention.hook import attention_hook
from effective_attention.attention.layer import CutLayer, Layer, Part, run_layer
from effective_attention.attention.readings import Protocol, Reading, as_reading
from effective_attention.attention.record import AttentionSwap
from effective_attention.attention.stacks import (
    Stack,
    StackFinder,
    check_caught,
    check_stack,
    check_written,
    read_inputs,
    written_inputs,
)

__all__ = ["Layer", "Part", "Trace", "for_model", "one_text", "trace", "trace_stacks"]


@dataclass(frozen=True, eq=False)
class Trace:
    """A batch and what the model did with it.

    Attributes:
        model: The model.
        inputs: What the model was given, and ``labels`` and ``index`` (the examples' places in the split) where known;
            of a decoder that writes, what that was given.
        layers: The attention of each layer, from the first to the last.
        hidden: Embeddings, then the output of each layer.
        logits: What the model answered.
        tokens: Facts about each token, each (batch, key), -1 on padding; see ``analyses.tokens``.
        more: How to trace the same examples otherwise; see ``reference`` and ``at_full_length``.
        stack: ``decoder`` or ``cross`` of a model that reads one text and writes another, which cannot be run with
            ``inputs`` alone; None: the model's only attention.
        source: Of cross-attention, the encoder's trace; see ``keys``.
    """

    model: nn.Module
    inputs: Mapping[str, Tensor]
    layers: tuple[Layer, ...]
    hidden: tuple[Float[Tensor, "batch key width"], ...]
    logits: Tensor
    tokens: Mapping[str, Int[Tensor, "batch key"]] = field(default_factory=dict)
    more: Mapping[str, Callable[..., Trace]] = field(default_factory=dict)
    stack: Stack | None = None
    source: Trace | None = None

    @property
    def keys(self) -> Trace:
        """Return the trace whose tokens are the keys, that is this one, but of cross-attention the encoder's."""
        return self if self.source is None else self.source

    @property
    def transformer(self) -> PreTrainedModel:
        """Return the model, for those who need one of transformers'.

        Raises:
            ValueError: It is a home-made one.
        """
        if not isinstance(self.model, PreTrainedModel):
            raise ValueError(f"this needs a transformers model, for its embeddings; got {type(self.model).__name__}")
        return self.model

    @cached_property
    def mask(self) -> Bool[Tensor, "batch query"]:
        """Return a mask that is True on real tokens; of images and sounds every place is one."""
        ids = self.inputs.get("input_ids")
        mask = self.inputs.get("attention_mask")
        if ids is None:
            batch, _, places, _ = self.layers[0].shape
            return torch.ones(batch, places, dtype=torch.bool, device=self.layers[0].value.device)
        return torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()

    @cached_property
    def lengths(self) -> Int[Tensor, " batch"]:
        return self.mask.sum(dim=-1)

    @cached_property
    def causal(self) -> bool:
        """Tell whether no token sees a later one, in any layer, as read off what the layers' masks show."""
        if self.source is not None:
            return False  # what is read is there before anything is written
        real = self.mask[:, :, None] & self.mask[:, None, :]
        later = torch.ones_like(real[0]).triu(1) & real  # (batch, query, key)
        if not bool(later.any()):
            return False  # texts of one token do not tell
        masks = [layer.visible for layer in self.layers if layer.shape[2:] == later.shape[1:]]  # to itself
        return bool(masks) and all(mask is not None and not bool((mask & later[:, None]).any()) for mask in masks)

    @cached_property
    def reference(self) -> Trace | None:
        """Trace the same batch in the pretrained model this one started from; None where there is none."""
        make = self.more.get("reference")
        return None if make is None else make()

    def example(self, row: int) -> Trace:
        """Cut one example out of the batch, without its padding; parts already split are cut too, not split again."""
        places = self.mask[row].nonzero()[:, 0]
        keys = self.keys.mask[row].nonzero()[:, 0]
        if len(self.mask) == 1 and bool(self.mask.all() & self.keys.mask.all()):
            return self
        own = slice(row, row + 1)
        size = self.mask.shape[1:]

        def cut(value: Tensor) -> Tensor:
            return value[own][:, places] if value.shape[1:2] == size else value[own]

        return Trace(
            self.model,
            {name: cut(value) for name, value in self.inputs.items()},
            tuple(CutLayer.out_of(layer, row, places, keys) for layer in self.layers),
            tuple(cut(hidden) for hidden in self.hidden),
            self.logits[own],
            {name: cut(value) for name, value in self.tokens.items()},
            self._more_of(row),
            stack=self.stack,
            source=None if self.source is None else self.source.example(row),
        )

    def _more_of(self, row: int) -> dict[str, Callable[..., Trace]]:
        """Return how to trace one example otherwise, as far as it is known of the batch."""
        more: dict[str, Callable[..., Trace]] = {}
        if "reference" in self.more:
            more["reference"] = lambda: self.reference.example(row)  # type: ignore[union-attr]
        if "full_length" in self.more:
            places = torch.arange(len(self.mask), device=self.mask.device)
            more["full_length"] = lambda chosen: self.at_full_length((places == row) & chosen)
        return more

    def at_full_length(self, chosen: Bool[Tensor, " batch"]) -> Trace:
        """Trace the chosen examples again, padded to the maximum length: what the published protocol is defined on."""
        return self.more["full_length"](chosen)


def trace(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    *,
    stack: Stack | None = None,
    reading: Reading | Protocol = "exact",
    tokens: Mapping[str, Tensor] | None = None,
    more: Mapping[str, Callable[..., Trace]] | None = None,
) -> Trace:
    """Run ``model`` once, in evaluation mode, and keep what happened; mode and attention are restored.

    Args:
        model: Any model whose attention can be met; see ``docs/models.md``.
        inputs: The model's inputs; ``labels`` and ``index`` are kept but not handed to the model.
        stack: Which attention of a model that reads one text and writes another: ``encoder`` (it alone is run),
            ``decoder`` or ``cross``, for which ``inputs`` must hold ``decoder_input_ids``; None: any other model.
        reading: What the layers' ``part("effective")`` is: the name of a protocol, or a ``readings.Reading``.
        tokens: See ``Trace.tokens``.
        more: See ``Trace.more``.

    Raises:
        ValueError: The model attends in a way that cannot be followed, or has no such stack.
    """
    check_stack(model, stack)
    if stack == "decoder" or stack == "cross":
        return replace(trace_stacks(model, inputs, reading=reading)[stack], tokens=tokens or {}, more=more or {})
    if stack == "encoder":
        assert isinstance(model, PreTrainedModel)
        model, inputs = model.get_encoder(), read_inputs(inputs)
    layers: list[Layer] = []
    with attention_hook(model, _keeping(reading, lambda layer, _: layers.append(layer)), evaluation=True):
        output = _run(model, inputs)
    _check_batch(model, inputs, layers)
    hidden = tuple(getattr(output, "hidden_states", None) or ())
    return Trace(model, inputs, tuple(layers), hidden, answer_of(output), tokens or {}, more or {})


def _check_batch(model: nn.Module, inputs: Mapping[str, Tensor], layers: list[Layer]) -> None:
    """Refuse layers that do not attend in all texts of a batch at once.

    Raises:
        ValueError: Names the model.
    """
    ids = inputs.get("input_ids")
    others = [] if ids is None else [layer.shape[0] for layer in layers if layer.shape[0] != len(ids)]
    if ids is not None and others:
        raise ValueError(
            f"{type(model).__name__}: of a batch of {len(ids)} texts, attention was met in {others[0]} at a time, so "
            "that it cannot be traced; let its layers multiply weights of (batch, head, query, key) (docs/models.md)"
        )


def trace_stacks(
    model: PreTrainedModel, inputs: Mapping[str, Tensor], *, reading: Reading | Protocol = "exact"
) -> dict[Stack, Trace]:
    """Trace all three attentions of a model that reads one text and writes another, in one run; see ``trace``.

    Raises:
        ValueError: The model is no encoder-decoder, attends in a way that cannot be followed, or there are no
            ``decoder_input_ids``.
    """
    check_stack(model, "encoder")
    check_written(model, inputs)
    layers: dict[Stack, list[Layer]] = {"encoder": [], "decoder": [], "cross": []}
    with StackFinder(model) as finder:
        keep = _keeping(reading, lambda layer, call: layers[finder.stack_of(call.module)].append(layer))
        with attention_hook(model, keep, evaluation=True):
            output = _run(model, inputs)
    check_caught(model, layers)
    source = Trace(
        model.get_encoder(),
        read_inputs(inputs),
        tuple(layers["encoder"]),
        tuple(output.encoder_hidden_states),
        output.encoder_last_hidden_state,
    )
    hidden = tuple(output.decoder_hidden_states)
    answer = answer_of(output)
    written = Trace(model, written_inputs(inputs), tuple(layers["decoder"]), hidden, answer, stack="decoder")
    cross = replace(written, layers=tuple(layers["cross"]), stack="cross", source=source)
    return {"encoder": source, "decoder": written, "cross": cross}


def _keeping(given: Reading | Protocol, keep: Callable[[Layer, AttentionCall], None]) -> Handler:
    """Return a handler that runs the model's own attention, and hands on what each call tells of its layer."""
    record = AttentionSwap()
    reading = as_reading(given)

    def handle(call: AttentionCall) -> AttentionOutput:
        output, layer = run_layer(call, record, reading)
        keep(layer, call)
        return output, None if layer.is_long else layer.attention

    return handle


@torch.no_grad()
def _run(model: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
    options = {"output_hidden_states": True} if isinstance(model, PreTrainedModel) else {}
    return model(**for_model(inputs), **options)


def one_text(trace: Trace, row: int) -> dict[str, Tensor]:
    """Return the inputs of one text of a batch, without the other texts and padding, as a batch of one."""
    real = trace.mask[row]
    inputs = {name: value[row : row + 1] for name, value in for_model(trace.inputs).items()}
    inputs = {name: value[:, real] if value.shape[1:2] == real.shape else value for name, value in inputs.items()}
    return {name: value.clone() if value.is_inference() else value for name, value in inputs.items()}


def for_model(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a batch without labels and indices, which the model does not take."""
    return {name: value for name, value in inputs.items() if name not in ("labels", "index")}


def answer_of(output: Any) -> Tensor:
    """Return what a model answered: its logits, or what its last layer returned, or the first tensor there is.

    Raises:
        ValueError: There is none.
    """
    parts = output if isinstance(output, tuple | list) else (output,)
    if isinstance(output, Mapping):
        parts = (output.get("logits"), output.get("last_hidden_state"), *output.values())
    answer = next((part for part in parts if isinstance(part, Tensor)), None)
    if answer is None:
        raise ValueError(
            "the model must return logits or vectors, alone, in a tuple or in a dictionary; got "
            f"{type(output).__name__} without a tensor (docs/models.md)"
        )
    return answer
