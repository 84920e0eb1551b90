"""Maps that stand beside standard and effective attention where one text is looked at: all have the same output.

``affine`` is read off a split (``layer``). ``sparse`` and ``smallest`` lie inside the simplex, as the conclusion of
Brunner et al. (2020) asks for: no weight below 0, and rows that sum to 1. Each of their rows is a program of its own
(``polytope``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from effective_attention.attention.polytope import smallest_map, sparse_map

SIMPLEX: Mapping[str, Callable[..., Any]] = {"sparse": sparse_map, "smallest": smallest_map}
"""How a head's map is found, from its attention, its values and what each query sees."""
EXTRA_MAPS = ("affine", *SIMPLEX)
"""Names of all of them, in the order in which results show them."""


def chosen_maps(option: str, maps: Any) -> tuple[str, ...]:
    """Return the chosen maps in our order.

    >>> chosen_maps("maps", ["smallest", "affine"])
    ('affine', 'smallest')

    Raises:
        ValueError: Names the option.
    """
    listed = isinstance(maps, Sequence) and not isinstance(maps, str)
    if not listed or any(name not in EXTRA_MAPS for name in maps) or len(set(maps)) < len(maps):
        got = list(maps) if listed else maps
        raise ValueError(f"{option} must be a list of some of {', '.join(EXTRA_MAPS)}, each once, got {got!r}")
    return tuple(name for name in EXTRA_MAPS if name in maps)
