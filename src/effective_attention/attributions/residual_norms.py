"""How long is the vector that a token really brings to another one, with residual and layer norms?

- ``norm_residual``: Kobayashi et al. (2021), "Incorporating Residual and Normalization Layers into Analysis of Masked
  Language Models" (arXiv 2109.07152): the length of the vectors of ``layer_vectors``, ``||y_ij||``. ``mixing_ratio`` is
  the paper's other number.
- ``globenc``: Modarressi et al. (2022), "GlobEnc" (arXiv 2205.03286): their length behind the layer's second norm too
  (whose residual keeps them; the feed-forward part itself is left out), multiplied over the layers as they are. No
  residual is added: it is in the vectors.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Part, Trace
from effective_attention.attributions.blocks import check_post, post_norm_blocks
from effective_attention.attributions.layer_vectors import (
    LayerParts,
    LayerVectors,
    check_vectors,
    of_vectors,
    shared_measure,
    through_norm,
)
from effective_attention.attributions.norms import check_projections
from effective_attention.attributions.registry import register
from effective_attention.attributions.rollout import rolled_through
from effective_attention.attributions.shared_work import SharedWork


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
    return work.row(shared_measure(work, "layer_norms", attention, lengths))


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
    return rolled_through(work, shared_measure(work, "encoder_norms", attention, encoder_lengths))


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

    return of_vectors(trace, attention, ratio).amax(dim=-1)  # the same for every real key
