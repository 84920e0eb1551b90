"""Read the command line before Hydra does, where Hydra's own errors would not name the argument.

Three things: an argument that its grammar cannot read, a group without that choice, a group left out or added twice.
Imports nothing heavy: ``--help`` goes through here.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from effective_attention.errors import UserError, first_line
from effective_attention.run.options.composition import wrong_choice
from effective_attention.run.options.texts import quoted

_LISTS = ("analysis",)  # groups of which several choices may be taken together


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line as Hydra does; its ``overrides`` are those to hand to Hydra, texts quoted."""
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    parser.error = _refuse
    return parser.parse_args([*arguments])


def quoted_arguments(arguments: Sequence[str]) -> list[str]:
    """Quote the texts of a command line; refuse what is not UTF-8."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            name = argument.partition("=")[0].encode("utf-8", "replace").decode()
            raise UserError(f"{name}: the argument is not valid UTF-8; convert it to UTF-8 first") from None
    sweep = any(argument in ("-m", "--multirun") for argument in arguments)
    return [quoted(argument, sweep=sweep) for argument in arguments]


def _refuse(message: str) -> NoReturn:
    raise UserError(f"{message} (--hydra-help lists the flags)")


def check_overrides(overrides: Sequence[str], folders: Sequence[Path]) -> None:
    """Refuse an override that cannot be read, or that asks for what a group does not have.

    Args:
        overrides: As on the command line.
        folders: Where configs are looked for.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    for override in overrides:
        try:
            (parsed,) = parser.parse_overrides([override])
        except HydraException as error:
            raise UserError(_unreadable(override, error)) from None
        if not any(text.startswith("hydra.searchpath") for text in overrides):  # else there may be more folders
            _check_group(parsed, folders)


def _unreadable(override: str, error: BaseException) -> str:
    if "=" not in override and not override.startswith("~"):
        return f"{override}: this is neither option=value nor a flag (--help lists the options)"
    reason = first_line(error.__cause__ or error)
    advice = "put a value with spaces, commas or brackets in quotes: option=\"'a, b'\""
    return f"{override} cannot be read ({reason}); {advice}"


def _check_group(parsed: Any, folders: Sequence[Path]) -> None:
    group = parsed.key_or_group
    choices = group_choices(group, folders)
    if not choices or "." in group:
        return
    written = parsed.input_line
    if parsed.is_delete():
        raise UserError(f"{written}: {group} cannot be left out; choose one of: {', '.join(choices)}")
    if parsed.is_add() and _is_chosen_anyway(group):
        raise UserError(f"{written}: {group} is there already; leave the + out")
    value = parsed.value()
    for choice in value.list if parsed.is_sweep_override() and hasattr(value, "list") else [value]:
        plain = getattr(choice, "text", choice)
        if isinstance(plain, dict) or (isinstance(plain, list) and group not in _LISTS):
            raise UserError(f"{written}: {group} takes one choice: {', '.join(choices)}")
        for one in plain if isinstance(plain, list) else [plain]:
            name = getattr(one, "text", one)
            if name not in choices:
                raise UserError(wrong_choice(group, "null" if name is None else name, choices))


def _is_chosen_anyway(group: str) -> bool:
    from effective_attention.run.options.schema import Common  # not at the top: takes a moment

    return group in Common.model_fields


def group_choices(group: str, folders: Sequence[Path]) -> list[str]:
    """List the choices of a group; empty if there is no such group."""
    return sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})
