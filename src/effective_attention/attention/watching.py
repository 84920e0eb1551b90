"""The second road into a model: watch PyTorch's functions while it runs, and step in where attention meets the values.

Models outside transformers' ``AttentionInterface`` (MPNet, DeBERTa, RoFormer, XLNet, a model of one's own) compute a
softmax and multiply its result with the values. Inside the block every softmax is noted, followed through dropout,
casts and views, and where it becomes a factor of a product with values, the handler takes that product. Layers that
leave their attention to PyTorch (``nn.MultiheadAttention``, ``scaled_dot_product_attention``) are met there.

What is met is counted when the forward pass ends (``forward_checks``), so that a model that attends in some other way
is refused, not half done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from effective_attention.attention.call import AttentionOutput, CaughtCall
from effective_attention.attention.handlers import handle, innermost
from effective_attention.attention.products import Product, factors_of, product_of
from effective_attention.attention.torch_attention import dot_product_attention, multi_head_attention

_SOFTMAX = {functional.softmax, torch.softmax, Tensor.softmax, torch.special.softmax}
_SAME_WEIGHTS = {
    "dropout", "dropout_", "to", "type", "type_as", "float", "double", "half", "bfloat16", "contiguous", "clone",
    "view", "reshape", "flatten", "unflatten", "masked_fill", "masked_fill_",
}  # fmt: skip
"""Functions whose result is the same weights, in another type or order, some perhaps set to 0."""
_FILL = {torch.masked_fill, Tensor.masked_fill, Tensor.masked_fill_}
_IN_PLACE = {"__imul__", "__iadd__", "__isub__", "__itruediv__", "__ipow__", "__setitem__"}
_HARMLESS = {"requires_grad_", "detach_"}
_HEAD_COUNTS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")
_HIDDEN = 750.0  # a score so far below the row's largest is a mask's doing: e^-750 is 0, in float64 too


@dataclass(frozen=True, eq=False)
class _Softmax:
    """A softmax that was seen: what it was taken of, in which module, and what of it was set to 0 afterwards."""

    scores: Tensor
    module: nn.Module
    hidden: list[Tensor] = field(default_factory=list)


class _Thread(threading.local):
    """What runs on a thread: the modules, outermost first, and who watches them."""

    def __init__(self) -> None:
        self.running: list[nn.Module] = []
        self.mode: _Mode | None = None
        self.left_over: str | None = None


_THREAD = _Thread()
_WATCHED: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # in how many blocks each module is watched


class Watching:
    """Steps into the attention of ``model``'s layers while they run, on whichever thread.

    Args:
        model: Any module.
    """

    def __init__(self, model: nn.Module) -> None:
        self.modules = list(model.modules())
        self._handles: list[Any] = []
        self._depth = 0

    def __enter__(self) -> Watching:
        self._depth = len(_THREAD.running)
        for module in self.modules:
            _WATCHED[module] = _WATCHED.get(module, 0) + 1
            if _WATCHED[module] == 1:  # a block inside another need not look twice
                self._handles.append(module.register_forward_pre_hook(_begin))
                self._handles.append(module.register_forward_hook(_end, prepend=True, always_call=True))
        return self

    def __exit__(self, *_: Any) -> None:
        for module in self.modules:
            _WATCHED[module] -= 1
        for handle_ in self._handles:
            handle_.remove()
        self._handles = []
        while len(_THREAD.running) > self._depth:  # a pass was interrupted, and its hooks were not called
            _leave()


def left_over() -> str | None:
    """Return the module in which the last pass on this thread left a softmax unused; None: there was none."""
    return _THREAD.left_over


def _begin(module: nn.Module, _inputs: Any) -> None:
    if not _THREAD.running:
        _THREAD.mode = _Mode()
        _THREAD.mode.__enter__()  # type: ignore[no-untyped-call]
    _THREAD.running.append(module)


def _end(_module: nn.Module, _inputs: Any, _output: Any) -> None:
    _leave()


def _leave() -> None:
    """Note that the innermost module has ended; with the outermost, watching does."""
    _THREAD.running.pop()
    if not _THREAD.running and _THREAD.mode is not None:
        _THREAD.mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        _THREAD.left_over = _THREAD.mode.left_over()
        _THREAD.mode = None


class _Mode(TorchFunctionMode):
    """Sees every call of a PyTorch function, on one thread, while a model runs."""

    def __init__(self) -> None:
        super().__init__()
        self.mask: Tensor | None = None
        self.seen: dict[int, tuple[Tensor, _Softmax]] = {}  # by the id of the tensor, which is kept so long
        self.taken: dict[int, ReferenceType[Tensor]] = {}  # weights whose product has been taken
        self.unreadable: str | None = None  # a module that weighs keys, it seems, by no softmax over the last axis

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        whole = _WHOLE.get(func)
        if whole is not None:
            with torch._C.DisableTorchFunction():
                return whole(_THREAD.running[-1], self._run, args, options)
        factors = factors_of(func, args)
        if factors is not None and id(factors[0]) in self.seen:
            product = self._product(func, args)
            if product is not None:
                return self._take(product, factors[0], self.seen[id(factors[0])][1])
        elif factors is not None:
            self._check_first(factors[0])
        if args and isinstance(args[0], Tensor) and id(args[0]) in self.seen:
            _check_in_place(getattr(func, "__name__", ""))
        result = func(*args, **options)
        self._note(func, args, options, result)
        return result

    def _note(self, func: Any, args: Any, options: dict[str, Any], result: Any) -> None:
        """Remember a softmax, and what becomes of it."""
        name = getattr(func, "__name__", "")
        if func in _SOFTMAX or name == "log_softmax":
            readable = func in _SOFTMAX and _axis(args, options) in (-1, result.ndim - 1)
            if readable and result.ndim > 2:
                self.seen[id(result)] = (result, _Softmax(args[0] if args else options["input"], _THREAD.running[-1]))
            elif not readable and result.ndim > 2 and _is_square(result):
                self.unreadable = type(_THREAD.running[-1]).__name__
        elif name in _SAME_WEIGHTS and args and id(args[0]) in self.seen:
            self._follow(args[0], result)
            if func in _FILL:
                self.seen[id(args[0])][1].hidden.extend(_hidden_by(*args, **options))

    def left_over(self) -> str | None:
        """Return the module of a softmax over keys that was never multiplied with values; None: there is none."""
        modules = (type(softmax.module).__name__ for weights, softmax in self.seen.values() if _weighs_keys(weights))
        return next(modules, self.unreadable)

    def _follow(self, before: Tensor, after: Tensor) -> None:
        """Note that a tensor is the weights of a softmax, if its rows are still rows."""
        if after.shape[-2:] == before.shape[-2:]:
            self.seen[id(after)] = (after, self.seen[id(before)][1])

    def _product(self, func: Any, args: Any) -> Product | None:
        with torch._C.DisableTorchFunction():
            return product_of(func, args, self._heads)

    def _heads(self, folded: int) -> int:
        """Tell how many heads are folded into an axis, as the layer that is running says; 1 where it does not."""
        found = (getattr(_THREAD.running[-1], name, None) for name in _HEAD_COUNTS)
        return next((count for count in found if isinstance(count, int) and folded % count == 0), 1)

    def _check_first(self, weights: Any) -> None:
        """Refuse a second product of the same weights: what of them reaches the output is no matter of one product.

        Raises:
            ValueError: Names the layer.
        """
        known = self.taken.get(id(weights))
        if known is not None and known() is weights:
            raise ValueError(
                f"{type(_THREAD.running[-1]).__name__} multiplies the same attention weights twice, so that no one set "
                "of values tells which part of them reaches the output; it cannot be swapped or traced (docs/models.md)"
            )

    def _take(self, product: Product, own: Tensor, softmax: _Softmax) -> Tensor:
        """Let the handler take the product of a layer's own weights; they and their scores are then forgotten."""
        same = [tensor for tensor, known in self.seen.values() if known is softmax]
        self.taken |= {id(tensor): ref(tensor) for tensor in same}
        self.seen = {key: known for key, known in self.seen.items() if known[1] is not softmax}
        module = _THREAD.running[-1]
        with torch._C.DisableTorchFunction():
            hidden = [product.order(part.reshape(own.shape)) for part in softmax.hidden]
            mask = self._mask_of(product.order(softmax.scores.reshape(own.shape)), hidden)

            def build(**facts: Any) -> CaughtCall:
                return CaughtCall(module=module, known=product.weights, value=product.value, mask=mask, **facts)

            output, weights = handle(module, build)
            if _write_back(module, product.weights, weights):
                for tensor in same:  # a layer may return its weights as they were before dropout or a cast
                    tensor.copy_(own.reshape(tensor.shape))
            return product.back(output.transpose(1, 2))  # of (batch, head, query, d_value)

    def _mask_of(self, scores: Tensor, others: list[Tensor]) -> Tensor | None:
        """Read off the scores which keys are hidden, as an additive mask; the same object as long as it is the same."""
        hidden = scores < scores.amax(dim=-1, keepdim=True) - _HIDDEN  # (batch, head, query, key)
        for other in others:
            hidden = hidden | (other & ~other.all(dim=-1, keepdim=True))  # of a query without weights nothing is hidden
        if not bool(hidden.any()):
            return None
        for axis in (1, 2):  # heads, and most often queries, are hidden the same keys from
            first = hidden.narrow(axis, 0, 1)
            hidden = first if bool((hidden == first).all()) else hidden
        least = torch.finfo(scores.dtype).min
        mask = torch.zeros_like(hidden, dtype=scores.dtype).masked_fill(hidden, least)
        if self.mask is None or self.mask.shape != mask.shape or not torch.equal(self.mask, mask):
            self.mask = mask
        return self.mask

    def _run(self, build: Callable[..., Any]) -> AttentionOutput:
        return handle(_THREAD.running[-1], build)


