"""Which differences between methods are real? On one measure, in the last layer (``attributions.comparison``).

Three kinds of rows: ``average_rank``, a method's mean rank over the examples that all of them have (1 is best);
``difference``, of every pair, on the examples that both have; and ``effective_less_standard``, of every method that
reads attention, on whatever is measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from effective_attention.analyses.faithfulness.measures import Measure
from effective_attention.attributions.comparison import Difference, average_ranks, paired_differences

RANK, DIFFERENCE, CHANGE = "average_rank", "difference", "effective_less_standard"


def compared(
    values: Float[Tensor, "example entry"], entries: Sequence[tuple[str | None, str]], measure: Measure, seed: int
) -> pd.DataFrame:
    """Compare methods on their values of one measure.

    Args:
        values: NaN where an example cannot be judged; an entry without any example is left out.
        entries: Attention and method of each.
        measure: What the values are.
        seed: Of the draws.
    """
    there = [place for place in range(len(entries)) if not bool(values[:, place].isnan().all())]
    if len(there) < 2:
        return pd.DataFrame()
    values = values[:, there].abs() if measure.better == "zero" else values[:, there]
    names = [entries[place] for place in there]
    ranks, whole = average_ranks(values, more_is_better=measure.better == "high")
    rows: list[dict[str, object]] = [
        {"attention": attention, "method": method, "measure": RANK, "value": rank, "count": whole}
        for (attention, method), rank in zip(names, ranks, strict=True)
        if whole > 0
    ]
    rows += [_row(names, one) for one in paired_differences(values, seed=seed) if one.count > 0]
    return pd.DataFrame(rows).assign(compared=measure.name)


def changed(
    values: Float[Tensor, "example entry"], entries: Sequence[tuple[str | None, str]], measure: Measure, seed: int
) -> pd.DataFrame:
    """Compare each method under effective attention with itself under standard; for arguments see ``compared``.

    Of a measure that is better near zero, the absolute values. Holm's correction is for the number of methods.
    """
    place = {entry: number for number, entry in enumerate(entries)}
    both = [method for kind, method in entries if kind == "effective" and ("standard", method) in place]
    pairs = [(place["effective", method], place["standard", method]) for method in both]
    values = values.abs() if measure.better == "zero" else values
    found = [one for one in paired_differences(values, pairs, seed=seed) if one.count > 0]
    rows = [
        {"attention": "effective", "method": entries[one.one][1], "measure": CHANGE, **_numbers(one)} for one in found
    ]
    return pd.DataFrame(rows).assign(compared=measure.name) if rows else pd.DataFrame()


def _row(names: Sequence[tuple[str | None, str]], one: Difference) -> dict[str, object]:
    (attention, method), (other_attention, other_method) = names[one.one], names[one.other]
    others = {"other_attention": other_attention, "other_method": other_method}
    return {"attention": attention, "method": method, "measure": DIFFERENCE, **others, **_numbers(one)}


def _numbers(one: Difference) -> dict[str, object]:
    return {name: getattr(one, name) for name in ("value", "std", "low", "high", "beyond", "p", "count")}
