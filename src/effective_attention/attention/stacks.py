"""The three attentions of a model that reads one text and writes another, as T5, BART and Marian do.

``encoder``: the text that is read, to itself. ``decoder``: the text that is written, each token to itself and to those
before it. ``cross``: from each token that is written to those that were read; its queries and its keys are tokens of
different texts.

Which of them a call of the attention function belongs to is told by where the layer stands in the model, and inside
the decoder by what the layer was given: cross-attention is handed the encoder's states, self-attention is not.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torch import Tensor, nn
from transformers import PreTrainedModel

from effective_attention.attention.forward_checks import unsupported

Stack = Literal["encoder", "decoder", "cross"]
STACKS: tuple[Stack, ...] = ("encoder", "decoder", "cross")
_CHOICE = 'stack="encoder", "decoder" or "cross"'
_ANOTHERS_STATES = ("key_value_states", "encoder_hidden_states")  # what transformers' layers call them
_WRITTEN = "decoder_"


def has_stacks(model: nn.Module) -> bool:
    """Tell whether a model is an encoder and a decoder; either of the two alone is not."""
    if not isinstance(model, PreTrainedModel):
        return False
    return bool(getattr(model.config, "is_encoder_decoder", False)) and model.get_encoder() is not model


def check_stack(model: nn.Module, stack: str | None) -> None:
    """Refuse a stack that the model does not have, and an encoder-decoder without a choice.

    Raises:
        ValueError: Says what to choose.
    """
    name = type(model).__name__
    if stack is not None and stack not in STACKS:
        raise ValueError(f"stack must be one of {', '.join(STACKS)}, got {stack!r}")
    if stack is None and has_stacks(model):
        raise ValueError(f"{name} reads one text and writes another, with three attentions; choose {_CHOICE}")
    if stack is not None and not has_stacks(model):
        raise ValueError(f"stack is for models that read one text and write another; leave it out for {name}")


def read_inputs(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the encoder's part of a model's inputs, and what belongs to both."""
    return {name: value for name, value in inputs.items() if not name.startswith(_WRITTEN)}


def written_inputs(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the decoder's part of a model's inputs, called as any model's are, and what belongs to both."""
    shared = {name: inputs[name] for name in ("labels", "index") if name in inputs}
    own = {name: value for name, value in inputs.items() if name.startswith(_WRITTEN)}
    return {name.removeprefix(_WRITTEN): value for name, value in own.items()} | shared


def check_written(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> None:
    """Refuse inputs without the text that is written.

    Raises:
        ValueError: Says how to make it.
    """
    if "decoder_input_ids" not in inputs:
        raise ValueError(
            f"inputs must hold decoder_input_ids, what {type(model).__name__} has written; make them from a target's "
            "token ids with model.prepare_decoder_input_ids_from_labels(labels=ids)"
        )


def check_caught(model: PreTrainedModel, layers: Mapping[Stack, Sequence[object]]) -> None:
    """Refuse a model of which a stack was not reached: LongT5's encoder, say, has an attention of its own.

    Raises:
        ValueError: Names the stack.
    """
    missing = [stack for stack, found in layers.items() if len(found) == 0]
    if missing:
        raise ValueError(unsupported(f"{type(model).__name__} ({' and '.join(missing)})"))


class StackFinder:
    """Tells which stack a layer's call belongs to, for forward passes inside the block."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._encoder = set(model.get_encoder().modules())
        self._others = [module for module in model.modules() if module not in self._encoder]
        self._crosses: dict[nn.Module, bool] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> StackFinder:
        self._handles = [module.register_forward_pre_hook(self._look, with_kwargs=True) for module in self._others]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def stack_of(self, module: nn.Module) -> Stack:
        """Return the stack of a layer that has just called its attention function."""
        if module in self._encoder:
            return "encoder"
        return "cross" if self._crosses[module] else "decoder"

    def _look(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        given = inspect.signature(module.forward).bind_partial(*inputs, **options).arguments
        others = any(given.get(name) is not None for name in _ANOTHERS_STATES)
        key = given.get("key")  # FSMT's: query and key, one and the same within a text
        self._crosses[module] = others or (key is not None and key is not given.get("query"))
