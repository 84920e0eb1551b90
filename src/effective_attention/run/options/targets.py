"""Check what a ``_target_`` takes against its signature, and build what it names, each mistake in one line.

Whatever the target is, ours, Lightning's, PyTorch's or the user's own: a name that it does not take, a name that it
needs, and a value that its annotation does not allow. This imports the targets, so it comes after ``check_options``;
but nothing is loaded or written before it.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_type_hints

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from effective_attention.errors import UserError, first_line
from effective_attention.run.options.check import value_at
from effective_attention.run.options.record import recorded
from effective_attention.run.options.words import allowed, did_you_mean, near, shown

_WORDS_OF_HYDRA = ("_target_", "_partial_", "_convert_", "_recursive_", "_args_")
_CALLED_LATER = ("optimizer", "task.loaders", "trainer")  # the code adds what these still need
_AS_CONFIG = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
_REFUSALS = (TypeError, ValueError, ImportError)
Node = Mapping[str, Any]


def check_targets(cfg: DictConfig) -> None:
    """Check every node of a config that has a ``_target_``, wherever it stands."""
    from omegaconf import OmegaConf

    values = recorded(cfg)
    for option, node in _nodes("", OmegaConf.to_container(cfg, resolve=True)):
        _check_node(option, node, value_at(values, option.split(".")) if "[" not in option else node)


def _nodes(option: str, value: Any) -> Iterator[tuple[str, Node]]:
    """Yield every node with a ``_target_``, outer ones first, by its dotted name."""
    if isinstance(value, dict):
        if "_target_" in value:
            yield option, value
        for name, inner in value.items():
            yield from _nodes(f"{option}.{name}".removeprefix("."), inner)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _nodes(f"{option}[{place}]", inner)


def _check_node(option: str, node: Node, written: Node) -> None:
    target = load_target(option, node["_target_"])
    parameters = _parameters(target)
    if parameters is None:
        return
    given = {name: value for name, value in node.items() if name not in _WORDS_OF_HYDRA}
    _check_names(option, node, given, parameters)
    types = parameter_types(target)
    for name, value in given.items():
        if name in types and not _holds_target(value) and not _fits(types[name], value):
            raise UserError(f"{option}.{name} must be {allowed(types[name])}, got {shown(written[name])}")


def load_target(option: str, name: Any) -> Callable[..., Any]:
    """Import what a ``_target_`` names.

    Raises:
        UserError: There is nothing of that name, or nothing that can be called.
    """
    try:
        found = pkgutil.resolve_name(name)
    except Exception as error:  # the module may be the user's own, and raise anything
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"{option}._target_={name} cannot be imported ({reason})") from error
    if not callable(found):
        raise UserError(f"{option}._target_={name} is a {type(found).__name__}; name a class or a function")
    return found


def _parameters(target: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(target).parameters
    except (TypeError, ValueError):  # some that are written in C have none
        return None


def _check_names(
    option: str, node: Node, given: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> None:
    kinds = [parameter.kind for parameter in parameters.values()]
    named = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    ]
    for name in given:
        if name not in named and inspect.Parameter.VAR_KEYWORD not in kinds:
            meant = near(name, named)
            hint = did_you_mean(f"{option}.{meant}") if meant else f"; it takes {', '.join(named) or 'no options'}"
            raise UserError(f"{option}.{name} is not an option of {node['_target_']}{hint}")
    if node.get("_partial_") or "_args_" in node or option.startswith(_CALLED_LATER):
        return
    missing = [name for name in named if parameters[name].default is inspect.Parameter.empty and name not in given]
    if missing:
        raise UserError(f"{option}.{missing[0]} is not set; {node['_target_']} needs it")


def parameter_types(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a target's parameters; none where they cannot be told."""
    function = inspect.unwrap(target.__init__ if inspect.isclass(target) else target)
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # a name that only a type checker sees, or a notation of its own such as jaxtyping's
        return {}


def _fits(annotation: Any, value: Any) -> bool:
    """Tell whether a value may be passed where ``annotation`` stands; true where that cannot be told.

    A config is read as JSON is: a list may stand for a tuple, a text for a path; but 1 is no text and true no number.
    """
    try:
        adapter = TypeAdapter(annotation, config=_AS_CONFIG)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, NameError):
        return True
    try:
        adapter.validate_json(json.dumps(value))
    except ValidationError as error:
        return all(one["type"] == "needs_python_object" for one in error.errors(include_url=False))
    except TypeError:  # a value that JSON does not have
        return True
    return True


def _holds_target(value: Any) -> bool:
    return next(iter(_nodes("", value)), None) is not None


def build(
    node: Any, option: str, *, has: tuple[str, ...] = (), refuses: tuple[type[Exception], ...] = _REFUSALS, **given: Any
) -> Any:
    """Build what a node of the config names; a value that it refuses is one line.

    Args:
        node: The node, with its ``_target_``.
        option: Its name.
        has: What the object must be able to do.
        refuses: The errors with which it refuses a value; any other is a bug and keeps its traceback.
        given: Arguments beside those of the config.
    """
    try:
        built = instantiate(node, **given)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, UserError):
            raise cause from error
        if cause is not None and not isinstance(cause, refuses):
            raise
        reason = first_line(cause or error)
        raise UserError(f"{option}: {reason}; check the options that begin with {option}.") from error
    lacking = [name for name in has if not hasattr(built, name)]
    if lacking:
        raise UserError(f"{option}._target_={node['_target_']} does not do: it has no {lacking[0]}")
    return built
