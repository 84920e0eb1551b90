"""What one layer hands to its attention: queries and keys with a function that weighs them, or weights met on the way.

``ScoredCall`` is the first: a layer that calls an attention function. ``CaughtCall`` is the second: a layer that takes
the product of weights and values itself, where we stand between the two. Handlers read both the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from effective_attention.attention.decomposition import for_each_head
from effective_attention.attention.precision import without_autocast

AttentionOutput = tuple[Tensor, Tensor | None]
"""What a head hands on, (batch, query, head, d_value), and its weights, (batch, head, query, key)."""
EagerFunction = Callable[..., AttentionOutput]
"""Of a layer, its queries, keys, values and mask, and options by name."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionCall:
    """What one layer hands to its attention.

    Attributes:
        module: The layer.
        value: (batch, key-value head, key, d_value).
        mask: Additive, None where nothing is hidden.
        number: How many calls the hook has seen before this one: the layer's number in the first pass of a block.
        weights_wanted: Whether somebody may ask the model for its attention weights.
    """

    module: nn.Module
    value: Tensor
    mask: Tensor | None
    number: int = 0
    weights_wanted: bool = True

    def eager(self) -> AttentionOutput:
        """Do what the model does: output (batch, query, head, d_value) and weights."""
        raise NotImplementedError

    def weights(self) -> Float[Tensor, "batch head query key"]:
        """Return the model's own attention weights, which the caller may write into."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return that of the attention weights: batch, head, query, key."""
        raise NotImplementedError

    def weights_and_values(
        self,
    ) -> tuple[Float[Tensor, "batch head query key"], Float[Tensor, "batch head key d_value"]]:
        """Return the model's own weights, and one set of values per query head; their product is left to the caller."""
        weights = self.weights()
        return weights, self.for_each_head(self.value, weights)

    def for_each_head(self, part: Tensor, weights: Tensor) -> Tensor:
        """Repeat keys or values for every query head, where grouped queries share them."""
        return for_each_head(part, weights.shape[1])

    def visible(self) -> Bool[Tensor, "batch heads query key"] | None:
        """Return what the mask lets each query see; None if that is everything."""
        return visible_keys(self.mask, self.shape[3])


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoredCall(AttentionCall):
    """Queries, keys and values, and the function that the layer would call with them.

    Attributes:
        query: (batch, head, query, d_key), as they are compared with keys.
        key: (batch, key-value head, key, d_key).
        function: The model's own eager attention.
        options: What else the layer tells it, such as ``scaling`` and ``dropout``.
        has_fast_kernel: Whether PyTorch's fast kernel computes the same.
    """

    query: Tensor
    key: Tensor
    function: EagerFunction
    options: Mapping[str, Any] = field(default_factory=dict)
    has_fast_kernel: bool = False

    def eager(self) -> AttentionOutput:
        """Run the model's own eager attention."""
        return self._run(self.value)

    def weights(self) -> Float[Tensor, "batch head query key"]:
        """Run the model's own eager attention with values of width 0."""
        _, weights = self._run(self.value[..., :0])
        assert weights is not None
        return weights

    def check_product(self) -> None:
        """Refuse a layer whose heads hand on something else than weights times values; one query tells.

        Raises:
            ValueError: Names the layer.
        """
        queries = self.query.shape[2]
        options = {name: _of_first_query(option, queries) for name, option in self.options.items()}
        mask = _of_first_query(self.mask, queries)
        arguments = self.query[:, :, :1], self.key, self.value, mask
        output, weights = self.function(self.module, *arguments, **options)
        assert weights is not None
        gap = (output - head_outputs(weights, self.value)).abs().amax()
        if gap > 64 * torch.finfo(output.dtype).eps * self.value.abs().amax():  # not so where numbers are not finite
            raise ValueError(
                f"{type(self.module).__name__} changes what its heads hand on after weights have met values, so that "
                "the two do not tell it; its attention cannot be swapped or traced (docs/models.md)"
            )

    def _run(self, value: Tensor) -> AttentionOutput:
        return self.function(self.module, self.query, self.key, value, self.mask, **self.options)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return batch, head, query, key."""
        return (*self.query.shape[:3], self.key.shape[2])


@dataclass(frozen=True, eq=False, kw_only=True)
class CaughtCall(AttentionCall):
    """Weights that the layer has computed, just before it takes their product with the values.

    Attributes:
        known: The weights, (batch, head, query, key), after dropout.
    """

    known: Tensor

    def eager(self) -> AttentionOutput:
        """Take the product."""
        return head_outputs(self.known, self.value), self.known

    def weights(self) -> Float[Tensor, "batch head query key"]:
        """Return a copy: the layer may still return its own."""
        return self.known.clone()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Return batch, head, query, key."""
        batch, head, query, key = self.known.shape
        return batch, head, query, key


def _of_first_query(part: Any, queries: int) -> Any:
    """Return of a mask or a bias, (..., query, key), the row of the first query; anything else as it is."""
    has_queries = isinstance(part, Tensor) and part.ndim > 2 and part.shape[-2] == queries
    return part[..., :1, :] if has_queries else part


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


_HIDES = -9e3
"""What a mask adds, at most, to a score that it hides: -10,000 in old models, -1e9, the least number there is."""


def shown_by(mask: Tensor) -> Tensor:
    """Return what an additive mask does not hide."""
    return mask if mask.dtype == torch.bool else mask > _HIDES
