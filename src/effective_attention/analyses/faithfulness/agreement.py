"""Do methods rank tokens as a reference does: as blank-out, or as gradients? Abnar & Zuidema (2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.common.protocol import Protocol
from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.attributions.attribute import Attribution
from effective_attention.attributions.ranking import correlate
from effective_attention.attributions.registry import Method, registered
from effective_attention.attributions.request import AttributionRequest
from effective_attention.attributions.summed_gradient import summed_gradient


def reference_methods(protocol: Protocol) -> dict[str, str]:
    """Return the references that are attribution methods; summed gradients are none."""
    methods = {"blank_out": "blank_out"}
    return {**methods, "gradients": "input_gradient"} if protocol.gradient == "norm" else methods


def beside(methods: Sequence[Method], protocol: Protocol) -> list[Method]:
    """Find the methods that others are compared with and that are not chosen themselves: computed, but without rows."""
    wanted = {*reference_methods(protocol).values()} - {method.name for method in methods}
    return [method for method in registered() if method.name in wanted]


def references(
    request: AttributionRequest, found: Sequence[Attribution], protocol: Protocol
) -> Mapping[str, Float[Tensor, "batch 1 key"]]:
    """Gather what tokens are worth by each reference, from what the methods said."""
    scores = {one.method: one.scores for one in found}
    known = {name: scores[method] for name, method in reference_methods(protocol).items()}
    return known if "gradients" in known else {**known, "gradients": summed_gradient(request)[:, None]}


def with_blank_out(asked: Asked) -> list[Tensor]:
    """Correlate with the loss of probability when a token is blanked."""
    return _agreement(asked, "blank_out")


def with_gradients(asked: Asked) -> list[Tensor]:
    """Correlate with the gradient at the input."""
    return _agreement(asked, "gradients")


def _agreement(asked: Asked, reference: str) -> list[Tensor]:
    """Correlate absolute scores, (batch, layer) each; NaN for the reference itself."""
    other, itself = asked.references[reference].abs().double(), reference_methods(asked.protocol).get(reference)
    found = []
    for one in asked.attributions:
        values = correlate(one.scores.abs().double(), other, asked.ranked[:, None], asked.protocol.ties)
        found.append(torch.full_like(values, torch.nan) if one.method == itself else values)
    return found
