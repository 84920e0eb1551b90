"""Attention rollout, Abnar & Zuidema (2020): how much of each input token has reached a layer's token?

See ``graphs.rollout`` for the method itself, and ``graphs.receptive_field`` for what becomes of it in causal models.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from effective_attention.attention.trace import Part
from effective_attention.attributions.registry import register
from effective_attention.attributions.shared_work import SharedWork
from effective_attention.graphs.conventions import signed_to_weights
from effective_attention.graphs.receptive_field import even_graph, over_even
from effective_attention.graphs.rollout import attention_rollout


@register(
    "rollout",
    title="rollout",
    summary="attention of all layers below, multiplied",
    reads_attention=True,
    needs=["graph"],
)
def rollout(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the attention graph's rollout as ``Settings.query`` says."""
    return work.read(rollout_maps(work, work.graph(attention)))


def rollout_maps(
    work: SharedWork, graph: Float[Tensor, "batch layer query key"]
) -> Float[Tensor, "batch layer query key"]:
    """Roll a graph out from every query; in a causal model each row is divided by what even attention would bring."""
    residual = work.settings.residual
    found = attention_rollout(graph, residual=residual)
    if not work.settings.receptive_field:
        return found
    return over_even(found, attention_rollout(even_graph(work.trace), residual=residual))


def rolled_out(work: SharedWork, weights: Float[Tensor, "batch layer query key"]) -> Float[Tensor, "batch layer key"]:
    """Read the row of the rollout of any weights; rollout wants rows that sum to 1, so they are made so."""
    return work.row(rollout_maps(work, signed_to_weights(weights, "positive")))


def rolled_through(
    work: SharedWork, weights: Float[Tensor, "batch layer query key"]
) -> Float[Tensor, "batch layer key"]:
    """Read the row of the product of the layers' weights as they are: they hold the residual already."""
    return work.row(attention_rollout(weights, residual=0.0))