def _weighs_keys(weights: Tensor) -> bool:
    """Tell whether what a softmax returned looks like attention: with heads, or as many queries as keys."""
    return weights.ndim > 3 or (weights.ndim == 3 and _is_square(weights))


def _is_square(weights: Tensor) -> bool:
    return weights.shape[-1] == weights.shape[-2]


def _check_in_place(name: str) -> None:
    """Refuse to follow weights that a layer writes over: what it has hidden so would not be known.

    Raises:
        ValueError: Names the layer.
    """
    own = name.endswith("_") and not name.endswith("__")
    if name in _IN_PLACE or (own and name not in _SAME_WEIGHTS | _HARMLESS):
        raise ValueError(
            f"{type(_THREAD.running[-1]).__name__} changes its attention weights in place ({name}), which cannot be "
            "followed; write masks before the softmax, or after it with masked_fill (docs/models.md)"
        )


def _hidden_by(weights: Tensor, mask: Tensor, value: Any) -> list[Tensor]:
    """Return what ``masked_fill`` hides of the weights, if it sets it to 0."""
    return [mask.expand(weights.shape)] if value == 0 else []


def _axis(args: tuple[Any, ...], options: dict[str, Any]) -> int | None:
    """Return the axis of a softmax."""
    axis: int | None = args[1] if len(args) > 1 else options.get("dim")
    return axis


_WHOLE: dict[Any, Callable[..., Any]] = {
    functional.scaled_dot_product_attention: dot_product_attention,
    functional.multi_head_attention_forward: multi_head_attention,
}


def _write_back(module: nn.Module, own: Tensor, weights: Tensor | None) -> bool:
    """Put the handler's weights where the layer will return its own from, and tell so, if somebody asked for them.

    Raises:
        ValueError: Autograd is on, and would find the softmax's result changed.
    """
    hook = innermost(module)
    if weights is None or weights is own or hook is None or not hook.checks.weights_asked:
        return False
    if torch.is_grad_enabled():
        raise ValueError(
            f"{type(module).__name__} can only return other attention weights than its own without autograd; "
            "run it under torch.no_grad(), or leave output_attentions out"
        )
    own.copy_(weights)
    return True
