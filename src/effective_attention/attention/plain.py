"""Calls of which a fast kernel knows everything: softmax of scaled products, a mask, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from effective_attention.attention.call import AttentionCall, ScoredCall
from effective_attention.attention.decomposition import for_each_head
from effective_attention.attention.intervals import Intervals
from effective_attention.attention.precision import without_autocast
from effective_attention.attention.readings import with_ones
from effective_attention.attention.record import Mask

_MORE_THAN_SOFTMAX = ("softcap", "s_aux", "sinks")
"""Options of layers whose weights are not a softmax of scaled products alone."""
_SPLIT = 512
"""PyTorch's kernel on a CPU takes up so many keys at a time, also those that stand behind all queries at hand."""
_PIECE = 128  # queries asked together, up to ``_SPLIT`` keys: 384 in three pieces take three quarters of the time


@dataclass(frozen=True, eq=False)
class Plain:
    """A call of which ``softmax(scaling Q K^T + mask) V`` is the whole truth.

    Attributes:
        query: (batch, head, query, d_key).
        key: (batch, shared, key, d_key).
        value: (batch, shared, key, d_head).
        scaling: The factor of query times key.
        mask: Additive, (1 or batch, 1 or head, 1 or query, key); may weigh keys too, as a bias of positions does; None:
            nothing is hidden.
        causal: Whether the mask hides what stands behind each query, and does nothing else.
        intervals: The keys each query sees, where they differ; None: all see the same.
        seen: The keys that some query sees, (batch, 1, key).
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scaling: float | None
    mask: Tensor | None
    intervals: Intervals | None
    seen: Tensor
    causal: bool = False

    @property
    def is_differentiated(self) -> bool:
        """Tell whether a derivative of what the layer computes may be asked for."""
        parts = (self.query, self.key, self.value, self.mask)
        return torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in parts)

    def output(self) -> Tensor:
        """Return ``A V``, (batch, head, query, d_head), by the fast kernel."""
        return attend(self, self.value)

    def times_basis(self, basis: Tensor, products: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``A B``, (batch, head, query, column), by the fast kernel, ``B`` and ``B^T V``.

        Args:
            basis: An orthonormal basis ``B`` of the values' column space, (batch, shared, key, column); where that is
                easier to multiply, another basis of the same space comes back.
            products: ``B^T V``, (batch * shared, column, d_head), of the basis that is given, then of that which comes
                back.
        """
        return attend(self, basis), basis, products

    def weights(self, keys: slice = slice(None)) -> Tensor:
        """Return the attention weights, over keys that hold all that is seen."""
        key = for_each_head(self.key[:, :, keys], self.query.shape[1])
        scale = self.query.shape[-1] ** -0.5 if self.scaling is None else self.scaling
        with without_autocast(self.query.device):
            scores = self.query @ key.mT * scale
            if self.mask is not None:
                scores = scores + self.mask[..., keys]
            return scores.softmax(dim=-1)


