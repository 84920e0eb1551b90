"""Run a model with given attention weights in some of its heads; everything else, also in later layers, is the model's own."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from effective_attention.attention.implementations import attention_function, head_outputs, weights_and_values
from effective_attention.attention.trace import evaluation_mode, for_model


@dataclass
class _Replacement:
    """Weights by layer; layers are counted as they are called."""

    weights: Float[Tensor, "layer head query key"]
    replaced: Bool[Tensor, "layer head"]
    calls: int = 0


_ACTIVE: ContextVar[_Replacement | None] = ContextVar("the weights that are put in", default=None)


def replaced_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    """The model's own attention, but with the given weights in the heads that are replaced."""
    weights, values = weights_and_values(module, query, key, value, attention_mask, **kwargs)
    active = _ACTIVE.get()
    if active is not None:
        layer, active.calls = active.calls, active.calls + 1
        given = active.weights[layer].to(weights)
        weights = torch.where(active.replaced[layer][:, None, None], given, weights)
    return head_outputs(weights, values), weights


AttentionInterface.register(replaced_attention.__name__, replaced_attention)
AttentionMaskInterface.register(replaced_attention.__name__, eager_mask)


@torch.no_grad()
def replaced_logits(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    weights: Float[Tensor, "layer head query key"],
    replaced: Bool[Tensor, "layer head"],
) -> Tensor:
    """What the model answers with these weights in the chosen heads; mode and attention are restored.

    Args:
        model: One whose attention goes through the ``AttentionInterface``, as a traced one's does.
        inputs: Of the model; every example gets the same weights.
        weights: What to put in; what stands in heads that are not replaced does not matter.
        replaced: Which heads.
    """
    token = _ACTIVE.set(_Replacement(weights, replaced))
    try:
        with evaluation_mode(model), attention_function(model, replaced_attention.__name__):
            output = model(**for_model(inputs))
    finally:
        _ACTIVE.reset(token)
    logits: Tensor = output.get("logits", output.get("last_hidden_state"))
    return logits
