"""The kinds of attention, one record each: what it is called, how it is computed, how it looks, what it needs.

Everything that lists attentions (tests of a model, analyses, figures, dashboards, the explorer) reads these records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from effective_attention.attention.call import AttentionCall, AttentionOutput, head_outputs
from effective_attention.attention.decomposition import Decomposition, effective_part, rank_of, split
from effective_attention.attention.forward_checks import NOT_FINITE, naming
from effective_attention.attention.interface import scored_call
from effective_attention.attention.kernel_route import factors_of, is_worth_it
from effective_attention.attention.plain import AffinePlain, plain_call
from effective_attention.attention.readings import AFFINE, EXACT, Reading, Space
from effective_attention.attention.record import AttentionSwap, Mask
from effective_attention.attention.stream import Stream
from effective_attention.finite import NotFiniteError, all_finite

Function = Callable[[AttentionCall, AttentionSwap], AttentionOutput]


def standard_attention(call: AttentionCall, _record: AttentionSwap) -> AttentionOutput:
    """Run the model's own eager attention."""
    return call.eager()


def effective_attention(call: AttentionCall, record: AttentionSwap) -> AttentionOutput:
    """Compute ``A_effective V``, without the null part; the output is the model's own up to rounding.

    By a fast kernel, without the attention matrix, where that is the whole truth; else from the model's own weights.
    """
    return _effective(call, record, EXACT)


def affine_attention(call: AttentionCall, record: AttentionSwap) -> AttentionOutput:
    """Compute effective attention in affine space: the same output, and rows that sum to 1."""
    return _effective(call, record, AFFINE)


def _effective(call: AttentionCall, record: AttentionSwap, reading: Reading) -> AttentionOutput:
    mask = record.mask(call)
    width = call.value.shape[-1]  # of what is handed on; in affine space a column of ones goes along
    plain = plain_call(call, mask)
    if plain is not None and reading.space == "affine":
        plain = AffinePlain.of(plain)
    if plain is not None and record.kind and call.shape[2] == 1 and not torch.is_grad_enabled():
        found = record.streams.setdefault(call.module, Stream()).row(plain)
        if found is not None:
            effective, output, rank = found
            record.add_nullity(_nullity(call, mask, rank, reading.space))
            return output[..., :width].transpose(1, 2).contiguous(), effective
    if plain is not None and is_worth_it(plain):
        output = plain.output() if plain.is_differentiated else None
        factors = factors_of(plain, None if output is None else output.detach())
        if factors is not None:
            record.add_nullity(_nullity(call, mask, factors.rank, reading.space))
            # Both are the same number: the one is what was computed, the other has its derivative.
            handed_on = factors.output if output is None else output + (factors.output - output).detach()
            weights = factors.dense() if call.weights_wanted else None
            return handed_on[..., :width].transpose(1, 2).contiguous(), weights
    weights = call.weights()
    # Softmax has made hidden weights exactly 0. Where no graph is made, nobody needs the weights any more.
    options: dict[str, Any] = {"reading": reading, "overwrite": not torch.is_grad_enabled()}
    effective, rank = effective_part(weights, call.value, mask.visible, **options)
    record.add_nullity(_nullity(call, mask, rank, reading.space))
    return head_outputs(effective, call.value), effective


def _nullity(call: AttentionCall, mask: Mask, rank: Tensor, space: Space) -> Tensor:
    """Return the dimension of each head's null space, (batch, head): of ``rank`` dimensions, how many keys are seen."""
    if mask.seen is None:
        return call.shape[3] - rank
    if mask.seen_by_some is not None:  # the rank is that of padding too
        rank = rank_of(call.value, mask.seen_by_some, call.shape[1], space)
    return mask.seen.sum(dim=-1) - rank


def padded_attention(call: AttentionCall, record: AttentionSwap) -> AttentionOutput:
    """Follow the published protocol, which changes the output.

    The null space is found with padding inside, and padding columns are set to zero afterwards.
    """
    weights, value = call.weights_and_values()
    visible = record.mask(call).visible
    parts = split(weights, value, visible, reading=Reading("padded"))
    record.add_nullity(weights.shape[-1] - parts.rank)
    record.add_change(parts.output_change(_real_queries(visible, weights)))
    return head_outputs(parts.effective, value), parts.effective


def _real_queries(visible: Tensor | None, weights: Tensor) -> Tensor | None:
    """Return which queries are real tokens, (batch, query).

    In self-attention a token that nobody may see is padding, also as a query.
    """
    batch, _, query, key = weights.shape
    if visible is None or query != key:
        return None
    return visible.any(dim=-2).any(dim=1).expand(batch, key)