@dataclass(frozen=True, eq=False)
class AffinePlain(Plain):
    """The same call with ``[V, 1]`` for values: what is handed on ends with the sum of each row, which is 1.

    Effective attention of these values is that of affine space (``readings``), whichever way it is computed.
    """

    @classmethod
    def of(cls, call: Plain) -> AffinePlain:
        """Append the ones; of one new token at a time not scaled, so that keys stay what they were."""
        scale = 1.0 if call.query.shape[2] == 1 else None
        parts = {field.name: getattr(call, field.name) for field in fields(call)}
        return cls(**parts | {"value": with_ones(call.value, call.seen, scale=scale)})

    def output(self) -> Tensor:
        """Return ``A V`` by the fast kernel, and the row's sum as the ones have it."""
        return self.with_sums(attend(self, self.value[..., :-1]))

    def times_basis(self, basis: Tensor, products: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``A B``, ``B`` and ``B^T V``; B is reflected: its last column is one number for all keys seen.

        The kernel takes no more columns than the model's values have. Rows of attention sum to 1, so what it makes of
        the last column is known: that number.
        """
        even = basis.sum(dim=2, keepdim=True)  # B^T 1, (batch, shared, 1, column): how the ones are combined
        size = torch.linalg.vector_norm(even, dim=-1, keepdim=True)  # the root of how many keys are seen
        normal = even / size
        sign = torch.where(normal[..., -1:] > 0, -1.0, 1.0)  # the farther of the two: nothing cancels
        normal[..., -1:] -= sign
        scaled = 2 / normal.square().sum(dim=-1, keepdim=True) * normal
        basis = basis - (basis @ normal.mT) * scaled
        normal, scaled = normal.flatten(0, 1), scaled.flatten(0, 1)  # (batch * shared, 1, column)
        products = products - scaled.mT @ (normal @ products)
        return self._with_last(attend(self, basis[..., :-1].contiguous()), sign / size), basis, products

    def with_sums(self, output: Tensor) -> Tensor:
        """Append to ``A V``, (batch, head, query, d_head), what attention makes of the column of ones."""
        return self._with_last(output, self.value[:, :, :1, -1:])

    def _with_last(self, product: Tensor, numbers: Tensor) -> Tensor:
        """Append a column to products with attention: the number of each set of values, (batch, shared, 1, 1)."""
        groups = self.query.shape[1] // self.value.shape[1]
        own = numbers.repeat_interleave(groups, dim=1)  # (batch, head, 1, 1)
        return torch.cat([product, own.expand(*product.shape[:3], 1)], dim=-1)


def attend(call: Plain, value: Tensor) -> Tensor:
    """Run PyTorch's fast kernel on a call, with these values (batch, shared, key, width) in place of its own."""
    keys = call.key.shape[2]
    if not call.causal or call.key.device.type != "cpu" or not 2 * _PIECE < keys <= _SPLIT:
        return _attend(call, value, slice(0, call.query.shape[2]), keys)
    pieces = [slice(first, min(first + _PIECE, keys)) for first in range(0, keys, _PIECE)]
    return torch.cat([_attend(call, value, piece, piece.stop) for piece in pieces], dim=2)


def _attend(call: Plain, value: Tensor, queries: slice, keys: int) -> Tensor:
    """Run the kernel for some queries, on the first keys."""
    is_causal = call.causal and queries.start == 0
    mask = None if call.mask is None or is_causal else call.mask[..., :keys]
    with without_autocast(call.query.device):
        return scaled_dot_product_attention(
            call.query[:, :, queries],
            call.key[:, :, :keys],
            value[:, :, :keys],
            attn_mask=mask if mask is None or mask.shape[2] == 1 else mask[:, :, queries],
            is_causal=is_causal,
            scale=call.scaling,
            enable_gqa=call.query.shape[1] != call.key.shape[1],
        )


def plain_call(call: AttentionCall, mask: Mask) -> Plain | None:
    """Return the call as a fast kernel takes it; None where that would not be the same, or not worth it.

    Not the same: dropout, which throws other weights away each time; a layer that does more than softmax; half
    precision, of which outputs are too coarse to find weights by. Not worth it: so few keys that most of them are
    independent, weights that are wanted with a derivative, a mask for each head. Wrong: on the CPU, derivatives of
    PyTorch's kernel where a query sees nothing, n times what they should be with torch 2.13.
    """
    batch, _, _, keys = call.shape
    visible = mask.visible
    if not isinstance(call, ScoredCall):
        return None
    if keys <= call.value.shape[-1] or (visible is not None and visible.shape[1] > 1) or not _is_softmax(call):
        return None
    bias = call.options.get("position_bias")
    if visible is None:
        seen = torch.ones(batch, 1, keys, dtype=torch.bool, device=call.value.device)
    else:
        seen = visible[:, :, 0] if mask.intervals is None else mask.intervals.seen
    added = None if call.mask is None or (visible is None and mask.only_hides) else call.mask[..., :keys]
    if bias is not None:  # T5's: transformers, too, adds it to the mask for the fast kernel
        added = bias if added is None else added + bias
    scaling = call.options.get("scaling")
    causal = mask.is_causal and bias is None
    found = Plain(call.query, call.key, call.value, scaling, added, mask.intervals, seen, causal)
    return None if found.is_differentiated and (call.weights_wanted or mask.blinds) else found


def _is_softmax(call: ScoredCall) -> bool:
    """Tell whether PyTorch's kernel computes what the layer does, in float32."""
    if call.options.get("dropout") or any(call.options.get(name) is not None for name in _MORE_THAN_SOFTMAX):
        return False
    types = {call.query.dtype, call.key.dtype, call.value.dtype, torch.float32}
    if call.mask is not None:
        types.add(call.mask.dtype)  # the kernel takes no other, and one of bool may not be added to
    return call.has_fast_kernel and len(types) == 1
