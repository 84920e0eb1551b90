"""How much does a layer's output change when no head can read the value of one token?

Mohebbi et al. (2023), "Quantifying Context Mixing in Transformers" (arXiv 2301.12971): the value vector of token j is
set to zero in every head of one layer, whose input and attention weights stay what they are, and the rest of the layer
runs on. ``c_ij`` is the cosine distance of token i's output from what it was; each row is divided by its sum. The
rollout multiplies the layers' rows without a residual of its own, which is in the outputs that are compared already.

Under effective attention what token j brings is ``alpha_ij v_j`` with the effective weight: that is what is taken away
from the same output. A token with a large weight that lies in the null space then loses it.

A pass of the whole model for each token: copies of a text, each with another token zeroed, go through all layers at
once, and every layer of every copy is handed what it was handed in the untouched text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from effective_attention.attention.call import AttentionCall, AttentionOutput, head_outputs
from effective_attention.attention.hook import attention_hook
from effective_attention.attention.rerun import model_inputs, removed_after
from effective_attention.attention.trace import Part, Trace
from effective_attention.attributions.layer_modules import layer_modules
from effective_attention.attributions.perturbations import ROWS, progress_of, rows_together
from effective_attention.attributions.registry import register
from effective_attention.attributions.rollout import rolled_through
from effective_attention.attributions.shared_work import SharedWork
from effective_attention.graphs.conventions import signed_to_weights

_UNTOUCHED = -1  # instead of the token that is zeroed


def check_layers(trace: Trace) -> None:
    """Refuse a model whose layers cannot be run one by one.

    Raises:
        ValueError: Says why.
    """
    layer_modules(trace)


@register(
    "value_zeroing",
    title="value zeroing",
    summary="change of the layer's output when a token's value is zeroed",
    reads_attention=True,
    needs=["value_zeroing"],
    check=check_layers,
)
def value_zeroing(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the layers' changes."""
    return work.row(_changes(work, attention))


@register(
    "value_zeroing_rollout",
    title="rollout of value zeroing",
    summary="value zeroing of all layers below, multiplied",
    reads_attention=True,
    needs=["value_zeroing"],
    check=check_layers,
)
def value_zeroing_rollout(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer key"]:
    """Read the row of the rollout of the layers' changes."""
    return rolled_through(work, _changes(work, attention))


def _changes(work: SharedWork, attention: Part) -> Float[Tensor, "batch layer query key"]:
    def compute() -> Tensor:
        work.weights(attention)  # kept by the trace, where the changes find it
        return value_zeroing_graph(work.trace, attention, title=work.settings.title)

    return work.shared("value_zeroing", attention, compute)


@torch.no_grad()
def value_zeroing_graph(
    trace: Trace, attention: Part = "standard", *, rows: int = ROWS, title: str | None = None
) -> Float[Tensor, "batch layer query key"]:
    """Measure how much each token's output changes without each token's value; rows sum to 1, 0 on padding.

    Args:
        trace: The batch.
        attention: Whose weights say what a token brings.
        rows: At most so many copies of texts run together.
        title: Under which is shown how far it has got, if it takes long; None: nothing is shown.
    """
    mask = trace.mask
    modules = layer_modules(trace)
    batch, length = mask.shape
    untouched = _outputs(trace, modules, attention, *_copies(torch.ones_like(mask[:, :1])))
    untouched = [layer.double() for layer in untouched]
    found = torch.zeros(batch, len(modules), length, length, dtype=torch.float64, device=mask.device)
    examples, tokens = mask.nonzero(as_tuple=True)
    together = rows_together(length, mask.device, rows)
    with progress_of(title, len(examples), "zeroed values") as shown:
        for start in range(0, len(examples), together):
            example, token = examples[start : start + together], tokens[start : start + together]
            zeroed = _outputs(trace, modules, attention, example, token)
            for layer, (new, old) in enumerate(zip(zeroed, untouched, strict=True)):
                similar = torch.cosine_similarity(new.double(), old[example], dim=-1)  # (copy, query)
                found[example, layer, :, token] = (1 - similar).clamp_min(0)
            shown.advance(len(example))
    pairs = mask[:, None, :, None] & mask[:, None, None, :]
    return signed_to_weights(found.masked_fill(~pairs, 0))


def _copies(one: Tensor) -> tuple[Tensor, Tensor]:
    """Return an untouched copy of each example."""
    example = torch.arange(len(one), device=one.device)
    return example, torch.full_like(example, _UNTOUCHED)


def _outputs(
    trace: Trace,
    modules: list[nn.Module],
    attention: Part,
    example: Int[Tensor, " copy"],
    token: Int[Tensor, " copy"],
) -> list[Float[Tensor, "copy query width"]]:
    """Run copies of texts without a token's value each; return every layer's output, for its own untouched input."""
    batch = len(trace.mask)
    inputs = {
        name: value[example] if value.shape[:1] == (batch,) else value for name, value in model_inputs(trace).items()
    }
    with (
        attention_hook(trace.model, _without(trace, attention, example, token), evaluation=True),
        _fed(modules, [states[example] for states in trace.hidden[:-1]]) as outputs,
    ):
        trace.model(**inputs)
    return outputs


def _without(trace: Trace, attention: Part, example: Tensor, token: Tensor) -> Any:
    """Return a handler that leaves the zeroed token of each copy out of what every layer's heads hand on."""
    texts, place = torch.unique(example, return_inverse=True)
    touched = (token != _UNTOUCHED).to(trace.layers[0].value.dtype)[:, None, None, None]

    def handle(call: AttentionCall) -> AttentionOutput:
        layer = trace.layers[call.number]
        whole = head_outputs(layer.part("standard")[texts], layer.value[texts])  # (text, query, head, d_head)
        weights = layer.part(attention)[example, :, :, token]  # (copy, head, query): of the zeroed key
        value = layer.value[example, :, token]  # (copy, head, d_head)
        brought = weights.transpose(1, 2)[..., None] * value[:, None]
        return whole[place] - (touched * brought).to(whole.dtype), None

    return handle


@contextmanager
def _fed(modules: list[nn.Module], states: list[Tensor]) -> Iterator[list[Tensor]]:
    """Hand each layer the given states instead of what the layer below gave, and list what it makes of them."""
    outputs: list[Tensor] = []
    started: list[nn.Module] = []

    def feed(
        module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        started.append(module)
        state = states[len(started) - 1]
        if given:
            return (state.reshape(given[0].shape), *given[1:]), named
        return given, {**named, "hidden_states": state.reshape(named["hidden_states"].shape)}

    def keep(_module: nn.Module, _given: Any, gave: Any) -> None:
        output = gave if isinstance(gave, Tensor) else gave[0]
        outputs.append(output.reshape(states[0].shape))

    each = list(dict.fromkeys(modules))  # layers may share their weights
    hooks = [module.register_forward_pre_hook(feed, with_kwargs=True) for module in each]
    hooks += [module.register_forward_hook(keep) for module in each]
    with removed_after(hooks):
        yield outputs
