"""What a layer does with what its attention brings: whose input is added, which norm follows, where it ends.

No model is known by name. One text is run, every linear map and norm is watched, and the parts are recognised by their
numbers: the output projection is the linear map that is handed the attention's output; the norm behind it is handed
that map's output plus the layer's input; the feed-forward part begins where that norm's output goes in, and ends where
its output and a residual go into the next norm. If that residual is the norm's output the layer normalises what it has
added (``post``, as BERT does), if it is the norm's input, the layer normalises what it reads (GPT-2, Llama).

With that, a layer that normalises what it has added is, for token i, with ``s_i = x_i + sum_j T_ij + b`` (b: the
projection's bias) and a norm ``N``: ``y_i = N(s_i)``, ``x'_i = N'(y_i + FF(y_i))``. ``N`` is linear once the standard
deviation of what it is handed is known, so that ``y_i`` is a sum of vectors, one a token, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from effective_attention.attention.rerun import (
    Call,
    check_states,
    check_watched,
    first_text,
    model_inputs,
    removed_after,
    watching,
)
from effective_attention.attention.trace import Trace
from effective_attention.attributions.norms import is_output

_NEAR = 1e-3  # of the largest number: parts of one pass differ by rounding alone
Linear = nn.Linear | Conv1D


@dataclass(frozen=True, eq=False)
class Block:
    """The parts of one layer around its attention.

    Attributes:
        value: The linear map that gives the values of all heads, and nothing else; None: there is none.
        projection: The linear map that is handed the attention's output.
        norm: What is handed the layer's input and the projection's output, added up.
        inner: The first linear map of the feed-forward part; None: it begins with several, as a gated one does.
        outer: Its last.
        last: The norm that is handed its output and what is added to it.
        post: Whether the layer normalises what it has added, by layer norms both times.
    """

    value: nn.Module | None
    projection: nn.Module
    norm: nn.Module
    inner: nn.Module | None
    outer: nn.Module
    last: nn.Module
    post: bool


@dataclass(frozen=True, eq=False)
class Step:
    """One call of a linear map or norm."""

    module: nn.Module
    given: Tensor
    gave: Tensor

    def reads(self, expected: Tensor) -> bool:
        """Tell whether it is handed these numbers, in whatever shape."""
        return _near(self.given, expected)

    def gives(self, expected: Tensor) -> bool:
        """Tell whether it gives these numbers, in whatever shape."""
        return _near(self.gave, expected)


@torch.no_grad()
def find_blocks(trace: Trace) -> list[Block]:
    """Find the parts of each layer, by watching the batch's first text.

    Raises:
        ValueError: A layer is made in another way; names it.
    """
    name = type(trace.model).__name__
    check_states(trace)
    found = []
    calls, windows = _watched(trace)
    for number, call in enumerate(calls):
        value = _value_map(windows[number], trace.layers[number].value[:1])
        block = _block(call, windows[number + 1], trace.hidden[number][:1], value)
        if block is None:
            raise ValueError(
                f"{name} does not add what its attention brings to the layer's input and hand the sum to a norm, "
                f"before a feed-forward part (layer {number})"
            )
        found.append(block)
    return found


def post_norm_blocks(trace: Trace) -> list[Block]:
    """Find the parts of each layer of a model that normalises what it has added, as BERT does.

    Raises:
        ValueError: It normalises what it reads, as decoders do, or is made in another way.
    """
    blocks = find_blocks(trace)
    check_post(trace, blocks)
    return blocks


def check_post(trace: Trace, blocks: list[Block]) -> None:
    """Refuse layers that normalise what they read.

    Raises:
        ValueError: Names the model.
    """
    if not all(block.post for block in blocks):
        raise ValueError(
            f"{type(trace.model).__name__} normalises what a layer reads, not what it has added; this is defined for "
            "encoders that do the latter"
        )


def head_steps(trace: Trace) -> list[Step]:
    """Watch the batch's first text; return the linear maps that follow the last layer's attention."""
    _, windows = _watched(trace)
    return [step for step in windows[-1] if isinstance(step.module, Linear)]


@contextmanager
def recording(modules: list[nn.Module]) -> Iterator[list[list[Tensor]]]:
    """List what each of the modules is handed inside the block, call by call; one that comes twice has one list."""
    lists: dict[nn.Module, list[Tensor]] = {module: [] for module in modules}
    hooks = [
        module.register_forward_pre_hook(lambda module, given: lists[module].append(given[0].detach()))
        for module in lists
    ]
    with removed_after(hooks):
        yield [lists[module] for module in modules]


@torch.no_grad()
def handed(trace: Trace, parts: list[Callable[[Block], nn.Module]], blocks: list[Block]) -> list[list[Tensor]]:
    """Run the batch, and return what each layer hands to the named parts of its block.

    Returns:
        For each of ``parts`` a list over layers, (batch, token, width) each.
    """
    modules = [part(block) for block in blocks for part in parts]
    with recording(modules) as lists, watching(trace.model) as calls:
        trace.model(**model_inputs(trace))
    check_watched(trace, calls)
    met: dict[int, int] = {}  # layers may share their modules
    flat = []
    for one in lists:
        place = met.get(id(one), 0)
        met[id(one)] = place + 1
        flat.append(one[place].reshape(*trace.mask.shape, -1))
    return [flat[number :: len(parts)] for number in range(len(parts))]


@torch.no_grad()
def _watched(trace: Trace) -> tuple[list[Call], list[list[Step]]]:
    """Run one text; return each layer's call of attention, and what came before the first and behind each of them."""
    model = trace.model
    windows: list[list[Step]] = [[]]

    def look(module: nn.Module, given: tuple[object, ...], gave: object) -> None:
        while len(windows) <= len(calls):
            windows.append([])
        if given and isinstance(given[0], Tensor) and isinstance(gave, Tensor):
            windows[-1].append(Step(module, given[0], gave))

    watched = [module for module in model.modules() if isinstance(module, Linear) or _is_norm(module)]
    hooks = [module.register_forward_hook(look) for module in watched]
    with removed_after(hooks), watching(model) as calls:
        model(**first_text(trace))
    check_watched(trace, calls)
    return calls, windows


