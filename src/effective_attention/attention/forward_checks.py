"""What a forward pass through our hook must have done: called our function, and attended with finite numbers only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from effective_attention.finite import NotFiniteError, Watch

_PATIENCE = 256  # layers of parts of a model that are run alone, before anybody asks


@runtime_checkable
class Counts(Protocol):
    """Any object that counts calls."""

    calls: int


class ForwardChecks:
    """Checks every forward pass of ``model`` inside the block.

    Numbers are looked at layer by layer, and the device is waited for once, when the pass ends.

    Args:
        model: The model whose attention is hooked.
        counter: Counts the hook's calls.
    """

    def __init__(self, model: nn.Module, counter: Counts) -> None:
        self.model = model
        self.counter = counter
        self._watch = Watch[nn.Module](_PATIENCE)
        self._counts: list[int] = []
        self._wanted: list[bool] = []
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
        return self._wanted[-1] if self._wanted else True

    def _enter(self, module: nn.Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._counts.append(self.counter.calls)
        asked = options.get("output_attentions")
        parts = (getattr(part, "config", None) for part in module.modules())
        by_config = any(bool(getattr(config, "output_attentions", False)) for config in parts)
        by_place = any(one is True for one in inputs)  # whatever it is that was switched on without its name
        self._wanted.append(by_config or by_place if asked is None else bool(asked))

    def _leave(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        before = self._counts.pop()
        self._wanted.pop()
        if output is None:  # the pass has failed, and is about to say why
            self._watch = Watch(_PATIENCE)
            return
        if self.counter.calls == before:  # some models say they use the interface, and don't
            raise ValueError(unsupported(type(self.model).__name__))
        self.check_numbers()

    def see(self, layer: nn.Module, output: Tensor) -> None:
        """Look at what a layer's heads hand on: a weight or a value that is not finite makes it so too."""
        self._watch.add(layer, output)
        if len(self._counts) == 0 and self._watch.due:
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
        f"{name} does not call its attention through transformers' AttentionInterface, so it cannot be swapped; "
        f"choose a model that does (BERT, RoBERTa, DistilBERT, ELECTRA, GPT-2, Llama ...)"
    )
