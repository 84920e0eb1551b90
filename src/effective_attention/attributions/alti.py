"""How near does what a token brings come to what the layer gives?

ALTI, Ferrando et al. (2022), "Measuring the Mixing of Contextual Information in the Transformer" (arXiv 2203.04212):
with ``y_ij`` and ``y_i`` as in ``layer_vectors``, ``max(0, ||y_i||_1 - ||y_i - y_ij||_1)``; each row is divided by its
sum, and the rows of all layers are multiplied. No residual is added: it is in the vectors.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Part, Trace
from effective_attention.attributions.layer_vectors import (
    LayerParts,
    LayerVectors,
    check_vectors,
    of_vectors,
    shared_measure,
)
from effective_attention.attributions.registry import register
from effective_attention.attributions.rollout import rolled_through
from effective_attention.attributions.shared_work import SharedWork
from effective_attention.graphs.conventions import signed_to_weights


@register(
    "alti",
    title="ALTI",
    summary="nearness of what a token brings to the layers' outputs, multiplied",
    reads_attention=True,
    needs=["contributions"],
    check=check_vectors,
)
def alti(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the product of the layers' contributions."""
    return rolled_through(work, shared_measure(work, "contributions", attention, contributions))


def contributions(
    trace: Trace, attention: Part = "standard", parts: LayerParts | None = None
) -> Float[Tensor, "batch layer query key"]:
    """Measure how near each vector is to the whole; rows sum to 1, or to 0 where none comes near; 0 on padding."""

    def near(part: LayerVectors) -> Tensor:
        whole = part.whole
        missed = (whole[:, None] - part.normed).abs().sum(dim=-1)  # (query, key)
        return (whole.abs().sum(dim=-1, keepdim=True) - missed).clamp_min(0)

    return signed_to_weights(of_vectors(trace, attention, near, parts))
