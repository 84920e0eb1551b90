"""Put errors of Hydra and OmegaConf into one line: which option, what is wrong, what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hydra.errors import HydraException, InstantiationException, MissingConfigException
from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

from effective_attention.errors import first_line
from effective_attention.run.options.words import did_you_mean, near

HELP = "(--help lists the options)"
_ADVICE = {
    "Could not append": "leave the + out",
    "Ambiguous value": "add -m for a sweep, or write a list as [a,b]",
    "Multiple values": "give one of them",
    "Sweep parameters": "add -m for a sweep",
}


def explain_composition(error: BaseException) -> str | None:
    """Describe an error of Hydra or OmegaConf in one line; None for others, and for those whose cause tells more."""
    if isinstance(error, InstantiationException):
        return None
    if isinstance(error, MissingConfigException):
        return _missing_choice(error)
    if isinstance(error, HydraException):
        return _hydra(error)
    return _omegaconf(error) if isinstance(error, OmegaConfBaseException) else None


def wrong_choice(group: str, choice: Any, choices: list[str]) -> str:
    """Say that a group has no such choice, and which it has."""
    meant = near(str(choice), choices)
    hint = did_you_mean(f"{group}={meant}" if meant else "").replace("?", "? Or")
    return f"{group}={choice} does not exist{hint or ';'} choose one of: {', '.join(choices)}"


def _missing_choice(error: MissingConfigException) -> str:
    group, _, choice = str(error.missing_cfg_file).rpartition("/")
    if error.options:
        return wrong_choice(group, choice, sorted(error.options))
    return f"{first_line(error)} {HELP}"


def _hydra(error: HydraException) -> str:
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException):
        return _omegaconf(cause)
    line = first_line(error).rstrip(".")
    absent = re.search(r"To append to your default list use (\S+)", str(error))
    if absent:
        return f"{line}; to add it write {absent[1]}"
    advice = next((text for start, text in _ADVICE.items() if line.startswith(start)), None)
    return f"{line} {HELP}" if advice is None else f"{line}; {advice}"


def _omegaconf(error: OmegaConfBaseException) -> str:
    missing = re.search(r"[Mm]issing mandatory value: (\S+)", str(error))
    if missing:
        named = error.full_key if isinstance(error, MissingMandatoryValue) and error.full_key else missing[1]
        option = str(named).replace(".source.", ".")  # the sources' options are given one level up
        return f"{option} is not set; add {option}=<value>"
    if isinstance(error, ConfigKeyError | ConfigAttributeError):
        if isinstance(error.parent_node, DictConfig):
            return _unknown(str(error.full_key), error.parent_node)
        return f"{first_line(error)} {HELP}"
    return f"{error.full_key}: {first_line(error)}" if error.full_key else first_line(error)


def _unknown(option: str, parent: DictConfig) -> str:
    """Say what was meant: a neighbour of that name, the same name elsewhere, or an option of another choice."""
    place, _, name = option.rpartition(".")
    close = near(name, map(str, parent))
    meant = f"{place}.{close}".removeprefix(".") if close else _elsewhere(name, parent)
    only_with = _only_with(option)
    if only_with:
        return f"{option} is an option of {only_with}; add that, or leave it out"
    if place == "analysis" and not meant:
        return f"{option} is not among the chosen analyses; choose it with analysis=[…,{name}]"
    if "_target_" in parent and not meant:
        target = parent._get_node("_target_")
        return f"{option} is not in the config; an option of {target} is added with +{option}=<value>"
    return f"{option} does not exist{did_you_mean(meant)} {HELP}"


def _elsewhere(name: str, node: DictConfig) -> str:
    """Return the dotted name of an option of this name in another place; empty if there is none, or more than one."""
    found = [option for option in _leaves("", node._get_root()) if option.rpartition(".")[2] == name]
    outside = [option for option in found if not option.startswith(("hydra.", "recipe."))]
    return outside[0] if len(outside) == 1 else ""


def _leaves(prefix: str, node: Any) -> Iterator[str]:
    for name in node:
        option = f"{prefix}.{name}".removeprefix(".")
        inner = node._get_node(name)
        if isinstance(inner, DictConfig) and not inner._is_none() and not inner._is_interpolation():
            yield from _leaves(option, inner)
        else:
            yield option


def _only_with(option: str) -> str | None:
    """Return the choice that brings an option, where only some choices of its group do."""
    from effective_attention.run.options.check import find_option
    from effective_attention.run.options.schema import Train

    found = find_option(Train, option.split("."))
    extra = found.field.json_schema_extra if found.field is not None else None
    return str(extra["only_with"]) if isinstance(extra, dict) and "only_with" in extra else None
