"""Checks that options of several analyses share: each refuses a wrong value in one line that names the option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from effective_attention.attention.extra_maps import chosen_maps
from effective_attention.errors import UserError
from effective_attention.graphs.conventions import Convention

if TYPE_CHECKING:
    from effective_attention.analyses.common.base import Context


def is_whole_number(value: Any, least: int = 1) -> bool:
    """Tell whether a value is a whole number and at least ``least``.

    >>> is_whole_number(1), is_whole_number(0), is_whole_number(0, 0), is_whole_number(True), is_whole_number(2.0)
    (True, False, True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def check_limit(option: str, limit: Any) -> None:
    """Refuse a value that is neither a number of examples nor None, which stands for all."""
    if limit is not None and not is_whole_number(limit):
        raise UserError(f"{option} must be at least 1, or null for all, got {limit!r}")


def check_flag(option: str, value: Any) -> None:
    """Refuse a value that is neither true nor false."""
    if not isinstance(value, bool):
        raise UserError(f"{option} must be true or false, got {value!r}")


def check_one_of(option: str, value: Any, known: Sequence[str]) -> None:
    """Refuse a value that is none of the known words."""
    if value not in known:
        raise UserError(f"{option} must be {' or '.join(known)}, got {value!r}")


def check_maps(option: str, maps: Any) -> tuple[str, ...]:
    """Refuse what are no maps beside standard and effective attention; return them in our order."""
    try:
        return chosen_maps(option, maps)
    except ValueError as error:
        raise UserError(str(error)) from None


def check_number(option: str, number: Any, lowest: int, highest: int | None = None) -> None:
    """Refuse a value that is not a whole number from ``lowest`` to ``highest``; None: there is no highest."""
    if not is_whole_number(number, lowest) or (highest is not None and number > highest):
        wanted = f"at least {lowest}" if highest is None else f"from {lowest} to {highest}"
        raise UserError(f"{option} must be {wanted}, got {number!r}")


def check_example(option: str, example: Any, context: Context) -> None:
    """Refuse a value that is not a place in the split; where the user wrote a text, the option is not read."""
    if context.text is None and (not is_whole_number(example, 0) or example >= context.examples):
        raise UserError(f"{option} must be from 0 to {context.examples - 1}, got {example!r}")


def check_choice(option: str, value: Any) -> None:
    """Refuse a value that is neither true nor false nor None, which leaves the choice to the model's attention."""
    if value is not None and not isinstance(value, bool):
        raise UserError(f"{option} must be true, false or null (as the model's attention asks for), got {value!r}")


def check_pair_options(
    analysis: str, special_tokens: object, convention: object = "absolute", first_token: object = None
) -> None:
    """Check the options that the analyses of pairs of tokens share."""
    check_flag(f"analysis.{analysis}.special_tokens", special_tokens)
    check_choice(f"analysis.{analysis}.first_token", first_token)
    check_convention(analysis, convention)


def check_graph_options(analysis: str, residual: object, convention: object, receptive_field: object = None) -> None:
    """Check the options of every analysis that builds graphs."""
    check_choice(f"analysis.{analysis}.receptive_field", receptive_field)
    if not isinstance(residual, int | float) or isinstance(residual, bool) or not 0 <= residual <= 1:
        raise UserError(
            f"analysis.{analysis}.residual must be a number from 0 to 1, got {residual!r}; the paper's is 0.5"
        )
    check_convention(analysis, convention)


def check_convention(analysis: str, convention: object) -> None:
    """Refuse a value that is not one of the ways to treat negative weights."""
    if convention not in get_args(Convention):
        known = ", ".join(get_args(Convention))
        raise UserError(f"analysis.{analysis}.convention must be one of {known}, got {convention!r}")


def layer_numbers(choice: Any, layers: int, option: str) -> list[int]:
    """List the layers that ``last``, ``all`` or a number (counted from 0; -1 is the last) stands for."""
    if choice == "all":
        return list(range(layers))
    number = -1 if choice == "last" else choice
    if not isinstance(number, int) or isinstance(number, bool) or not -layers <= number < layers:
        raise UserError(f"{option} must be last, all or a layer from 0 to {layers - 1}, got {choice!r}")
    return [number % layers]
