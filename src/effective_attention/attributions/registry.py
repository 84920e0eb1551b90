"""Which attribution methods there are, by name. Each is registered where it is defined.

A method is a function with the decorator ``register``. It is handed the batch and the work that methods share
(``shared_work.SharedWork``) and gives a score to each token; where it reads attention, it is run for standard and for
effective attention, is handed which, and gives scores for each layer. Nothing else has a list of the methods: the
analysis ``faithfulness`` chooses from here, and so do the tests of what every method promises. docs/add-a-method.md
has the steps.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Literal, TypeVar, get_args

from torch import Tensor

from effective_attention.attention.trace import Trace
from effective_attention.errors import UserError, first_line

ALL = "all"
Pieces = Literal["sum", "largest"]
Function = TypeVar("Function", bound=Callable[..., Tensor])


@dataclass(frozen=True)
class Method:
    """One attribution method.

    Attributes:
        name: How it is chosen, and what tables call it.
        title: What figures call it.
        summary: What it does, in a few words.
        reads_attention: Has one score a layer and token, for standard and for effective attention. Otherwise it has one
            score a token.
        needs: The shared work it reads, by the names in ``SharedWork.shared``. Its cost is part of the method's.
        function: ``function(work, attention)`` gives (batch, layer, key) where the method reads attention;
            ``function(work)`` gives (batch, key) where it does not. Exactly 0 on padding.
        prepare: Called before the method is timed, for what only the first call costs, such as compiling.
        check: Called with the trace of a short text; raises a ``ValueError`` that says why where the model has not what
            the method reads. None: every model has it.
        pieces: The score of a word of several tokens: their ``sum``, where the scores of a text are parts of one whole,
            or that ``largest`` in absolute value, where each token is measured by itself.
    """

    name: str
    title: str
    summary: str
    reads_attention: bool
    needs: tuple[str, ...]
    function: Callable[..., Tensor]
    prepare: Callable[[], object] | None = None
    check: Callable[[Trace], object] | None = None
    pieces: Pieces = "sum"


_METHODS: dict[str, Method] = {}


def register(
    name: str,
    *,
    title: str,
    summary: str,
    reads_attention: bool = False,
    needs: Sequence[str] = (),
    prepare: Callable[[], object] | None = None,
    check: Callable[[Trace], object] | None = None,
    pieces: Pieces = "sum",
) -> Callable[[Function], Function]:
    """Make the decorated function an attribution method; see ``Method`` for the arguments.

    A function that is defined anew under its old name (a notebook's cell run twice, a module reloaded) replaces itself.

    Raises:
        ValueError: The name is no identifier, or another method has it; the function takes other arguments; or there
            is no such way to join pieces.
    """
    if pieces not in get_args(Pieces):
        raise ValueError(f"pieces must be one of {', '.join(get_args(Pieces))}, got {pieces!r}")
    if not name.isidentifier() or name == ALL:
        raise ValueError(
            f"an attribution method's name must be of letters, digits and underscores, and not {ALL!r}, got {name!r}"
        )

    def add(function: Function) -> Function:
        before = _METHODS.get(name)
        if before is not None and _origin(before.function) != _origin(function):
            raise ValueError(
                f"there is an attribution method {name!r} already, {'.'.join(_origin(before.function))}; "
                f"give {'.'.join(_origin(function))} another name"
            )
        _check_arguments(name, function, reads_attention)
        given = (name, title, summary, reads_attention, tuple(needs), function, prepare, check, pieces)
        _METHODS[name] = Method(*given)
        return function

    return add


def registered() -> list[Method]:
    """List all methods, those that read attention first; otherwise in the order of registration."""
    return sorted(_METHODS.values(), key=lambda method: not method.reads_attention)


def choose(wanted: Any, option: str) -> list[Method]:
    """Find methods by name.

    Args:
        wanted: ``"all"``, a name, or a list of names, whose order is kept. ``module:name`` imports the module first, so
            that it can register its methods.
        option: What the user set to ``wanted``; named in errors.

    Raises:
        UserError: A name is unknown or comes twice, there is none, or a module cannot be imported.
    """
    if isinstance(wanted, str):
        return registered() if wanted == ALL else [_find(wanted, option)]
    if not isinstance(wanted, Sequence) or not wanted:
        raise UserError(f"{option} must be {ALL} or a list of names, got {wanted!r}; {_known()}")
    methods = [_find(name, option) for name in wanted]
    names = [method.name for method in methods]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise UserError(f"{option} must name each method once, got {', '.join(repeated)} more than once")
    return methods


def choose_one(wanted: Any, option: str) -> Method:
    """Find one method by name; see ``choose``."""
    return _find(wanted, option, "the name of an attribution method")


def impossible(methods: Sequence[Method], trace: Trace) -> dict[str, str]:
    """Find the methods that a model has not got what they read for.

    Returns:
        The reason, in one line, by the method's name.
    """
    reasons = {check: _reason(check, trace) for check in dict.fromkeys(method.check for method in methods) if check}
    found = {method.name: reasons[method.check] for method in methods if method.check}
    return {name: reason for name, reason in found.items() if reason is not None}


def _reason(check: Callable[[Trace], object], trace: Trace) -> str | None:
    """Run a check, which several methods may share; return why it refuses, in one line."""
    try:
        check(trace)
    except ValueError as error:
        return first_line(error)
    return None


def _find(wanted: Any, option: str, expected: str = f"{ALL} or names of attribution methods") -> Method:
    module, _, name = wanted.rpartition(":") if isinstance(wanted, str) else ("", "", str(wanted))
    if module:
        _import(module, option)
    if name not in _METHODS:
        close = get_close_matches(name, _METHODS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ";"
        raise UserError(f"{option} must be {expected}, got {wanted!r}{hint} {_known()}")
    return _METHODS[name]


def _import(module: str, option: str) -> None:
    if not all(part.isidentifier() for part in module.split(".")):
        raise UserError(f"{option}: {module!r} is no name of a module; write module:method")
    try:
        import_module(module)
    except ImportError as error:
        raise UserError(
            f"{option}: cannot import {module!r} ({first_line(error)}); is its folder on PYTHONPATH?"
        ) from error


def _known() -> str:
    return f"known: {', '.join(method.name for method in registered())}"


def _origin(function: Callable[..., Tensor]) -> tuple[str, str]:
    return function.__module__, function.__qualname__


def _check_arguments(name: str, function: Callable[..., Tensor], reads_attention: bool) -> None:
    given = ("work", "attention") if reads_attention else ("work",)
    try:
        inspect.signature(function).bind(*given)
    except TypeError as error:
        raise ValueError(
            f"the function of attribution method {name!r} must take ({', '.join(given)}), as its reads_attention is "
            f"{reads_attention}, got {inspect.signature(function)}"
        ) from error
