"""The product of attention weights and values, however a layer writes it: matmul, bmm or einsum.

Layers differ in where they keep batch, heads, queries and keys. A ``Product`` brings both factors into the order
(batch, head, query, key) and (batch, head, key, d_value), and the result back into the layer's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_MATMUL = {torch.matmul, Tensor.matmul, Tensor.__matmul__}
_BMM = {torch.bmm, Tensor.bmm}


@dataclass(frozen=True, eq=False)
class Product:
    """A product that a layer is about to take.

    Attributes:
        weights: (batch, head, query, key).
        value: (batch, 1 or head, key, d_value).
        order: Brings whatever is ordered as the layer's own weights are, such as their scores, into the order here.
        back: Brings the result, (batch, head, query, d_value), into the order in which the layer expects it.
    """

    weights: Tensor
    value: Tensor
    order: Callable[[Tensor], Tensor]
    back: Callable[[Tensor], Tensor]


def factors_of(function: Any, arguments: tuple[Any, ...]) -> tuple[Tensor, Tensor] | None:
    """Return the two factors, if a function is one of the products we know."""
    if (function in _MATMUL or function in _BMM) and len(arguments) == 2:
        return arguments
    if function is torch.einsum and len(arguments) == 3:
        return arguments[1], arguments[2]
    return None


def product_of(function: Any, arguments: tuple[Any, ...], folded: Callable[[int], int]) -> Product | None:
    """Read a product whose first factor is attention weights; None where we cannot say which axis is which.

    Args:
        function: A function that ``factors_of`` knows.
        arguments: What it was called with.
        folded: From the size of an axis that holds batch times heads, how many heads that is.
    """
    if function is torch.einsum:
        return _einsum(arguments[0], arguments[1], arguments[2], folded)
    weights, value = arguments
    if weights.ndim == 3 and value.ndim == 3:
        return _folded(weights, value, folded(len(weights)))
    if weights.ndim == 4 and value.ndim == 4 and function in _MATMUL and _each_has_its_own(weights, value):
        expanded = value.expand(len(weights), *value.shape[1:])  # values may be shared by the batch
        return Product(weights, expanded, lambda part: part, lambda output: output)
    return None


def _each_has_its_own(weights: Tensor, value: Tensor) -> bool:
    """Tell whether no weights are shared by several texts or heads that have values of their own."""
    return len(value) in (1, len(weights)) and weights.shape[1] % value.shape[1] == 0


def _folded(weights: Tensor, value: Tensor, heads: int) -> Product | None:
    """Read weights of (batch x head, query, key)."""
    if len(weights) % heads or len(value) != len(weights):
        return None

    def unfold(part: Tensor) -> Tensor:
        return part.reshape(len(part) // heads, heads, *part.shape[1:])  # (batch, head, ...)

    return Product(unfold(weights), unfold(value), unfold, lambda output: output.flatten(0, 1))


def _einsum(equation: str, weights: Tensor, value: Tensor, folded: Callable[[int], int]) -> Product | None:
    """Read an einsum: its letters say which axes both factors share, and which are summed over."""
    sides = equation.replace(" ", "").split("->")
    if len(sides) != 2 or "." in equation:
        return None
    (of_weights, of_value), of_output = sides[0].split(","), sides[1]
    both = [letter for letter in of_weights if letter in of_value]
    summed = "".join(letter for letter in both if letter not in of_output)
    shared = "".join(letter for letter in of_output if letter in both)  # batch and head, as the layer hands them on
    query = "".join(letter for letter in of_weights if letter not in of_value)
    width = "".join(letter for letter in of_value if letter not in of_weights)
    counts = [len(summed), len(query), len(width), len(of_output) - len(shared)]
    if counts != [1, 1, 1, 2] or len(shared) not in (1, 2):
        return None
    ordered = shared + query + width  # of the output

    def order(part: Tensor) -> Tensor:
        return torch.einsum(f"{of_weights}->{shared + query + summed}", part)

    def back(output: Tensor) -> Tensor:
        return torch.einsum(f"{ordered}->{of_output}", output)

    ordered_value = torch.einsum(f"{of_value}->{shared + summed + width}", value)
    if len(shared) == 2:
        return Product(order(weights), ordered_value, order, back)
    inner = _folded(order(weights), ordered_value, folded(ordered_value.shape[0]))
    return inner and Product(
        inner.weights, inner.value, lambda part: inner.order(order(part)), lambda output: back(inner.back(output))
    )
