"""How long is the vector that a head really brings from one token to another?

Kobayashi et al. (2020; S9: Sun & Marasovic name the comparison as future work). A head adds ``alpha_ij f_h(x_j)`` to
token i, with ``f_h(x) = (x W_V + b_V) W_O``, its value times its block of the output projection. A large weight on a
short vector brings little, so the norm ``||alpha_ij f_h(x_j)||`` is looked at in place of the weight. A layer's is the
norm of the sum over heads, not the sum of norms: heads may cancel. The output projection's bias belongs to no token and
is left out, as in the paper.

Under effective attention ``alpha`` is the effective weight, which may be negative: a head's norm takes its absolute
value, a layer's sum its sign. The vectors over all keys add up to the same output.

The (query, key, width) vectors are never made: ``||sum_h alpha_h f_h||^2 = sum_hh' alpha_h alpha_h' <f_h, f_h'>`` needs
only a (head, head) Gram matrix per key, taken in double precision so that heads that cancel leave no rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from effective_attention.attention.rerun import Call, check_watched, first_text, removed_after, watching
from effective_attention.attention.trace import Part, Trace
from effective_attention.attributions.registry import register
from effective_attention.attributions.rollout import rolled_out
from effective_attention.attributions.shared_work import SharedWork


def check_projections(trace: Trace) -> None:
    """Refuse a model whose output projections cannot be found, or not be cut by heads.

    Raises:
        ValueError: Says why.
    """
    for layer, projection in zip(trace.layers, output_projections(trace), strict=True):
        head_blocks(trace.model, projection, layer.value)


@register(
    "norm",
    title="norm of the output",
    summary="length of the vector a token brings, heads summed",
    reads_attention=True,
    needs=["norms"],
    check=check_projections,
    pieces="largest",
)
def norm(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the layers' norms."""
    return work.row(_norms(work, attention))


@register(
    "norm_rollout",
    title="rollout of norms",
    summary="norms of all layers below, as shares, multiplied",
    reads_attention=True,
    needs=["norms"],
    check=check_projections,
)
def norm_rollout(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the rollout of the layers' norms."""
    return rolled_out(work, _norms(work, attention))


def _norms(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer query key"]:
    def compute() -> Tensor:
        work.weights(attention)  # kept by the trace, where the norms find it
        return norm_weights(work.trace, attention).per_layer.double()

    return work.shared("norms", attention, compute)


@dataclass(frozen=True, eq=False)
class NormWeights:
    """Norms of what each key brings to each query; 0 on padding.

    Attributes:
        per_head: Of one head's vector.
        per_layer: Of the sum of all heads' vectors.
    """

    per_head: Float[Tensor, "batch layer head query key"]
    per_layer: Float[Tensor, "batch layer query key"]


@torch.no_grad()
def norm_weights(trace: Trace, attention: Part = "standard") -> NormWeights:
    """Compute the norms of the weighted, transformed vectors of every layer.

    Raises:
        ValueError: The model's output projection cannot be found.
    """
    mask = trace.mask
    pairs = (mask[:, :, None] & mask[:, None, :])[:, None]  # (batch, 1, query, key)
    heads, layers = [], []
    for layer, projection in zip(trace.layers, output_projections(trace), strict=True):
        weights = layer.part(attention).masked_fill(~pairs, 0)
        blocks = head_blocks(trace.model, projection, layer.value)
        found = [
            vector_norms(one, value, blocks) for one, value in zip(weights, layer.value, strict=True)
        ]  # bounds memory
        heads.append(torch.stack([per_head for per_head, _ in found]))
        layers.append(torch.stack([per_layer for _, per_layer in found]))
    return NormWeights(torch.stack(heads, dim=1), torch.stack(layers, dim=1))


def vector_norms(
    weights: Float[Tensor, "head query key"],
    value: Float[Tensor, "head key d_head"],
    blocks: Float[Tensor, "head d_head width"],
) -> tuple[Float[Tensor, "head query key"], Float[Tensor, "query key"]]:
    """Compute one example's norms per head, and of the sum over heads."""
    vectors = value.double() @ blocks.double()  # (head, key, width)
    per_key = vectors.transpose(0, 1)  # (key, head, width)
    gram = per_key @ per_key.transpose(1, 2)  # (key, head, head)
    by_key = weights.double().permute(2, 1, 0)  # (key, query, head)
    squared = ((by_key @ gram) * by_key).sum(dim=-1)  # (key, query)
    per_head = weights.abs() * vectors.norm(dim=-1)[:, None, :]
    return per_head.to(weights.dtype), squared.clamp_min(0).sqrt().T.to(weights.dtype)


@torch.no_grad()
def output_projections(trace: Trace) -> list[nn.Module]:
    """Find for each layer the linear map that is handed the attention's output, by watching the batch's first text.

    Raises:
        ValueError: A layer hands its attention's output to no linear map.
    """
    model = trace.model
    found: dict[int, nn.Module] = {}  # by the number of the call

    def look(module: nn.Module, inputs: tuple[object, ...]) -> None:
        number = len(calls) - 1
        if number >= 0 and number not in found and is_output(inputs, calls[number]):
            found[number] = module

    linear = [module for module in model.modules() if isinstance(module, nn.Linear | Conv1D)]
    hooks = [module.register_forward_pre_hook(look) for module in linear]
    with removed_after(hooks), watching(model) as calls:
        model(**first_text(trace))
    check_watched(trace, calls)
    missing = [number for number in range(len(calls)) if number not in found]
    if missing:
        raise ValueError(
            f"{type(model).__name__} hands the output of its attention to no linear map (layers {missing}), "
            f"so that norms of what tokens bring are not defined"
        )
    return [found[number] for number in range(len(calls))]


def is_output(inputs: tuple[object, ...], call: Call) -> bool:
    """Tell whether a module is handed the attention's output, be it reshaped or copied."""
    given = inputs[0] if inputs else None
    return (
        isinstance(given, Tensor)
        and given.numel() == call.output.numel()
        and torch.equal(given.flatten(), call.output.flatten())
    )


def head_blocks(model: nn.Module, projection: nn.Module, value: Tensor) -> Float[Tensor, "head d_head width"]:
    """Cut the output projection's rows by head; transformers' Conv1D keeps its weight the other way round."""
    weight: Tensor = projection.weight if isinstance(projection, Conv1D) else projection.weight.T  # type: ignore[assignment]
    heads = value.shape[1]
    d_head = value.shape[3]
    if weight.shape[0] != heads * d_head:
        raise ValueError(
            f"{type(model).__name__}'s output projection takes {weight.shape[0]} numbers, "
            f"not heads x d_head = {heads} x {d_head}"
        )
    return weight.reshape(heads, d_head, -1)
