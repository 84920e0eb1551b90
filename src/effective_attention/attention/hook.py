"""One way into a model's attention: while a block lasts, every layer's call goes through a handler of ours.

Why a hook and not a forked model: every model that goes through transformers' ``AttentionInterface`` hands its
projected queries, keys and values to a named function. One name of ours reaches all of them. The weights themselves
come from the model's *own* eager function, so that whatever a family does differently (position biases, soft caps,
grouped queries, sinks) is kept; it is handed values of width 0 where the product with the values is ours to take.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from effective_attention.attention.decomposition import for_each_head
from effective_attention.attention.forward_checks import Counts, ForwardChecks, unsupported
from effective_attention.attention.precision import without_autocast

AttentionOutput = tuple[Tensor, Tensor | None]
_NAME = "hooked_attention"


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What one layer hands to its attention function.

    Attributes:
        module: The layer.
        query: (batch, head, query, d_key), as they are compared with keys.
        key: (batch, key-value head, key, d_key).
        value: (batch, key-value head, key, d_value).
        mask: Additive, None where nothing is hidden.
        options: What else the layer says, such as ``scaling`` and ``dropout``.
        number: How many calls the hook has seen before this one: the layer's number in the first pass of a block.
        weights_wanted: Whether somebody may ask the model for its attention weights.
        has_fast_kernel: Whether the model's family lets PyTorch's fast kernel compute the same.
    """

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    options: Mapping[str, Any]
    number: int = 0
    weights_wanted: bool = True
    has_fast_kernel: bool = False

    def eager(self) -> AttentionOutput:
        """Run the model's own eager attention: output (batch, query, head, d_value) and weights."""
        function = eager_function(self.module)
        return function(self.module, self.query, self.key, self.value, self.mask, **self.options)

    def weights_and_values(
        self,
    ) -> tuple[Float[Tensor, "batch head query key"], Float[Tensor, "batch head key d_value"]]:
        """Return the model's own weights, and one set of values per query head; their product is left to the caller."""
        weights = self.weights()
        return weights, self.for_each_head(self.value, weights)

    def weights(self) -> Float[Tensor, "batch head query key"]:
        """Return the model's own attention weights."""
        empty = self.value[..., :0]
        _, weights = eager_function(self.module)(self.module, self.query, self.key, empty, self.mask, **self.options)
        assert weights is not None
        return weights

    def for_each_head(self, part: Tensor, weights: Tensor) -> Tensor:
        """Repeat keys or values for every query head, where grouped queries share them."""
        return for_each_head(part, weights.shape[1])

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return that of the attention weights: batch, head, query, key."""
        return (*self.query.shape[:3], self.key.shape[2])

    def visible(self) -> Bool[Tensor, "batch heads query key"] | None:
        """Return what the mask lets each query see; None if that is everything."""
        return visible_keys(self.mask, self.key.shape[2])


Handler = Callable[[AttentionCall], AttentionOutput]


@dataclass
class Calls:
    """A count of the calls a hook has seen; those of an inner hook of the same layers count too."""

    calls: int = 0


@dataclass(frozen=True, eq=False)
class Hook:
    """A handler in use, the object that counts its calls, and what looks after each forward pass."""

    handler: Handler
    counter: Counts
    checks: ForwardChecks

    def run(self, call: AttentionCall) -> AttentionOutput:
        """Handle a call; numbers that are not finite are refused, here or when the model's forward pass ends."""
        with self.checks.naming(call.module):
            output, weights = self.handler(call)
        self.checks.see(call.module, output)
        return output, weights


# The hooks of each layer, outermost first: the innermost handles a call, all count it.
_HOOKS: WeakKeyDictionary[nn.Module, list[Hook]] = WeakKeyDictionary()


