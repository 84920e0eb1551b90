"""Random samples of a split, the same whatever the batches and processes."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor

from effective_attention.analyses.common.base import Context
from effective_attention.attention.trace import Layer, Trace


def sample(context: Context, count: int | None) -> Tensor:
    """Draw a random sample of ``count`` examples (None: all), as (examples,) of bool; the same in every process."""
    chosen = torch.zeros(context.examples, dtype=torch.bool)
    order = torch.randperm(context.examples, generator=torch.Generator().manual_seed(context.seed))
    chosen[order if count is None else order[:count]] = True
    return chosen


def in_sample(chosen: Tensor, trace: Trace) -> Tensor:
    """Tell which examples of a batch, (batch,), belong to a sample; see ``sample``."""
    return chosen[trace.inputs["index"].cpu()].to(trace.mask.device)


def slots(used: Tensor, trace: Trace) -> Tensor:
    """Return where the examples of a batch, all of them in a sample, are kept among the sample's, (batch,)."""
    return (used.cumsum(dim=0) - 1)[trace.inputs["index"].cpu()].to(trace.mask.device)


def only(trace: Trace, chosen: Bool[Tensor, " batch"]) -> Trace:
    """Cut some examples out of a traced batch.

    What other analyses made of the batch is not kept, so that a method's cost is all of it.
    """
    layers = []
    for layer in trace.layers:
        visible = layer.visible
        if visible is not None:
            visible = visible.expand(len(chosen), -1, -1, -1)[chosen]
        layers.append(Layer(layer.attention[chosen], layer.value[chosen], visible, layer.reading))
    return Trace(
        trace.model,
        {name: value[chosen] for name, value in trace.inputs.items()},
        tuple(layers),
        tuple(hidden[chosen] for hidden in trace.hidden),
        trace.logits[chosen],
        {name: value[chosen] for name, value in trace.tokens.items()},
    )


def random_share(index: Tensor, share: float, seed: int) -> Tensor:
    """Tell which of some whole numbers (examples, or heads of examples) belong to a random sample of about this share.

    Decided by each number alone, so that neither batching nor the number of processes changes the sample.
    """
    mixed = index.long() + seed * 1_000_003
    for shift, factor in ((33, 0x7F51AFD7ED558CCD), (29, 0x44CEB9FE1A85EC53), (32, 1)):  # a 64-bit finaliser
        mixed = (mixed ^ ((mixed >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return (mixed & ((1 << 53) - 1)).double() / (1 << 53) < share
