"""Run a model with other attention weights in some of its heads; everything else, also in later layers, is its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from effective_attention.attention.call import AttentionCall, AttentionOutput, head_outputs
from effective_attention.attention.hook import attention_hook
from effective_attention.attention.trace import answer_of, for_model

ChangeWeights = Callable[[AttentionCall, Tensor], Tensor]


@torch.no_grad()
def logits_with(model: nn.Module, inputs: Mapping[str, Tensor], change: ChangeWeights) -> Tensor:
    """Return the model's answer when ``change`` may replace each layer's weights.

    Args:
        model: One whose attention can be met, as a traced one's was.
        inputs: The model's inputs; ``labels`` and ``index`` are not handed on.
        change: From a layer's call (its ``number`` is the layer's) and the model's own weights to those that count.
    """

    def handle(call: AttentionCall) -> AttentionOutput:
        weights, values = call.weights_and_values()
        weights = change(call, weights)
        return head_outputs(weights, values), weights

    with attention_hook(model, handle, evaluation=True):
        return answer_of(model(**for_model(inputs)))


def replaced_logits(
    model: nn.Module,
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
