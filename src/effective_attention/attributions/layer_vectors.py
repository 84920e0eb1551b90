"""Which vector does each token bring to each other token's new representation, through residual and norms?

With ``T_ij = sum_h alpha_hij f_h(x_j)`` (``norms``: value times output projection) and the residual ``x_i``, a layer's
attention part gives ``s_i = sum_j u_ij + b`` with ``u_ij = T_ij + [i = j] x_i``. A layer norm divides by the standard
deviation of ``s_i``, a number; what is left of it is linear, so that ``y_i`` is a sum of vectors too: of ``y_ij = g *
(u_ij - mean(u_ij)) / std(s_i)``, and biases. Where the layer normalises what it reads, as GPT-2 and Llama do, no norm
follows.

``residual_norms`` and ``alti`` measure these vectors. Those of all pairs are long (query, key, width), so that one text
is looked at at a time, and some of its queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from effective_attention.attention.trace import Part, Trace
from effective_attention.attributions.blocks import Block, find_blocks, handed
from effective_attention.attributions.norms import check_projections, head_blocks
from effective_attention.attributions.shared_work import SharedWork

_NUMBERS = 2**24  # of the vectors that are made at once


@dataclass(frozen=True, eq=False)
class LayerVectors:
    """What some queries of one text are the sum of.

    Attributes:
        vectors: What each token brings, the residual to its own token: ``u_ij``.
        queries: Which tokens the queries are.
        given: What the norm behind the attention is handed, ``s_i``: the vectors' sum and the projection's bias.
        second: What the layer's last norm is handed.
        block: The parts of the layer.
    """

    vectors: Float[Tensor, "query key width"]
    queries: slice
    given: Float[Tensor, "query width"]
    second: Float[Tensor, "query width"]
    block: Block

    @property
    def normed(self) -> Float[Tensor, "query key width"]:
        """Return them behind the norm, where it is of what was added: ``y_ij``."""
        return through_norm(self.vectors, self.block.norm, self.given) if self.block.post else self.vectors

    @property
    def whole(self) -> Float[Tensor, "query width"]:
        """Return what the attention part really gives: ``y_i``, with every bias."""
        return affine_norm(self.block.norm, self.given) if self.block.post else self.given


@dataclass(frozen=True, eq=False)
class LayerParts:
    """What all measures of a batch's vectors read: each layer's parts, and what its two norms are handed."""

    blocks: list[Block]
    given: list[Float[Tensor, "batch token width"]]
    second: list[Float[Tensor, "batch token width"]]

    @classmethod
    def of(cls, trace: Trace) -> LayerParts:
        """Find the parts by watching one text, and run the batch."""
        blocks = find_blocks(trace)
        return cls(blocks, *handed(trace, [lambda block: block.norm, lambda block: block.last], blocks))


def check_vectors(trace: Trace) -> None:
    """Refuse a model whose layers are no sums of one vector a token.

    Raises:
        ValueError: Says why.
    """
    check_projections(trace)
    find_blocks(trace)


@torch.no_grad()
def of_vectors(
    trace: Trace,
    attention: Part,
    measure: Callable[[LayerVectors], Float[Tensor, "some key"]],
    parts: LayerParts | None = None,
) -> Float[Tensor, "batch layer query key"]:
    """Measure the vectors of every layer, text by text; 0 on padding.

    Raises:
        ValueError: The layers are no sums of one vector a token.
    """
    parts = parts or LayerParts.of(trace)
    batch, length = trace.mask.shape
    shape = (batch, len(parts.blocks), length, length)
    found = torch.zeros(shape, dtype=torch.float64, device=trace.mask.device)
    for row, mask in enumerate(trace.mask):
        places = mask.nonzero()[:, 0]
        for number in range(len(parts.blocks)):
            for vectors in _vectors(trace, attention, parts, number, row, places):
                found[row, number, places[vectors.queries, None], places] = measure(vectors)
    return found


def _vectors(
    trace: Trace, attention: Part, parts: LayerParts, number: int, row: int, places: Tensor
) -> Iterator[LayerVectors]:
    """Make the vectors of one layer and text, of some queries at a time."""
    layer, block = trace.layers[number], parts.blocks[number]
    brought = layer.value[row, :, places].double() @ head_blocks(trace.model, block.projection, layer.value).double()
    weights = layer.part(attention)[row][:, places][..., places].double()  # (head, query, key)
    handed_on = (trace.hidden[number], parts.given[number], parts.second[number])
    states, given, second = (each[row, places].double() for each in handed_on)
    for queries in _queries(len(places), brought.shape[-1]):
        summed = torch.einsum("hqk,hkd->qkd", weights[:, queries], brought)
        summed = _with_residual(summed, states[queries], queries)
        yield LayerVectors(summed, queries, given[queries], second[queries], block)


def _queries(size: int, width: int) -> list[slice]:
    """Divide the queries of a text so that the vectors of some of them fit into memory."""
    step = max(1, _NUMBERS // max(1, size * width))
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def _with_residual(
    vectors: Float[Tensor, "some key width"], states: Float[Tensor, "some width"], queries: slice
) -> Float[Tensor, "some key width"]:
    """Add each token's own state to what it brings to itself."""
    places = torch.arange(len(states), device=states.device)
    vectors[places, places + queries.start] += states
    return vectors


def through_norm(
    vectors: Float[Tensor, "query key width"], norm: nn.Module, given: Float[Tensor, "query width"]
) -> Float[Tensor, "query key width"]:
    """Pass vectors through a layer norm whose standard deviation is that of what it was handed; without its bias."""
    assert isinstance(norm, nn.LayerNorm)
    spread = (given.var(dim=-1, unbiased=False) + norm.eps).sqrt()[:, None, None]
    centred = (vectors - vectors.mean(dim=-1, keepdim=True)) / spread
    return centred if norm.weight is None else centred * norm.weight.to(vectors.dtype)


def affine_norm(norm: nn.Module, given: Float[Tensor, "query width"]) -> Float[Tensor, "query width"]:
    """Run a layer norm on what it was handed, in its precision."""
    assert isinstance(norm, nn.LayerNorm)
    weight, bias = (None if one is None else one.to(given.dtype) for one in (norm.weight, norm.bias))
    return nn.functional.layer_norm(given, norm.normalized_shape, weight, bias, norm.eps)


def shared_measure(work: SharedWork, name: str, attention: Part, measure: Callable[..., Tensor]) -> Tensor:
    """Shared work ``name``: ``measure(trace, attention, parts)``; the layers' parts are shared work of their own."""

    def compute() -> Tensor:
        work.weights(attention)  # kept by the trace, where the vectors find it
        parts = work.shared("layer_parts", None, lambda: LayerParts.of(work.trace))
        return measure(work.trace, attention, parts)

    return work.shared(name, attention, compute)
