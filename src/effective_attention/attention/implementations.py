"""Standard, effective and padded attention as transformers attention functions, and the swap between them.

Why functions and not a forked model: every model that goes through transformers' ``AttentionInterface`` hands its
projected queries, keys and values to a named function. Registering ours under a name reaches all of them. The weights
themselves come from the model's *own* eager function, so that whatever a family does differently (position biases, soft
caps, grouped queries, sinks) is kept; it is handed values of width 0, because the product with the values is ours to
take.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from effective_attention.attention.decomposition import as_visible, effective_part, split

AttentionKind = Literal["standard", "effective", "padded"]
AttentionOutput = tuple[Tensor, Tensor]


@dataclass
class AttentionSwap:
    """What happened while an attention was swapped in.

    Attributes:
        kind: The attention in force.
        calls: How many times a layer called it.
        heads: How many (example, layer, head) were split.
        nontrivial: How many of those had a null space, so that effective attention can differ from standard attention
            at all.
        output_change: Largest relative change of any head's output, ``||A_effective V - A V|| / ||A V||``; only
            ``padded`` makes one.
        mean_output_change: Its mean over examples, layers and heads.
    """

    kind: AttentionKind
    calls: int = 0
    heads: int = 0
    nontrivial: int = 0
    output_change: float = 0.0
    _sum: float = field(default=0.0, repr=False)
    _mask: tuple[Tensor, Tensor | None] | None = field(default=None, repr=False, compare=False)

    @property
    def null_space_share(self) -> float:
        return self.nontrivial / self.heads if self.heads else 0.0

    @property
    def mean_output_change(self) -> float:
        return self._sum / self.heads if self.heads else 0.0

    def add_nullity(self, nullity: Int[Tensor, "batch head"]) -> None:
        self.heads += nullity.numel()
        self.nontrivial += int((nullity > 0).sum())

    def __add__(self, other: AttentionSwap) -> AttentionSwap:
        """What two processes saw, together."""
        return AttentionSwap(
            self.kind,
            calls=self.calls + other.calls,
            heads=self.heads + other.heads,
            nontrivial=self.nontrivial + other.nontrivial,
            output_change=max(self.output_change, other.output_change),
            _sum=self._sum + other._sum,
        )

    def add_change(self, change: Float[Tensor, "batch head"]) -> None:
        self.output_change = max(self.output_change, float(change.max()))
        self._sum += float(change.sum())


# The swaps whose model is running, outermost first: a call counts for all, what it did for the innermost.
_ACTIVE: ContextVar[tuple[AttentionSwap, ...]] = ContextVar("active attention swaps", default=())


@contextmanager
def use_attention(model: PreTrainedModel, kind: AttentionKind) -> Iterator[AttentionSwap]:
    """Run ``model`` with another attention inside the ``with`` block; restore its own on the way out, also after an error.

    Args:
        model: Any transformers model whose attention goes through the ``AttentionInterface``.
        kind: ``standard`` (the model's eager attention), ``effective`` (same output, attention without its null part)
            or ``padded`` (the published protocol; wants inputs padded to the maximum length, and changes the output).
            Ask ``forward`` for ``output_attentions=True`` to see the weights.

    Yields:
        A record of the calls and, for ``padded``, of the change of the output.

    Raises:
        ValueError: The model does not use the interface, so nothing could be swapped.
    """
    check_swappable(model, kind)
    record = AttentionSwap(kind)
    hooks = _watch(model, record)
    try:
        with attention_function(model, f"{kind}_attention"):
            yield record
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def attention_function(model: PreTrainedModel, name: str) -> Iterator[None]:
    """Let ``model`` call the attention function registered as ``name``; its own again on the way out."""
    before = [(config, config._attn_implementation) for config in _configs(model)]
    try:
        model.set_attn_implementation(name)
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation


def check_swappable(model: PreTrainedModel, kind: str) -> None:
    """Raise now what ``use_attention`` would raise later."""
    if kind not in get_args(AttentionKind):
        raise ValueError(f"attention must be one of {', '.join(get_args(AttentionKind))}, got {kind!r}")
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"use_attention wants a transformers model, got {type(model).__name__}")
    for part in model.modules():
        if isinstance(part, PreTrainedModel) and not part._can_set_attn_implementation():
            raise ValueError(unsupported(type(part).__name__))


def unsupported(name: str) -> str:
    return (
        f"{name} does not call its attention through transformers' AttentionInterface, so it cannot be swapped; "
        f"choose a model that does (BERT, RoBERTa, DistilBERT, ELECTRA, GPT-2, Llama ...)"
    )


def _configs(model: PreTrainedModel) -> list[Any]:
    """Every config that ``set_attn_implementation`` may touch, each once."""
    found: dict[int, Any] = {}
    pending = [part.config for part in model.modules() if isinstance(part, PreTrainedModel)]
    while pending:
        config = pending.pop()
        if config is not None and id(config) not in found:
            found[id(config)] = config
            pending += [getattr(config, name, None) for name in config.sub_configs]
    return list(found.values())


def _watch(model: PreTrainedModel, record: AttentionSwap) -> list[Any]:
    """Hooks that make ``record`` the active one during ``forward``, and fail if no layer called our function."""
    entered: list[tuple[Token[tuple[AttentionSwap, ...]], int]] = []

    def enter(_module: nn.Module, _inputs: Any) -> None:
        entered.append((_ACTIVE.set((*_ACTIVE.get(), record)), record.calls))

    def leave(_module: nn.Module, _inputs: Any, output: Any) -> None:
        token, calls = entered.pop()
        _ACTIVE.reset(token)
        if output is not None and record.calls == calls:
            raise ValueError(unsupported(type(model).__name__))

    # prepend: nested swaps leave in the reverse order of entering
    return [model.register_forward_pre_hook(enter), model.register_forward_hook(leave, prepend=True, always_call=True)]


# --- the attention functions ---


def standard_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> AttentionOutput:
    """The model's own eager attention."""
    _count_call()
    output, weights = eager_function(module)(module, query, key, value, attention_mask, **kwargs)
    return output, weights


def effective_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> AttentionOutput:
    """Attention without its null part: the same output up to rounding, really computed as ``A_effective V``."""
    _count_call()
    weights, value = weights_and_values(module, query, key, value, attention_mask, **kwargs)
    visible = _visible_once(attention_mask, weights)
    # Softmax has made hidden weights exactly 0. Where no graph is made, nobody needs the weights any more.
    effective, rank = effective_part(weights, value, visible, overwrite=not torch.is_grad_enabled())
    record = _innermost()
    if record is not None:
        seen = weights.shape[-1] if visible is None else visible.any(dim=-2).sum(dim=-1)  # (batch, 1 or head)
        record.add_nullity(seen - rank)
    return head_outputs(effective, value), effective


def padded_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> AttentionOutput:
    """The published protocol: null space with padding inside, padding columns zeroed after. Changes the output."""
    _count_call()
    weights, value = weights_and_values(module, query, key, value, attention_mask, **kwargs)
    visible = _visible_once(attention_mask, weights)
    parts = split(weights, value, visible, reading="padded")
    record = _innermost()
    if record is not None:
        record.add_nullity(weights.shape[-1] - parts.rank)
        record.add_change(parts.output_change(_real_queries(visible, weights)))
    return head_outputs(parts.effective, value), parts.effective


def _innermost() -> AttentionSwap | None:
    return _ACTIVE.get()[-1] if _ACTIVE.get() else None


def _count_call() -> None:
    for record in _ACTIVE.get():
        record.calls += 1


def eager_function(module: nn.Module) -> Callable[..., AttentionOutput]:
    """The eager attention function of the file that defines the layer, or that one of its parents comes from."""
    for cls in type(module).__mro__:
        function = getattr(sys.modules.get(cls.__module__), "eager_attention_forward", None)
        if function is not None:
            return function
    raise ValueError(unsupported(type(module).__name__))


def weights_and_values(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Float[Tensor, "batch head query key"], Float[Tensor, "batch head key d_value"]]:
    """The model's own weights, and one set of values per query head; the product of the two is left to the caller."""
    _, weights = eager_function(module)(module, query, key, value[..., :0], attention_mask, **kwargs)
    groups = weights.shape[1] // value.shape[1]  # above 1 under grouped-query attention
    return weights, value.contiguous() if groups == 1 else value.repeat_interleave(
        groups, dim=1
    )  # as products want them


def head_outputs(weights: Tensor, value: Tensor) -> Float[Tensor, "batch query head d_value"]:
    """What each head brings to each token, as transformers wants it back."""
    return (weights @ value).transpose(1, 2).contiguous()


def visible_keys(attention_mask: Tensor | None, weights: Tensor) -> Bool[Tensor, "batch heads query key"] | None:
    """What the mask lets each query see. A query that sees nothing gets uniform weights from softmax: it sees all."""
    if attention_mask is None:
        return None
    visible = attention_mask[..., : weights.shape[-1]]
    if visible.dtype != torch.bool:
        visible = visible > torch.finfo(visible.dtype).min / 2
    return visible | ~visible.any(dim=-1, keepdim=True)


def _visible_once(attention_mask: Tensor | None, weights: Tensor) -> Bool[Tensor, "batch heads queries key"] | None:
    """What ``split`` wants to know of the mask, read once for all the layers that are handed the same one."""
    if attention_mask is None:
        return None
    record = _innermost()
    if record is not None and record._mask is not None and record._mask[0] is attention_mask:
        return record._mask[1]
    visible = visible_keys(attention_mask, weights)
    found = None if visible is None else as_visible(visible, weights)
    if record is not None:
        record._mask = (attention_mask, found)
    return found


def _real_queries(visible: Tensor | None, weights: Tensor) -> Bool[Tensor, "batch query"] | None:
    """In self-attention a token that nobody may see is padding, also as a query."""
    batch, _, query, key = weights.shape
    if visible is None or query != key:
        return None
    return visible.any(dim=-2).any(dim=1).expand(batch, key)


for _function in (standard_attention, effective_attention, padded_attention):
    AttentionInterface.register(_function.__name__, _function)
    # Without a mask function of the same name transformers passes no mask at all; ours must be the additive one.
    AttentionMaskInterface.register(_function.__name__, eager_mask)