def _value_map(steps: list[Step], value: Float[Tensor, "1 head key d_head"]) -> nn.Module | None:
    """Find the linear map that gave a layer its values, heads side by side."""
    expected = value.transpose(1, 2)  # (1, key, head, d_head)
    return next((step.module for step in steps if isinstance(step.module, Linear) and step.gives(expected)), None)


def _block(
    call: Call, steps: list[Step], below: Float[Tensor, "1 token width"], value: nn.Module | None
) -> Block | None:
    """Recognise the parts of a layer by what they were handed; None: it is made in another way."""
    linear = [step for step in steps if isinstance(step.module, Linear)]
    norms = [step for step in steps if not isinstance(step.module, Linear)]
    brought = next((step for step in linear if is_output((step.given,), call)), None)
    first = None if brought is None else next((one for one in norms if _is_sum(one.given, below, brought.gave)), None)
    if brought is None or first is None:
        return None
    inner = [step for step in linear if step.reads(first.gave)]
    for outer in linear[linear.index(inner[-1]) + 1 :] if inner else ():
        for last in norms[norms.index(first) + 1 :]:
            post = _is_sum(last.given, first.gave, outer.gave)
            if post and not all(isinstance(step.module, nn.LayerNorm) for step in (first, last)):
                return None
            if post or _is_sum(last.given, first.given, outer.gave):
                one = inner[0].module if len(inner) == 1 else None
                return Block(value, brought.module, first.module, one, outer.module, last.module, post)
    return None


def _is_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith("Norm") and not any(True for _ in module.children())


def _is_sum(found: Tensor, one: Tensor, other: Tensor) -> bool:
    return one.numel() == other.numel() and _near(found, one.reshape(-1) + other.reshape(-1))


def _near(found: Tensor, expected: Tensor) -> bool:
    if found.numel() != expected.numel():
        return False
    gap = (found.reshape(-1) - expected.reshape(-1)).abs().amax()
    return bool(gap <= _NEAR * expected.abs().amax())
