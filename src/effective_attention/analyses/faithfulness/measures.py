"""What is measured of every method: the list. To add a measure, write its function and a line here.

The schema of the table, the figures' titles and the small tables of the report are made from this list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from effective_attention.analyses.faithfulness.agreement import with_blank_out, with_gradients
from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.analyses.faithfulness.erased import comprehensiveness, sufficiency
from effective_attention.analyses.faithfulness.subject import subjects


@dataclass(frozen=True)
class Measure:
    """One number of each example, method and layer.

    Attributes:
        name: What the table calls it.
        title: What figures and small tables call it.
        better: Whether ``high`` or ``low`` values speak for a method.
        function: Gives (batch, layer) for each of ``Asked.attributions``, one layer where a method has none. NaN leaves
            an example out; rows without any example are left out.
        layers: Whether ``each`` layer of attention is measured, or the ``last`` alone, which is (batch, 1).
        needs: What must be known of tokens (``Trace.tokens``); without it there are no rows.
    """

    name: str
    title: str
    better: Literal["high", "low"]
    function: Callable[[Asked], Sequence[Tensor]]
    layers: Literal["each", "last"] = "each"
    needs: tuple[str, ...] = ()


MEASURES = (
    Measure("spearman_blank_out", "Spearman with blank-out", "high", with_blank_out),
    Measure("spearman_gradients", "Spearman with gradients", "high", with_gradients),
    Measure("comprehensiveness", "comprehensiveness", "high", comprehensiveness, layers="last"),
    Measure("sufficiency", "sufficiency", "low", sufficiency, layers="last"),
    Measure("subject_first", "subject first", "high", subjects, needs=("role",)),
)
