"""Which vector does each token bring to each other token's new representation, through residual and norms?

With ``T_ij = sum_h alpha_hij f_h(x_j)`` (``norms``: value times output projection) and the residual ``x_i``, a layer's
attention part gives ``s_i = sum_j u_ij + b`` with ``u_ij = T_ij + [i = j] x_i``. A layer norm divides by the standard
deviation of ``s_i``, a number; what is left of it is linear, so that ``y_i`` is a sum of vectors too: of ``y_ij = g *
(u_ij - mean(u_ij)) / std(s_i)``, and biases. Where the layer normalises what it reads, as GPT-2 and Llama do, no norm
follows.

Three methods read these vectors:

- ``norm_residual``: their length behind the norm, Kobayashi et al. (2021), "Incorporating Residual and Normalization
  Layers into Analysis of Masked Language Models" (arXiv 2109.07152). ``mixing_ratio`` is the paper's other number.
- ``globenc``: Modarressi et al. (2022), "GlobEnc" (arXiv 2205.03286): their length behind the layer's second norm too
  (whose residual keeps them; the feed-forward part itself is left out), multiplied over the layers as they are.
- ``alti``: Ferrando et al. (2022), "Measuring the Mixing of Contextual Information in the Transformer" (arXiv
  2203.04212): how near each vector is to the whole, ``max(0, ||y_i||_1 - ||y_i - y_ij||_1)``; each row is divided by
  its sum, and the rows of all layers are multiplied.

Neither rollout adds a residual: it is in the vectors. Vectors of all pairs are long (query, key, width), so that one
text is looked at at a time, and some of its queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from effective_attention.attention.trace import Part, Trace
from effective_attention.attributions.blocks import Block, check_post, find_blocks, handed, post_norm_blocks
from effective_attention.attributions.norms import check_projections, head_blocks
from effective_attention.attributions.registry import register
from effective_attention.attributions.rollout import rolled_through
from effective_attention.attributions.shared_work import SharedWork
from effective_attention.graphs.conventions import signed_to_weights

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


def check_post_norm(trace: Trace) -> None:
    """Refuse a model that does not normalise what it has added.

    Raises:
        ValueError: Says why.
    """
    check_projections(trace)
    post_norm_blocks(trace)


@register(
    "norm_residual",
    title="norm with residual",
    summary="length of the vector a token brings through residual and layer norm",
    reads_attention=True,
    needs=["layer_norms"],
    check=check_vectors,
    pieces="largest",
)
def norm_residual(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the vectors' lengths."""
    return work.row(_shared(work, "layer_norms", attention, lengths))


@register(
    "globenc",
    title="GlobEnc",
    summary="lengths of vectors through both layer norms, multiplied over the layers",
    reads_attention=True,
    needs=["encoder_norms"],
    check=check_post_norm,
)
def globenc(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the product of the layers' lengths."""
    return rolled_through(work, _shared(work, "encoder_norms", attention, encoder_lengths))


@register(
    "alti",
    title="ALTI",
    summary="nearness of what a token brings to the layer's output, multiplied over the layers",
    reads_attention=True,
    needs=["contributions"],
    check=check_vectors,
)
def alti(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the product of the layers' contributions."""
    return rolled_through(work, _shared(work, "contributions", attention, contributions))


def lengths(
    trace: Trace, attention: Part = "standard", parts: LayerParts | None = None
) -> Float[Tensor, "batch layer query key"]:
    """Measure the vectors behind residual and norm; 0 on padding."""
    return of_vectors(trace, attention, lambda part: part.normed.norm(dim=-1), parts)


def encoder_lengths(
    trace: Trace, attention: Part = "standard", parts: LayerParts | None = None
) -> Float[Tensor, "batch layer query key"]:
    """Measure the vectors behind the layer's second norm; 0 on padding.

    Raises:
        ValueError: The model has none of what was added.
    """
    parts = parts or LayerParts.of(trace)
    check_post(trace, parts.blocks)

    def length(part: LayerVectors) -> Tensor:
        return through_norm(part.normed, part.block.last, part.second).norm(dim=-1)

    return of_vectors(trace, attention, length, parts)


def contributions(
    trace: Trace, attention: Part = "standard", parts: LayerParts | None = None
) -> Float[Tensor, "batch layer query key"]:
    """Measure how near each vector is to the whole; rows sum to 1, or to 0 where none comes near; 0 on padding."""

    def near(part: LayerVectors) -> Tensor:
        whole = part.whole
        missed = (whole[:, None] - part.normed).abs().sum(dim=-1)  # (query, key)
        return (whole.abs().sum(dim=-1, keepdim=True) - missed).clamp_min(0)

    return signed_to_weights(of_vectors(trace, attention, near, parts))


def mixing_ratio(trace: Trace, attention: Part = "standard") -> Float[Tensor, "batch layer query"]:
    """Measure how much of each token's representation comes from the others, from 0 to 1.

    Kobayashi et al. (2021): ``m / (m + p)``, with ``p`` the length of the vector that a token brings to itself (the
    residual in it), and ``m`` that of the sum of the other tokens' vectors, both behind the norm. 0 on padding.
    """

    def ratio(part: LayerVectors) -> Tensor:
        vectors = part.normed
        places = torch.arange(len(vectors), device=vectors.device)
        own = vectors[places, places + part.queries.start]
        kept, mixed = own.norm(dim=-1), (vectors.sum(dim=1) - own).norm(dim=-1)
        return (mixed / (mixed + kept))[:, None].expand(vectors.shape[:2])

    found = of_vectors(trace, attention, ratio)
    return found.amax(dim=-1)  # the same for every real key


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


def _shared(work: SharedWork, name: str, attention: Part, measure: Callable[..., Tensor]) -> Tensor:
    def compute() -> Tensor:
        work.weights(attention)  # kept by the trace, where the vectors find it
        parts = work.shared("layer_parts", None, lambda: LayerParts.of(work.trace))
        return measure(work.trace, attention, parts)

    return work.shared(name, attention, compute)