def hooked_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> AttentionOutput:
    """Hand a layer's call to the innermost hook; without one, run the model's own eager attention."""
    hooks = _HOOKS.get(module, [])
    number = hooks[-1].counter.calls if hooks else 0
    if not hooks:
        return AttentionCall(module, query, key, value, attention_mask, options).eager()
    checks = hooks[-1].checks
    call = AttentionCall(
        module, query, key, value, attention_mask, options, number, checks.weights_wanted, checks.has_fast_kernel
    )
    for hook in hooks:
        hook.counter.calls += 1
    return hooks[-1].run(call)


AttentionInterface.register(_NAME, hooked_attention)
# Without a mask function of the same name transformers passes no mask at all; ours must be the additive one.
AttentionMaskInterface.register(_NAME, eager_mask)


@contextmanager
def attention_hook(
    model: PreTrainedModel, handler: Handler, *, evaluation: bool = False, counter: Counts | None = None
) -> Iterator[None]:
    """Let ``handler`` compute the attention of every layer of ``model`` inside the block; restore all on the way out.

    Args:
        model: Any transformers model whose attention goes through the ``AttentionInterface``.
        handler: From a layer's call to its output and weights.
        evaluation: Run without dropout; every part is put back into the mode it was in.
        counter: Told of every call; None: nobody asks.

    Raises:
        ValueError: The model does not use the interface; raised by its forward pass where only that can tell.
        NotFiniteError: A layer's attention gives NaN or infinite numbers; raised when the forward pass ends.
    """
    check_interface(model)
    counts = counter or Calls()
    modules = list(model.modules())
    with ForwardChecks(model, counts) as checks, evaluation_mode(model, evaluation), attention_function(model, _NAME):
        hook = Hook(handler, counts, checks)
        for module in modules:
            _HOOKS.setdefault(module, []).append(hook)
        try:
            yield
        finally:
            for module in modules:
                _HOOKS[module].remove(hook)


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


@contextmanager
def evaluation_mode(model: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Switch dropout off inside the block and restore every part's mode after it; do nothing unless ``wanted``."""
    modes = {module: module.training for module in model.modules()} if wanted else {}
    if wanted:
        model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def check_interface(model: PreTrainedModel) -> None:
    """Refuse a model whose attention cannot be reached.

    Raises:
        TypeError: It is no transformers model.
        ValueError: It does not use the ``AttentionInterface``.
    """
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"swapping or tracing attention needs a transformers model, got {type(model).__name__}")
    for part in model.modules():
        if isinstance(part, PreTrainedModel) and not part._can_set_attn_implementation():
            raise ValueError(unsupported(type(part).__name__))


def eager_function(module: nn.Module) -> Callable[..., AttentionOutput]:
    """Find the eager attention function of the file that defines the layer, or that one of its parents comes from."""
    for cls in type(module).__mro__:
        function = getattr(sys.modules.get(cls.__module__), "eager_attention_forward", None)
        if function is not None:
            return function
    raise ValueError(unsupported(type(module).__name__))


def head_outputs(weights: Tensor, value: Tensor) -> Float[Tensor, "batch query head d_value"]:
    """Return what each head contributes to each token, in the layout that transformers expects.

    Under mixed precision the weights may be float32 and the values bfloat16: the product is taken in the wider type,
    and handed on in that of the values, as the model's own attention does.
    """
    wide = torch.promote_types(weights.dtype, value.dtype)
    batch, head, query, key = weights.shape
    shared, _, width = value.shape[1:]
    with without_autocast(value.device):
        folded = weights.to(wide).reshape(batch, shared, head // shared * query, key)  # heads of a group in one product
        output = (folded @ value.to(wide)).view(batch, head, query, width)
    return output.to(value.dtype).transpose(1, 2).contiguous()


def visible_keys(attention_mask: Tensor | None, keys: int) -> Bool[Tensor, "batch heads query key"] | None:
    """Read which keys an additive mask lets each query see.

    A query that sees none has uniform weights, so it sees all.
    """
    if attention_mask is None:
        return None
    visible = shown_by(attention_mask[..., :keys])
    return visible | ~visible.any(dim=-1, keepdim=True)


def shown_by(mask: Tensor) -> Tensor:
    """Return what an additive mask does not hide."""
    return mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2


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
