"""The first road into a model: transformers' ``AttentionInterface``, by which most of its models call their attention.

Every such model hands its projected queries, keys and values to a function that is registered by name. One name of ours
reaches all of them. The weights themselves come from the model's *own* eager function, so that whatever a family does
differently (position biases, soft caps, grouped queries, sinks) is kept; it is handed values of width 0 where the
product with the values is ours to take.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from effective_attention.attention.call import AttentionCall, AttentionOutput, EagerFunction, ScoredCall
from effective_attention.attention.forward_checks import unsupported
from effective_attention.attention.handlers import handle, innermost

_CHECKED: WeakSet[nn.Module] = WeakSet()  # layers whose heads are known to hand on weights times values
HOOKED = "hooked_attention"
"""The name under which our function is registered."""


def uses_interface(model: nn.Module) -> bool:
    """Tell whether every part of a model says that it calls its attention through the interface."""
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel)]
    return isinstance(model, PreTrainedModel) and all(part._can_set_attn_implementation() for part in parts)


def hooked_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> AttentionOutput:
    """Hand a layer's call to whoever handles it."""
    hook = innermost(module)
    fast = hook is not None and hook.checks.has_fast_kernel

    def build(**facts: Any) -> AttentionCall:
        return scored_call(module, query, key, value, attention_mask, options, has_fast_kernel=fast, **facts)

    return handle(module, build)


def scored_call(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    options: dict[str, Any],
    **facts: Any,
) -> ScoredCall:
    """Return what a layer hands to its attention function; a layer that is met for the first time is tried out.

    Raises:
        ValueError: Weights and values do not tell what the layer's heads hand on.
    """
    call = ScoredCall(
        module=module,
        query=query,
        key=key,
        value=value,
        mask=mask,
        options=options,
        function=eager_function(module),
        **facts,
    )
    if module not in _CHECKED and not options.get("dropout") and query.numel() > 0:
        with torch.no_grad():
            call.check_product()
        _CHECKED.add(module)
    return call


AttentionInterface.register(HOOKED, hooked_attention)
# Without a mask function of the same name transformers passes no mask at all; ours must be the additive one.
AttentionMaskInterface.register(HOOKED, eager_mask)


@contextmanager
def attention_function(model: PreTrainedModel, name: str) -> Iterator[None]:
    """Let ``model`` call the attention function registered as ``name`` inside the block; restore its own after it."""
    before = [(config, config._attn_implementation) for config in _configs(model)]
    try:
        model.set_attn_implementation(name)
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


def eager_function(module: nn.Module) -> EagerFunction:
    """Find the eager attention function of the file that defines the layer, or that one of its parents comes from."""
    for cls in type(module).__mro__:
        function: EagerFunction | None = getattr(sys.modules.get(cls.__module__), "eager_attention_forward", None)
        if function is not None:
            return function
    raise ValueError(unsupported(type(module).__name__))


def _configs(model: PreTrainedModel) -> list[Any]:
    """List every config that ``set_attn_implementation`` may touch, each once."""
    found: dict[int, Any] = {}
    pending = [part.config for part in model.modules() if isinstance(part, PreTrainedModel)]
    while pending:
        config = pending.pop()
        if config is not None and id(config) not in found:
            found[id(config)] = config
            pending += [getattr(config, name, None) for name in config.sub_configs]
    return list(found.values())
