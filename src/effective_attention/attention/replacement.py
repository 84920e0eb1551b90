"""Run a model with other attention weights in some of its heads; everything else, also in later layers, is its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import PreTrainedModel

from effective_attention.attention.hook import AttentionCall, AttentionOutput, attention_hook, head_outputs
from effective_attention.attention.trace import for_model

ChangeWeights = Callable[[AttentionCall, Tensor], Tensor]


@torch.no_grad()
def logits_with(model: PreTrainedModel, inputs: Mapping[str, Tensor], change: ChangeWeights) -> Tensor:
    """Return the model's answer when ``change`` may replace each layer's weights.

    Args:
        model: One whose attention goes through the ``AttentionInterface``, as a traced one's does.
        inputs: The model's inputs; ``labels`` and ``index`` are not handed on.
        change: From a layer's call (its ``number`` is the layer's) and the model's own weights to those that count.
    """

    def handle(call: AttentionCall) -> AttentionOutput:
        weights, values = call.weights_and_values()
        weights = change(call, weights)
        return head_outputs(weights, values), weights

    with attention_hook(model, handle, evaluation=True):
        output = model(**for_model(inputs))
    logits: Tensor = output.get("logits", output.get("last_hidden_state"))
    return logits


def replaced_logits(
    model: PreTrainedModel,
    inputs: Mapping[str, Tensor],
    weights: Float[Tensor, "layer head query key"],
    replaced: Bool[Tensor, "layer head"],
) -> Tensor:
    """Return the model's answer with given weights in the chosen heads.

    Args:
        model: Any model that ``logits_with`` takes.
        inputs: The model's inputs; every example gets the same weights.
        weights: What to put in; what stands in heads that are not replaced does not matter.
        replaced: The heads to replace.
    """

    def put_in(call: AttentionCall, own: Tensor) -> Tensor:
        chosen = replaced[call.number][:, None, None]  # (head, 1, 1)
        return torch.where(chosen, weights[call.number].to(own), own)

    return logits_with(model, inputs, put_in)
