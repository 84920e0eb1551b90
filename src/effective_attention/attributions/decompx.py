"""Which part of each logit has come from which input token, if every token's share is carried through the whole model?

DecompX, Modarressi et al. (2023), "Explaining Transformers Decisions by Propagating Token Decomposition"
(2023.acl-long.149). Each token's state is kept as a sum of vectors, one for each input token, and all parts of a layer
act on the summands: attention and linear maps as they are; a layer norm with the standard deviation of the sum (see
``layer_vectors``); an activation as the slope from zero to where the sum is, ``f(z) / z``; a bias is shared out by the
summands' ``|<vector, bias>|``. The classification head is treated alike, so that the summands of a logit add up to it.
These are the choices of the paper's best variant. As in its code, the first layer's vectors hold the bias of the
values, and the input of the decomposition are the embeddings' outputs.

Under effective attention a row need not sum to 1, so that the bias of the values arrives as often as the row's sum
says; the summands add up to the same logits.

The head is let read every layer's vectors, as if the model ended there, which gives a score a layer; the last layer's
is the paper's. The paper explains the logit of the predicted class, we that of the target. It reads the token that the
head reads, whatever ``Settings.row`` says. Memory grows with the square of a text's length, times the width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from effective_attention.attention.hook import evaluation_mode
from effective_attention.attention.rerun import model_inputs, removed_after
from effective_attention.attention.trace import Part, Trace
from effective_attention.attributions.answer import answer_position
from effective_attention.attributions.blocks import Block, handed, head_steps, post_norm_blocks
from effective_attention.attributions.layer_modules import layer_modules
from effective_attention.attributions.layer_vectors import through_norm
from effective_attention.attributions.norms import check_projections, head_blocks
from effective_attention.attributions.registry import register
from effective_attention.attributions.shared_work import SharedWork

_TINY = 1e-12  # as in the authors' code: a sum of shares, or an activation's input, may be 0

Vectors = Float[Tensor, "query key width"]


def check_parts(trace: Trace) -> None:
    """Refuse a model with parts that the decomposition does not know.

    Raises:
        ValueError: Says which.
    """
    check_projections(trace)
    _blocks(trace)
    _head(trace)


@register(
    "decompx",
    title="DecompX",
    summary="each token's share of the logit, carried through the whole model",
    reads_attention=True,
    needs=["decomposed_logits"],
    check=check_parts,
)
def decompx(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the target's logit; signed."""

    def compute() -> Tensor:
        work.weights(attention)  # kept by the trace, where the decomposition finds it
        return decomposed_logits(work.trace, attention)

    found = work.shared("decomposed_logits", attention, compute)  # (batch, layer, key, class)
    target = work.request.target if found.shape[-1] > 1 else torch.zeros_like(work.request.target)
    return found[torch.arange(len(found), device=found.device), :, :, target]


@torch.no_grad()
def decomposed_logits(trace: Trace, attention: Part = "standard") -> Float[Tensor, "batch layer key classes"]:
    """Decompose the logits that the head gives for each layer's states; 0 on padding.

    The sum over keys is what the head gives, of the last layer the model's logits.

    Raises:
        ValueError: The model has parts that the decomposition does not know.
    """
    blocks, head = _blocks(trace), _head(trace)
    batch, length = trace.mask.shape
    shape = (batch, len(blocks), length, trace.logits.shape[-1])
    found = torch.zeros(shape, dtype=torch.float64, device=trace.mask.device)
    for row, mask in enumerate(trace.mask):
        if bool(mask.any()):
            found[row][:, mask] = _of_text(trace.example(row), attention, blocks, head)
    return found


@dataclass(frozen=True, eq=False)
class _Head:
    """The classification head: one linear map, or two with an activation between them; and the layer it reads."""

    first: nn.Module
    last: nn.Module
    below: nn.Module


@dataclass(frozen=True, eq=False)
class _Given:
    """What one layer's parts are handed, of one text, (token, width) each.

    Attributes:
        norm: The norm behind the attention.
        inner: The feed-forward part.
        outer: Its last linear map, so the activation's output.
        last: The layer's last norm.
    """

    norm: Tensor
    inner: Tensor
    outer: Tensor
    last: Tensor


def _blocks(trace: Trace) -> list[Block]:
    blocks = post_norm_blocks(trace)
    name = type(trace.model).__name__
    if any(block.inner is None for block in blocks):
        raise ValueError(f"{name} has a feed-forward part that begins with several linear maps, as a gate does")
    if any(block.value is None for block in blocks):
        raise ValueError(f"{name} makes its values by no linear map of their own")
    return blocks


def _head(trace: Trace) -> _Head:
    """Find the head: the linear map that is handed the answering token's last state, and the one that gives the logits.

    Raises:
        ValueError: There is none of that kind.
    """
    steps = head_steps(trace)
    state = trace.hidden[-1][0, answer_position(trace)[0]]
    first = next((step for step in steps if step.reads(state)), None)
    last = next((step for step in steps if step.gives(trace.logits[:1])), None)
    if first is None or last is None or (first is not last and first.gave.numel() != last.given.numel()):
        raise ValueError(
            f"{type(trace.model).__name__} has no head of one or two linear maps that reads the token it answers from"
        )
    return _Head(first.module, last.module, layer_modules(trace)[-1])