@dataclass(frozen=True)
class Variant:
    """One kind of attention.

    Attributes:
        name: Its name in configs, tables and dashboards.
        meaning: What it is, in a few words.
        colour: Colour of its lines and bars.
        scale: Matplotlib's name of the colour map of its weights.
        function: How a model runs with it; None: it can only be looked at.
        part: What it is of a split attention matrix; None: it cannot be read off a trace (``extra_maps`` finds some).
        space: Of that split; None: the one that the trace was asked to be read in.
        compared: Whether every analysis measures it.
        signed: Whether weights may be negative.
        full_length: Whether a model that runs with it wants inputs padded to the maximum length.
        changes_output: Whether a model answers otherwise with it.
    """

    name: str
    meaning: str
    colour: str
    scale: str
    function: Function | None = None
    part: Callable[[Decomposition], Tensor] | None = None
    space: Space | None = None
    compared: bool = False
    signed: bool = False
    full_length: bool = False
    changes_output: bool = False


_RECORDS = (
    Variant(
        "standard",
        "the model's own attention",
        colour="#1b7837",
        scale="Greens",
        function=standard_attention,
        part=lambda parts: parts.attention,
        compared=True,
    ),
    Variant(
        "effective",
        "the part that can reach the output",
        colour="#2166ac",
        scale="Blues",
        function=effective_attention,
        part=lambda parts: parts.effective,
        compared=True,
        signed=True,
    ),
    Variant(
        "null",
        "the part that cannot reach the output",
        colour="#b35806",
        scale="PuOr",
        part=lambda parts: parts.null,
        signed=True,
    ),
    Variant(
        "affine",
        "the part that can reach the output, with rows that sum to 1",
        colour="#762a83",
        scale="Purples",
        function=affine_attention,
        part=lambda parts: parts.effective,
        space="affine",
        signed=True,
    ),
    Variant(
        "sparse",
        "of all distributions with the same output, that of fewest weights which agrees most with the attention",
        colour="#c51b7d",
        scale="Pinks",
    ),
    Variant(
        "smallest",
        "of all distributions with the same output, the most even one: of smallest norm",
        colour="#016c59",
        scale="PuBuGn",
    ),
    Variant(
        "padded",
        "effective attention as published, padding inside the null space",
        colour="#7f7f7f",
        scale="Greys",
        function=padded_attention,
        signed=True,
        full_length=True,
        changes_output=True,
    ),
)
VARIANTS = {record.name: record for record in _RECORDS}
"""By name, in the order in which results show them."""
ATTENTIONS = tuple(record.name for record in _RECORDS if record.compared)
"""Those that every analysis measures side by side."""
PARTS = tuple(record.name for record in _RECORDS if record.part is not None)
"""Those that can be looked at in a trace."""
TESTED = tuple(record.name for record in _RECORDS if record.function is not None)
"""Those that a model can run with."""


def variant_to_run(name: str) -> Variant:
    """Return the record of an attention that a model can run with.

    Raises:
        ValueError: There is none of that name.
    """
    if name not in TESTED:
        raise ValueError(f"attention must be one of {', '.join(TESTED)}, got {name!r}")
    return VARIANTS[name]


def _as_transformers_wants_it(function: Function) -> Callable[..., AttentionOutput]:
    """Turn a variant's function into one that a model calls by its registered name, without a record."""

    def attention(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any) -> Any:
        with naming(lambda: _layer(module)):
            call = scored_call(module, query, key, value, mask, options)
            output, weights = function(call, AttentionSwap())
            if not all_finite(output):  # without a hook nobody looks when the forward pass ends
                raise NotFiniteError(NOT_FINITE)
        return output, weights

    return attention


def _layer(module: Any) -> str:
    """Name a layer that is met without its model."""
    return f"layer {getattr(module, 'layer_idx', '?')} ({type(module).__name__})"


def registered_function(name: str) -> Callable[..., AttentionOutput]:
    """Return the attention function that transformers knows by this name, such as ``effective_attention``."""
    return _FUNCTIONS[name]


_FUNCTIONS = {
    f"{record.name}_attention": _as_transformers_wants_it(record.function)
    for record in _RECORDS
    if record.function is not None
}
for _name, _function in _FUNCTIONS.items():
    AttentionInterface.register(_name, _function)
    AttentionMaskInterface.register(_name, eager_mask)
