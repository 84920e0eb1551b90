"""Put names, values and types into the words of an error message and of docs/options.md."""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

MOST = 2**31 - 1
"""What libraries can count."""
_LONGEST_VALUE = 80
_SCALARS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    type(None): "null",
    None: "null",
    Path: "a path",
    Any: "anything",
    object: "anything",
}


@dataclass(frozen=True)
class Words:
    """What a type allows, where its annotation alone would say too little: part of an ``Annotated`` type."""

    text: str


def near(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant; an empty text where none is near.

    >>> near("max_epoch", ["max_epochs", "devices"]), near("xyz", ["max_epochs"])
    ('max_epochs', '')
    """
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), "")


def did_you_mean(name: str) -> str:
    """Return the end of a message that proposes a name; nothing for no name."""
    return f"; did you mean {name}?" if name else ""


def shown(value: Any) -> str:
    """Write a value as on the command line, cut where it is long.

    >>> shown(None), shown(True), shown([1, "a"]), shown("a b"), shown(float("nan"))
    ('null', 'true', '[1, "a"]', "'a b'", 'nan')
    """
    text = repr(value) if isinstance(value, str | float) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} …"


def typed(value: Any) -> str:
    """Write a value as it is typed behind ``option=``.

    >>> typed("a b"), typed(None), typed(True), typed(8)
    ('a b', 'null', 'true', '8')
    """
    return value if isinstance(value, str) else shown(value)


def allowed(annotation: Any, constraints: Sequence[Any] = ()) -> str:
    """Say in words which values a type allows.

    >>> from annotated_types import Ge
    >>> allowed(Annotated[int, Ge(1)] | None)
    'a whole number, at least 1, or null'
    >>> allowed(Sequence[Literal["a", "b"]])
    'a list, each one of a, b'
    """
    own = next((one.text for one in constraints if isinstance(one, Words)), None)
    if own is not None:
        return own
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        return allowed(arguments[0], [*_flat(arguments[1:]), *constraints])
    if origin in (Union, types.UnionType):
        return _either(arguments)
    if origin is Literal:
        return _choices(arguments)
    if annotation in _SCALARS:
        return _SCALARS[annotation] + _range(constraints)
    return _container(annotation, origin, arguments)


def _container(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> str:
    kind = origin if isinstance(origin, type) else annotation
    if not isinstance(kind, type):
        return "a value it knows"
    if _is_model(kind):
        return "options of its own"
    if issubclass(kind, Mapping):
        return f"names, each with {allowed(arguments[-1])}" if arguments else "names and values"
    if issubclass(kind, Sequence | set | frozenset):
        inner = [one for one in arguments if one is not Ellipsis]
        return f"a list, each {allowed(inner[0])}" if inner else "a list"
    return f"a {kind.__name__}"


def _flat(metadata: Iterable[Any]) -> list[Any]:
    """List the constraints that pydantic's ``Field`` bundles, beside those that stand alone."""
    return [part for one in metadata for part in getattr(one, "metadata", [one])]


def _either(kinds: Sequence[Any]) -> str:
    """Join alternatives, ``null`` last; classes of a library, which no config can write, are left out."""
    written = [kind for kind in kinds if not _is_foreign(kind)] or list(kinds)
    named = [value for kind in written if get_origin(kind) is Literal for value in get_args(kind)]
    others = [kind for kind in written if get_origin(kind) is not Literal]
    parts = list(dict.fromkeys(allowed(kind) for kind in others))
    if named:
        parts.insert(0, _choices(list(dict.fromkeys(map(typed, named)))))  # 16 and "16" are typed alike
    parts.sort(key=lambda part: part == "null")
    *first, last = parts
    return f"{', '.join(first)}, or {last}" if first else last


def _is_foreign(kind: Any) -> bool:
    plain = kind in _SCALARS or kind in (list, dict) or get_origin(kind) is not None or _is_model(kind)
    return isinstance(kind, type) and not plain


def _is_model(kind: Any) -> bool:
    return hasattr(kind, "model_fields")  # one of pydantic's, which is not imported for this


def _choices(values: Sequence[Any]) -> str:
    names = [typed(value) for value in values]
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def _range(constraints: Sequence[Any]) -> str:
    limits = {
        name: getattr(one, name) for one in constraints for name in ("ge", "gt", "le", "lt") if hasattr(one, name)
    }
    if limits.get("le") == MOST:
        limits["le"] = "2^31 - 1"
    elif "ge" in limits and "le" in limits:
        return f" from {limits['ge']} to {limits['le']}"
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    said = [f"{words[name]} {limit}" for name, limit in limits.items()]
    return f", {' and '.join(said)}" if said else ""