def _of_text(trace: Trace, attention: Part, blocks: list[Block], head: _Head) -> Float[Tensor, "layer key classes"]:
    """Decompose the logits of one text without padding."""
    parts = [lambda one: one.norm, lambda one: one.inner, lambda one: one.outer, lambda one: one.last]
    given = [_Given(*(one[0] for one in each)) for each in zip(*handed(trace, parts, blocks), strict=True)]
    place = int(answer_position(trace)[0])
    state: Vectors | None = None
    found = []
    for number, (block, parts_given) in enumerate(zip(blocks, given, strict=True)):
        state = _attended(trace, number, attention, block, state)
        state = _through_rest(state, block, parts_given)
        found.append(_through_head(state[place], head, _head_given(trace, head, number)))
    return torch.stack(found)


def _attended(trace: Trace, number: int, attention: Part, block: Block, below: Vectors | None) -> Vectors:
    """Return the summands behind attention and residual, with the projection's bias shared out."""
    layer = trace.layers[number]
    weights = layer.part(attention)[0].double()  # (head, query, key)
    blocks = head_blocks(trace.model, block.projection, layer.value).double()  # (head, d_head, width)
    bias = _linear(block.projection)[1].expand(weights.shape[1], -1)
    if below is None:
        vectors = torch.einsum("hqk,hkd->qkd", weights, layer.value[0].double() @ blocks)
        places = torch.arange(weights.shape[1], device=weights.device)
        vectors[places, places] += trace.hidden[0][0].double()
        return _with_bias(vectors, bias)
    matrix, constant = _linear(block.value)
    heads, d_head = blocks.shape[:2]
    values = (below @ matrix).reshape(*below.shape[:2], heads, d_head)  # (middle, key, head, d_head)
    mixed = torch.einsum("hqm,mkhd->qkhd", weights, values).flatten(2)  # (query, key, head * d_head)
    brought = torch.einsum("hq,hd,hdw->qw", weights.sum(dim=-1), constant.view(heads, d_head), blocks)
    return _with_bias(mixed @ blocks.flatten(0, 1) + below, bias + brought)


def _through_rest(vectors: Vectors, block: Block, given: _Given) -> Vectors:
    """Carry the summands through the norms and the feed-forward part."""
    assert block.inner is not None
    normed = _normed(vectors, block.norm, given.norm)
    before: Tensor = block.inner(given.inner)
    inside = _linearly(normed, block.inner) * _slopes(before, given.outer)[:, None]
    return _normed(normed + _linearly(inside, block.outer), block.last, given.last)


def _through_head(
    vectors: Float[Tensor, "key width"], head: _Head, given: tuple[Tensor, Tensor]
) -> Float[Tensor, "key classes"]:
    """Carry one token's summands through the head, whose activation was handed and gave what is ``given``."""
    summands = _linearly(vectors[None], head.first)  # (1, key, ...)
    if head.first is not head.last:
        before, after = given
        summands = _linearly(summands * _slopes(before, after)[None, None], head.last)
    return summands[0]


@torch.no_grad()
def _head_given(trace: Trace, head: _Head, number: int) -> tuple[Tensor, Tensor]:
    """Let the head read a layer's states; return what its activation was handed, and gave."""

    def replace(_module: nn.Module, _given: Any, gave: Any) -> Any:
        state = trace.hidden[number + 1]
        return state if isinstance(gave, Tensor) else (state, *gave[1:])

    seen: dict[str, Tensor] = {}
    hooks = [
        head.below.register_forward_hook(replace),
        head.first.register_forward_hook(lambda _module, _given, gave: seen.update(before=gave.flatten())),
        head.last.register_forward_pre_hook(lambda _module, given: seen.update(after=given[0].flatten())),
    ]
    with removed_after(hooks), evaluation_mode(trace.model):
        trace.model(**model_inputs(trace))
    return seen["before"], seen["after"]


def _normed(vectors: Vectors, norm: nn.Module, given: Float[Tensor, "query width"]) -> Vectors:
    bias: Tensor | None = norm.bias  # type: ignore[assignment]
    found = through_norm(vectors, norm, given.double())
    return found if bias is None else _with_bias(found, bias.double().expand(given.shape))


def _linearly(vectors: Vectors, module: nn.Module) -> Vectors:
    """Apply a linear map, and share out its bias."""
    matrix, bias = _linear(module)
    return _with_bias(vectors @ matrix, bias.expand(len(vectors), -1))


def _with_bias(vectors: Vectors, bias: Float[Tensor, "query width"]) -> Vectors:
    """Share a bias out to the summands by the size of their products with it."""
    shares = torch.einsum("qkd,qd->qk", vectors, bias).abs()
    shares = shares / (shares.sum(dim=-1, keepdim=True) + _TINY)
    return vectors + shares[..., None] * bias[:, None]


def _slopes(before: Tensor, after: Tensor) -> Tensor:
    """Return what an activation multiplied its input by."""
    return after.double() / (before.double() + _TINY)


def _linear(module: nn.Module | None) -> tuple[Float[Tensor, "given gave"], Float[Tensor, " gave"]]:
    """Return a linear map's matrix and bias; transformers' Conv1D keeps its matrix the other way round."""
    assert module is not None
    weight: Tensor = module.weight if isinstance(module, Conv1D) else module.weight.T  # type: ignore[assignment]
    bias: Tensor | None = module.bias  # type: ignore[assignment]
    return weight.double(), weight.new_zeros(weight.shape[1]).double() if bias is None else bias.double()
