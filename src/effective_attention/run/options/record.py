"""The config as a run writes it down: everything resolved, except what comes from the environment.

An environment variable may hold a secret. ``${oc.env:NAME}`` stays as it is written, and is read again by whoever reads
the file; all other values are what the run used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import get_omega_conf_dumper  # that of OmegaConf.to_yaml, which has no option for its letters

from effective_attention.run.options.texts import escaped

_OPEN, _CLOSE = "\ue0e0", "\ue0e1"  # around what stays; no text has these letters of the private use area
_RESOLVER = "oc.env"
_ODD_LETTERS = ("\x85", "\u2028", "\u2029", "\ufeff")  # YAML would lose these unless it writes plain ASCII


def recorded(cfg: DictConfig) -> dict[str, Any]:
    """Return the config as plain values, with ``${oc.env:NAME}`` where a value comes from the environment."""
    return cast("dict[str, Any]", _each_text(_marked(cfg), lambda text: _unmarked(text, str)))


def recorded_yaml(cfg: DictConfig) -> str:
    """Return the config as YAML that reads again as the same config: a text with ``${`` in it stays that text."""
    odd: list[str] = []

    def written(text: str) -> str:
        odd.extend(letter for letter in _ODD_LETTERS if letter in text)
        return _unmarked(text, escaped)

    values = _each_text(_marked(cfg), written)
    return yaml.dump(values, Dumper=get_omega_conf_dumper(), sort_keys=False, allow_unicode=not odd)


def _marked(cfg: DictConfig) -> Any:
    with _environment_unread():
        return OmegaConf.to_container(cfg.copy(), resolve=True)  # a copy has no results of earlier resolutions


@contextmanager
def _environment_unread() -> Iterator[None]:
    """Let ``oc.env`` answer with its own, marked, question."""
    from omegaconf.resolvers import oc

    OmegaConf.register_new_resolver(
        _RESOLVER, lambda *words: f"{_OPEN}{_RESOLVER}:{','.join(map(str, words))}{_CLOSE}", replace=True
    )
    try:
        yield
    finally:
        OmegaConf.register_new_resolver(_RESOLVER, oc.env, replace=True)


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _each_text(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _unmarked(text: str, literal: Callable[[str], str]) -> str:
    """Turn marks into interpolations again, and all between them into what ``literal`` makes of it."""
    parts = re.split(f"{_OPEN}(.*?){_CLOSE}", text, flags=re.DOTALL)
    return "".join(f"${{{part}}}" if place % 2 else literal(part) for place, part in enumerate(parts))
