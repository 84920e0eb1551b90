"""Compare label names that different people wrote: those of a model, of a task, of a file."""

from __future__ import annotations

import re
from collections.abc import Sequence


def plain(name: str) -> str:
    """Write a name so that case and the sign between words do not matter.

    >>> plain("Not-Entailment"), plain("not entailment ")
    ('not_entailment', 'not_entailment')
    """
    return re.sub(r"[\s_-]+", "_", name.strip()).casefold()


def places(names: Sequence[str], among: Sequence[str]) -> list[int] | None:
    """Return the place of each name among others; None: one of them is not there, or two could be meant.

    Names that are written in just the same way win; else case and the sign between words do not matter.

    >>> places(["positive", "negative"], ["NEGATIVE", "NEUTRAL", "POSITIVE"])
    [2, 0]
    """
    if set(names) <= set(among):
        return [among.index(name) for name in names]
    theirs = [plain(name) for name in among]
    ours = [plain(name) for name in names]
    if len(set(theirs)) < len(theirs) or len(set(ours)) < len(ours) or not set(ours) <= set(theirs):
        return None
    return [theirs.index(name) for name in ours]


def say_nothing(names: Sequence[str]) -> bool:
    """Tell whether names are only numbers of outputs, as transformers makes them up: ``LABEL_0``, ``LABEL_1``.

    >>> say_nothing(["LABEL_0", "LABEL_1"]), say_nothing(["0", "1"]), say_nothing(["1", "0"])
    (True, True, False)
    """
    return all(name.casefold() in (f"label_{number}", str(number)) for number, name in enumerate(names))
