"""Attention rollout, Abnar & Zuidema (2020): how much of each input token has reached a layer's token?

See ``graphs.rollout`` for the method itself.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Part
from effective_attention.attributions.registry import register
from effective_attention.attributions.shared_work import SharedWork
from effective_attention.graphs.conventions import signed_to_weights
from effective_attention.graphs.rollout import attention_rollout


@register(
    "rollout",
    title="rollout",
    summary="attention of all layers below, multiplied",
    reads_attention=True,
    needs=["graph"],
)
def rollout(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the attention graph's rollout."""
    return work.row(attention_rollout(work.graph(attention), residual=work.settings.residual))


def rolled_out(work: SharedWork, weights: Float[Tensor, "batch layer query key"]) -> Float[Tensor, "batch layer key"]:
    """Read the row of the rollout of any weights; rollout wants rows that sum to 1, so they are made so."""
    return work.row(attention_rollout(signed_to_weights(weights, "positive"), residual=work.settings.residual))
