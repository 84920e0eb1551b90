"""What a forward pass through our hook must have done: called our function, and attended with finite numbers only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from effective_attention.attention.families import expected_layers
from effective_attention.finite import NotFiniteError, Watch

_PATIENCE = 256  # layers of parts of a model that are run alone, before anybody asks


@runtime_checkable
class Counts(Protocol):
    """Any object that counts calls."""

    calls: int


@dataclass
class _Pass:
    """A forward pass.

    Attributes:
        wanted: Whether it was asked for attention weights.
        has_read: Whether it was given what an encoder has made of the text that is read, so that none runs.
        calls: How often it has called us.
    """

    wanted: bool
    has_read: bool = False
    calls: int = 0


class _Passes(threading.local):
    """The forward passes that run on a thread, the outermost first."""

    def __init__(self) -> None:
        self.running: list[_Pass] = []


class ForwardChecks:
    """Checks every forward pass of ``model`` inside the block.

    Numbers are looked at layer by layer, and the device is waited for once, when the pass ends.

    Args:
        model: The model whose attention is hooked.
        left_over: Of a model that is watched (``watching``): tells in which module a softmax was left unused. None: the
            model calls our function by name.
    """

    def __init__(self, model: nn.Module, *, left_over: Callable[[], str | None] | None = None) -> None:
        self.model = model
        self.left_over = left_over
        self._watch = Watch[nn.Module](_PATIENCE)
        self._passes = _Passes()
        parts = [part for part in model.modules() if hasattr(part, "_supports_sdpa")]
        self.has_fast_kernel = all(part._supports_sdpa for part in parts)
        self._handles: list[Any] = []

    def __enter__(self) -> ForwardChecks:
        self._handles = [
            self.model.register_forward_pre_hook(self._enter, with_kwargs=True),
            self.model.register_forward_hook(self._leave, prepend=True, always_call=True),
        ]
        return self

    def __exit__(self, error: type[BaseException] | None, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()
        if error is None:
            self.check_numbers()

    @property
    def weights_wanted(self) -> bool:
        """Tell whether the pass that runs was asked for attention weights; True for a part that is run alone."""
        return self._passes.running[-1].wanted if self._passes.running else True

    @property
    def weights_asked(self) -> bool:
        """Tell whether somebody asked for attention weights in so many words."""
        return bool(self._passes.running) and self._passes.running[-1].wanted

    def _enter(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        asked = options.get("output_attentions")
        parts = (getattr(part, "config", None) for part in module.modules())
        by_config = any(bool(getattr(config, "output_attentions", False)) for config in parts)
        by_place = any(one is True for one in inputs)  # whatever it is that was switched on without its name
        wanted = by_config or by_place if asked is None else bool(asked)
        self._passes.running.append(_Pass(wanted, has_read=options.get("encoder_outputs") is not None))

    def count(self) -> None:
        """Note a call of the attention function, by the pass that runs on this thread."""
        if self._passes.running:
            self._passes.running[-1].calls += 1

    def _leave(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        done = self._passes.running.pop()
        if output is None:  # the pass has failed, and is about to say why
            self._watch = Watch(_PATIENCE)
            return
        self._check_count(done)
        self.check_numbers()

    def _check_count(self, done: _Pass) -> None:
        """Refuse a pass that did not attend as often as the model has layers, or never called us.

        Raises:
            ValueError: Names the model.
        """
        name = type(self.model).__name__
        calls = done.calls
        expected = None if self.left_over is None else expected_layers(self.model, has_read=done.has_read)
        module = None if self.left_over is None or expected is not None else self.left_over()
        if module is not None:
            raise ValueError(
                f"{name}: a softmax in {module} is not followed by a product with values that could be read, so its "
                "attention cannot be swapped or traced; write it as a matmul (docs/models.md)"
            )
        if calls == 0:  # some models say they use the interface, and don't
            raise ValueError(unsupported(name))
        if expected is not None and calls != expected:
            raise ValueError(
                f"{name} has {expected} layers of attention, and {calls} were met while it ran: it attends in a way "
                "that cannot be followed, so it cannot be swapped or traced; choose another model (docs/models.md)"
            )

    def see(self, layer: nn.Module, output: Tensor) -> None:
        """Look at what a layer's heads hand on: a weight or a value that is not finite makes it so too."""
        self._watch.add(layer, output)
        if not self._passes.running and self._watch.due:
            self.check_numbers()

    def check_numbers(self) -> None:
        """Refuse what has been seen since the last check, if some of it was not finite.

        Raises:
            NotFiniteError: Names the first layer.
        """
        layer = self._watch.first()
        if layer is not None:
            raise NotFiniteError(f"{self._name(layer)}: {NOT_FINITE}")

    def naming(self, layer: nn.Module) -> AbstractContextManager[None]:
        """Say in which layer numbers were not finite, where the split itself finds out: this, or one before it."""

        def name() -> str:
            self.check_numbers()
            return self._name(layer)

        return naming(name)

    def _name(self, layer: nn.Module) -> str:
        names = (name for name, module in self.model.named_modules() if module is layer)
        return f"layer {next(names, type(layer).__name__)}"


NOT_FINITE = (
    "attention gives NaN or infinite numbers; "
    "the model's weights have diverged, or its activations overflow in this precision"
)


@contextmanager
def naming(layer: Callable[[], str]) -> Iterator[None]:
    """Put the name of a layer in front of the message, where numbers are not finite."""
    try:
        yield
    except NotFiniteError as error:
        raise NotFiniteError(f"{layer()}: {error}") from error


def unsupported(name: str) -> str:
    """Return the error message, in one line, of a model whose attention cannot be reached."""
    return (
        f"{name}: no attention was met while it ran, neither by transformers' AttentionInterface nor as a softmax "
        "times values, so it cannot be swapped or traced; docs/models.md lists models that can"
    )
