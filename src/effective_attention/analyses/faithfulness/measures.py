"""What is measured of every method: the list. To add a measure, write its function and a line here.

The schema of the table, the figures' titles and the small tables of the report are made from this list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import Tensor

from effective_attention.analyses.faithfulness.agreement import with_blank_out, with_gradients
from effective_attention.analyses.faithfulness.asked import Asked
from effective_attention.analyses.faithfulness.changes import randomised, stability
from effective_attention.analyses.faithfulness.erased import (
    comprehensiveness,
    normalised_comprehensiveness,
    normalised_sufficiency,
    sufficiency,
)
from effective_attention.analyses.faithfulness.subject import subjects
from effective_attention.analyses.faithfulness.truth import pointing
from effective_attention.analyses.faithfulness.ways import Way
from effective_attention.attributions.ground_truth import TOLERANCES


@dataclass(frozen=True)
class Measure:
    """One number of each example, method and layer.

    Attributes:
        name: What the table calls it.
        title: What figures and small tables call it.
        better: Whether ``high``, ``low`` or values near ``zero`` speak for a method.
        function: Gives (batch, layer) for each of ``Asked.attributions``, one layer where a method has none. NaN leaves
            an example out; rows without any example are left out.
        layers: Whether ``each`` layer of attention is measured, or the ``last`` alone, which is (batch, 1).
        needs: What must be known of tokens (``Trace.tokens``); without it there are no rows.
        ways: Whether it is measured for each way to erase, which its function is handed too.
        part: Where the report shows it: in the ``league``, among the ``checks``, or as a question of ``truth``.
    """

    name: str
    title: str
    better: Literal["high", "low", "zero"]
    function: Callable[..., Sequence[Tensor]]
    layers: Literal["each", "last"] = "each"
    needs: tuple[str, ...] = ()
    ways: bool = False
    part: Literal["league", "checks", "truth"] = "league"

    def of(self, asked: Asked) -> dict[Way | None, Sequence[Tensor]]:
        """Measure a batch, by the way to erase; None where nothing is erased."""
        return {way: self.function(asked, way) for way in asked.ways} if self.ways else {None: self.function(asked)}


def _erased(function: Callable[..., Sequence[Tensor]], title: str, better: Literal["high", "low"]) -> Measure:
    part: Literal["league", "checks"] = "checks" if function.__name__.startswith("normalised") else "league"
    return Measure(function.__name__, title, better, function, layers="last", ways=True, part=part)


def _pointing(name: str, title: str) -> Measure:
    return Measure(name, title, "high", partial(pointing, measure=name), needs=("role",), part="truth")


MEASURES = (
    Measure("spearman_blank_out", "Spearman with blank-out", "high", with_blank_out),
    Measure("spearman_gradients", "Spearman with gradients", "high", with_gradients),
    _erased(comprehensiveness, "comprehensiveness", "high"),
    _erased(sufficiency, "sufficiency", "low"),
    Measure("subject_first", "subject first", "high", subjects, needs=("role",), part="truth"),
    _pointing("mrr", "mean reciprocal rank"),
    _pointing("rma", "relevance mass"),
    _pointing("pta", "top token"),
    *(_pointing(f"pg_{k}", f"in the top {k}") for k in TOLERANCES),
    _erased(normalised_comprehensiveness, "normalised comprehensiveness", "high"),
    _erased(normalised_sufficiency, "normalised sufficiency", "high"),
    Measure("randomised", "Spearman with random layers", "zero", randomised, part="checks"),
    Measure("stability", "Spearman with exchanged texts", "high", stability, part="checks"),
)
