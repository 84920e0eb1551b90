"""What a token is worth by the code that Abnar & Zuidema (2020) published: the absolute *sum* of its gradient.

It differs from ``input_gradient``, the L2 norm, in more than that: the class's *logit* is differentiated, not its
log-odds, and at the output of the whole embedding, positions and layer norm included. It must be there: a layer norm
does not see what is added to all of a token's dimensions, so that in front of it the sum is 0, but for rounding.

No attribution method of its own: it is what methods are compared with where a protocol asks for it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from effective_attention.attention.hook import evaluation_mode
from effective_attention.attention.rerun import autograd_on, model_inputs, removed_after
from effective_attention.attributions.embedding import token_embedding
from effective_attention.attributions.request import AttributionRequest


def summed_gradient(request: AttributionRequest) -> Float[Tensor, "batch key"]:
    """Take the absolute sum of the gradient of the target's logit at each token's embedding; 0 on padding.

    Raises:
        ValueError: The model hands out copies of its hidden states (XLNet does), which nothing can be derived from.
    """
    trace = request.trace
    model = trace.transformer

    def start_here(_module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        return output.detach().requires_grad_()  # a graph begins here, though no weight may want a gradient

    with token_embedding(trace) as embed, autograd_on(), evaluation_mode(trace.model):
        with removed_after([embed.register_forward_hook(start_here)]):
            output = model(**model_inputs(trace), output_hidden_states=True)
        places = torch.zeros_like(request.target) if output.logits.shape[-1] == 1 else request.target.clone()
        asked = output.logits.gather(1, places[:, None]).sum()
        (gradient,) = torch.autograd.grad(asked, [output.hidden_states[0]], allow_unused=True)
    if gradient is None:
        raise ValueError(f"{type(model).__name__} hands out copies of its embeddings, which no gradient reaches")
    return gradient.sum(dim=-1).abs().masked_fill(~trace.mask, 0)
