"""One way into a model's attention: while a block lasts, every layer's attention goes through a handler of ours.

Two roads lead there, and the model decides which: most transformers models call an attention function by name
(``interface``); any other model is watched while it computes (``watching``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torch import nn

from effective_attention.attention.families import check_family
from effective_attention.attention.forward_checks import Counts, ForwardChecks
from effective_attention.attention.handlers import Calls, Handler, Hook, hooked
from effective_attention.attention.interface import HOOKED, attention_function, uses_interface
from effective_attention.attention.watching import Watching, left_over


@contextmanager
def attention_hook(
    model: nn.Module, handler: Handler, *, evaluation: bool = False, counter: Counts | None = None
) -> Iterator[None]:
    """Let ``handler`` compute the attention of every layer of ``model`` inside the block; restore all on the way out.

    Args:
        model: Any model whose layers take the product of a softmax and values; see ``docs/models.md``.
        handler: From a layer's call to its output and weights.
        evaluation: Run without dropout; every part is put back into the mode it was in.
        counter: Told of every call; None: nobody asks.

    Raises:
        TypeError: It is no model of PyTorch's.
        ValueError: The model attends in a way that cannot be followed; raised by its forward pass, which can tell.
        NotFiniteError: A layer's attention gives NaN or infinite numbers; raised when the forward pass ends.
    """
    check_model(model)
    counts = counter or Calls()
    watched = not uses_interface(model)
    with ExitStack() as stack:
        checks = stack.enter_context(ForwardChecks(model, left_over=left_over if watched else None))
        stack.enter_context(evaluation_mode(model, evaluation))
        stack.enter_context(hooked(model, Hook(handler, counts, checks)))
        stack.enter_context(Watching(model) if watched else attention_function(model, HOOKED))
        yield


@contextmanager
def evaluation_mode(model: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Switch dropout off inside the block and restore every part's mode after it; do nothing unless ``wanted``."""
    modes = {module: module.training for module in model.modules()} if wanted else {}
    if wanted:
        model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def check_model(model: object) -> None:
    """Refuse at once what no road leads into.

    Raises:
        TypeError: It is no model of PyTorch's.
        ValueError: Its kind is known to have no attention matrix, or it is compiled.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"swapping or tracing attention needs a model (torch.nn.Module), got {type(model).__name__}")
    if any(hasattr(part, "_orig_mod") for part in model.modules()):  # torch.compile's wrapper, at which hooks fail
        raise ValueError(
            f"{type(model).__name__} holds a module that torch.compile has wrapped, whose attention cannot be swapped "
            "or traced; give the module inside, its _orig_mod, or compile in place (module.compile())"
        )
    check_family(model)
