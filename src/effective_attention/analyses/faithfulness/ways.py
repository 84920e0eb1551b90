"""How tokens are erased: in which units, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

from effective_attention.attributions.erasure import How
from effective_attention.attributions.words import Unit
from effective_attention.errors import UserError

UNITS: tuple[str, ...] = get_args(Unit)
ERASES: tuple[str, ...] = get_args(How)


class Way(NamedTuple):
    """One way to erase; a table may hold several."""

    unit: Unit
    erase: How


def choose_ways(unit: str | Sequence[str], erase: str | Sequence[str]) -> tuple[Way, ...]:
    """Combine units and what becomes of them, each one word or a list; the first way is the one that is compared.

    >>> choose_ways("token", ["delete", "hide"])
    (Way(unit='token', erase='delete'), Way(unit='token', erase='hide'))
    """
    units, erases = _listed("unit", unit, UNITS), _listed("erase", erase, ERASES)
    return tuple(Way(one, other) for one in units for other in erases)


def _listed(option: str, given: Any, known: Sequence[str]) -> list[Any]:
    found = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else []
    if not found or len(set(map(str, found))) < len(found) or not set(map(str, found)) <= set(known):
        raise UserError(
            f"analysis.faithfulness.{option} must be {' or '.join(known)}, or a list of these, each once, got {given!r}"
        )
    return found
