"""Who computes a layer's attention: the handler of the innermost block that the layer is in; all blocks count the call.

Both roads into a model (``interface``, ``watching``) end here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from effective_attention.attention.call import AttentionCall, AttentionOutput
from effective_attention.attention.forward_checks import Counts, ForwardChecks

Handler = Callable[[AttentionCall], AttentionOutput]


@dataclass
class Calls:
    """A count of the calls a hook has seen; those of an inner hook of the same layers count too."""

    calls: int = 0


@dataclass(frozen=True, eq=False)
class Hook:
    """A handler in use, the object that counts its calls, and what looks after each forward pass."""

    handler: Handler
    counter: Counts
    checks: ForwardChecks

    def run(self, call: AttentionCall) -> AttentionOutput:
        """Handle a call; numbers that are not finite are refused, here or when the model's forward pass ends."""
        with self.checks.naming(call.module):
            output, weights = self.handler(call)
        self.checks.see(call.module, output)
        return output, weights


# The hooks of each layer, outermost first: the innermost handles a call, all count it.
_HOOKS: WeakKeyDictionary[nn.Module, list[Hook]] = WeakKeyDictionary()


@contextmanager
def hooked(model: nn.Module, hook: Hook) -> Iterator[None]:
    """Let ``hook`` handle the calls of every layer of ``model`` inside the block."""
    modules = list(model.modules())
    for module in modules:
        _HOOKS.setdefault(module, []).append(hook)
    try:
        yield
    finally:
        for module in modules:
            _HOOKS[module].remove(hook)


def innermost(module: nn.Module) -> Hook | None:
    """Return the hook that handles a layer's calls; None: nobody does."""
    hooks = _HOOKS.get(module)
    return hooks[-1] if hooks else None


def handle(module: nn.Module, build: Callable[..., AttentionCall]) -> AttentionOutput:
    """Hand a layer's call to the innermost hook; without one, do what the model does.

    Args:
        module: The layer.
        build: Makes the call from what the hook knows: its ``number`` and whether its ``weights_wanted``.
    """
    hooks = _HOOKS.get(module, [])
    if not hooks:
        return build().eager()
    facts: dict[str, Any] = {"number": hooks[-1].counter.calls, "weights_wanted": hooks[-1].checks.weights_wanted}
    call = build(**facts)
    for hook in hooks:
        hook.counter.calls += 1
        hook.checks.count()
    return hooks[-1].run(call)
