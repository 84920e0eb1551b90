"""A model as a function: from what its first layer reads to the output of every layer.

What the first layer reads, ``x``, is ``hidden_states[0]``: the sum of token, segment and position embeddings, after
their LayerNorm where there is one. Where ``x`` goes in differs from family to family, and is found by looking: the
outermost module that is handed ``x`` and in which the first attention happens. It is then handed another ``x`` in its
place.

``embeddings="summed"`` goes one step further back: ``x`` is then the sum itself, before the LayerNorm, and goes in
there. Where embeddings are not normalised, both are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from effective_attention.attention.rerun import Call, removed_after, watching

Hidden = Callable[[Tensor], tuple[Tensor, ...]]
Embeddings = Literal["normalised", "summed"]
_NORMS = ("LayerNorm", "RMSNorm")  # how the classes of normalisations end


@contextmanager
def from_first_layer(
    model: PreTrainedModel, inputs: Mapping[str, Tensor], *, embeddings: Embeddings = "normalised"
) -> Iterator[tuple[Hidden, Float[Tensor, "1 key width"]]]:
    """``run`` and ``x``: ``run(x)`` is the output of every layer, each (1, query, width); the model's head is left out.

    The model is in evaluation mode with eager attention inside the block; mode, attention and hooks are restored.

    Args:
        model: Any transformers model whose attention goes through the ``AttentionInterface``.
        inputs: One text without padding, see ``trace.one_text``.
        embeddings: What ``x`` is: ``normalised``, what the first layer reads; ``summed``, before their LayerNorm.

    Raises:
        ValueError: The place where ``x`` goes in cannot be found.
    """
    base = model.base_model
    with watching(model) as calls:
        entrance, start = _find_entrance(base, inputs, calls, embeddings)
        given = _Replacement(entrance)
        hook = entrance.module.register_forward_pre_hook(given, with_kwargs=True)

        def run(x: Tensor) -> tuple[Tensor, ...]:
            given.next = x
            calls.clear()
            hidden: tuple[Tensor, ...] = tuple(base(**inputs, output_hidden_states=True).hidden_states[1:])
            return hidden

        try:
            yield run, start
        finally:
            hook.remove()


@dataclass(frozen=True, eq=False)
class _Entrance:
    """The module that reads ``x``, which of its arguments that is (a place, or a name), and whether batch is second."""

    module: nn.Module
    argument: int | str
    turned: bool = False


@dataclass
class _Replacement:
    """A hook that hands over ``next`` once: a layer that is called again (ALBERT's) then reads what the model made."""

    entrance: _Entrance
    next: Tensor | None = None

    def __call__(
        self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], Any] | None:
        if self.next is None:
            return None
        x = self.next.transpose(0, 1) if self.entrance.turned else self.next
        self.next = None
        argument = self.entrance.argument
        if isinstance(argument, str):
            return args, {**kwargs, argument: x}
        return (*args[:argument], x, *args[argument + 1 :]), kwargs


@dataclass(eq=False)
class _Handover:
    """A module that was handed ``value``, and how many attentions there had been when it began and when it was done."""

    entrance: _Entrance
    value: Tensor
    begin: int
    end: int = 0


@torch.no_grad()
def _find_entrance(
    base: PreTrainedModel, inputs: Mapping[str, Tensor], calls: list[Call], embeddings: Embeddings
) -> tuple[_Entrance, Tensor]:
    """Run once and see who is handed ``x`` before the first attention and done after it; the first is the outermost.

    For sums, the module is the last normalisation before it, if there is one.
    """
    handovers, start = _watch_handovers(base, inputs, calls)
    for place, handover in enumerate(handovers):
        if handover.begin == 0 < handover.end and _same(handover.value, start):
            norms = [one for one in handovers[:place] if type(one.entrance.module).__name__.endswith(_NORMS)]
            if embeddings == "summed" and norms:
                return norms[-1].entrance, norms[-1].value.clone()
            return replace(handover.entrance, turned=handover.value.shape != start.shape), start.clone()
    raise ValueError(
        f"where {type(base).__name__}'s first layer reads its input cannot be found, so that nothing can be attributed "
        f"to it; see docs/models.md for models of which it can"
    )


def _watch_handovers(
    base: PreTrainedModel, inputs: Mapping[str, Tensor], calls: list[Call]
) -> tuple[list[_Handover], Tensor]:
    """Run once; return what modules were handed, in order, and what the first layer read."""
    open_handovers: list[list[_Handover]] = []
    handovers: list[_Handover] = []

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        found = [
            _Handover(_Entrance(module, at), value, len(calls)) for at, value in given if isinstance(value, Tensor)
        ]
        handovers.extend(found)
        open_handovers.append(found)

    def leave(_module: nn.Module, _args: Any, _output: Any) -> None:
        for handover in open_handovers.pop():
            handover.end = len(calls)

    hooks = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in base.modules()]
    hooks += [module.register_forward_hook(leave) for module in base.modules()]
    with removed_after(hooks):
        start: Tensor = base(**inputs, output_hidden_states=True).hidden_states[0]
    return handovers, start


def _same(one: Tensor, other: Tensor) -> bool:
    """One and the same vectors; XLNet has (key, batch, width), and hands out a copy with the batch first."""
    return one.shape in (other.shape, other.transpose(0, 1).shape) and torch.equal(one.view(other.shape), other)
