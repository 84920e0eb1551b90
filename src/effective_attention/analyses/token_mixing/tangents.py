"""Cheaper forward-mode derivatives of what a transformer spends its time in, where many tangents share one point.

PyTorch's own rules are right but work too hard under ``vmap``: GELU's derivative is computed again for every tangent, a
linear layer adds the derivative of its bias, zero, to every output, and layer normalisation normalises its input for
every tangent. Here what depends on the point alone is computed once; a tangent costs one product, one matrix product,
or a projection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class SharedDerivatives(TorchFunctionMode):
    """Inside the block the functions below have rules of their own for tangents; values are the same.

    For derivatives with respect to a model's input: a tangent of a weight or a bias would be left out.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        rule = _RULES.get(func)
        return func(*args, **(kwargs or {})) if rule is None else rule(*args, **(kwargs or {}))


class _Rule(torch.autograd.Function):
    """What all have in common: nothing is differentiated backwards, and ``vmap`` is PyTorch's."""

    generate_vmap_rule = True


class _Gelu(_Rule):
    @staticmethod
    def forward(x: Tensor, approximate: str) -> Tensor:
        return functional.gelu(x, approximate=approximate)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Tensor) -> None:
        x, ctx.approximate = inputs
        ctx.save_for_forward(x)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        (x,) = ctx.saved_tensors
        return tangent * torch.ops.aten.gelu_backward(torch.ones_like(x), x, approximate=ctx.approximate)


class _Linear(_Rule):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return functional.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Tensor) -> None:
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        (weight,) = ctx.saved_tensors
        return functional.linear(tangent, weight)


class _LayerNorm(_Rule):
    @staticmethod
    def forward(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
        return functional.layer_norm(x, shape, weight, bias, eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Tensor) -> None:
        x, shape, weight, _, ctx.eps = inputs
        ctx.axes = tuple(range(-len(shape), 0))
        ctx.save_for_forward(x, weight)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        x, weight = ctx.saved_tensors
        variance, mean = torch.var_mean(x, dim=ctx.axes, correction=0, keepdim=True)
        scale = (variance + ctx.eps).rsqrt()
        unit = (x - mean) * scale
        along = (tangent * unit).mean(dim=ctx.axes, keepdim=True)
        projected = torch.addcmul(tangent - tangent.mean(dim=ctx.axes, keepdim=True), unit, along, value=-1)
        return projected * (scale if weight is None else scale * weight)


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    return _Gelu.apply(x, approximate)  # type: ignore[no-untyped-call]


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]


def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    return _LayerNorm.apply(x, normalized_shape, weight, bias, eps)  # type: ignore[no-untyped-call]


_RULES: dict[Callable[..., Any], Callable[..., Tensor]] = {
    functional.gelu: _gelu,
    functional.linear: _linear,
    functional.layer_norm: _layer_norm,
}
