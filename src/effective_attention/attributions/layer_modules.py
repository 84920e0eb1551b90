"""Which module of a model is one layer? Found by watching one text, not by name.

It is the largest that is handed the layer's input and attends once; norms, residuals and feed-forward part are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from effective_attention.attention.rerun import Call, check_states, check_watched, first_text, removed_after, watching
from effective_attention.attention.trace import Trace


@torch.no_grad()
def layer_modules(trace: Trace) -> list[nn.Module]:
    """Find the module of each layer: the largest that is handed the layer's input and attends once.

    Raises:
        ValueError: A layer has none, so that it cannot be run for itself.
    """
    name = type(trace.model).__name__
    check_states(trace)
    found: dict[int, nn.Module] = {}

    def keep(module: nn.Module, number: int, state: Tensor) -> None:
        if _is_state(trace.hidden[number][:1], state):
            found[number] = module  # a larger one ends later

    with watching(trace.model) as calls, _modules_that_attend_once(trace.model, calls, keep):
        trace.model(**first_text(trace))
    check_watched(trace, calls)
    missing = [number for number in range(len(calls)) if number not in found]
    if missing:
        raise ValueError(f"{name} has no module that is one layer and is handed its input (layers {missing})")
    return [found[number] for number in range(len(calls))]


@contextmanager
def _modules_that_attend_once(
    model: nn.Module, calls: list[Call], keep: Callable[[nn.Module, int, Tensor], None]
) -> Iterator[None]:
    """Tell of each module that makes one call of attention, when it ends: the call's number, and what it was handed."""
    running: list[tuple[int, Tensor | None]] = []

    def begin(_module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        state = given[0] if given else named.get("hidden_states")
        running.append((len(calls), state if isinstance(state, Tensor) else None))

    def end(module: nn.Module, _given: Any, _gave: Any) -> None:
        number, state = running.pop()
        if len(calls) == number + 1 and state is not None:
            keep(module, number, state)

    hooks = [part.register_forward_pre_hook(begin, with_kwargs=True) for part in model.modules()]
    hooks += [part.register_forward_hook(end) for part in model.modules()]
    with removed_after(hooks):
        yield


def _is_state(expected: Tensor, found: Tensor) -> bool:
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-3, atol=1e-4)
