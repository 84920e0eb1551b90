"""Checks of the options of ``faithfulness``; each refuses a wrong value in one line that names the option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from effective_attention.analyses.common.base import Context
from effective_attention.analyses.common.options import check_flag, is_whole_number
from effective_attention.analyses.faithfulness.measures import MEASURES
from effective_attention.errors import UserError


def check_options(context: Context, *, row: Any, steps: Any, shares: Sequence[Any]) -> None:
    """Check the options that depend on the model and the split, and numbers."""
    if context.task is None:
        raise UserError("analysis faithfulness needs a task: it explains what the model answers")
    highest = context.max_length - 1
    known_row = row is None or (is_whole_number(row, 0) and row <= highest)
    _check("row", row, known_row, f"null or from 0 to {highest}")
    _check("steps", steps, is_whole_number(steps, 1), "at least 1")
    good = len(shares) > 0 and all(isinstance(value, int | float) and 0 < value <= 1 for value in shares)
    _check("shares", shares, good, "numbers above 0, up to 1")


def check_more(*, sanity: Any, stability: Any, compare: Any) -> tuple[str, ...]:
    """Check what is asked for beyond one explanation; return the measures that want it."""
    names = [measure.name for measure in MEASURES]
    _check("compare", compare, compare is None or compare in names, f"null or one of {', '.join(names)}")
    check_flag("analysis.faithfulness.sanity", sanity)
    check_flag("analysis.faithfulness.stability", stability)
    wanted = {"randomised": sanity, "stability": stability}
    for name, asked in wanted.items():
        option = "sanity" if name == "randomised" else name
        _check("compare", compare, compare != name or asked, f"measured: {name} needs {option}=true")
    return tuple(name for name, asked in wanted.items() if asked)


def _check(option: str, value: Any, good: bool, words: str) -> None:
    if not good:
        raise UserError(f"analysis.faithfulness.{option} must be {words}, got {value!r}")
