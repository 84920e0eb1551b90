"""How far would a table be another one with other examples? Draw the examples again, many times (bootstrap).

An analysis of a split is a function of sums over examples. So its sums are kept by example, and a draw of as many
examples, with replacement, is the same function of other sums: nothing is run again. A mean over heads, a ratio, a
share, whatever ``compute`` makes of the sums, is drawn with them. The interval is that of the percentiles (Efron 1979).

Of a split of more than ``GROUPS`` examples, which could not be kept one by one in memory that does not grow, random
groups of examples are drawn instead, all of one size but for one example: a mean has the same spread.

Below some thirty examples such intervals are too short, and only examples are drawn: neither seeds nor models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from effective_attention.analyses.common.base import Analysis, SplitAnalysis
from effective_attention.attention.trace import Trace
from effective_attention.attributions.ranking import draw_again, times_drawn
from effective_attention.progress import Progress

GROUPS = 500
LEVEL = 0.95
LOW, HIGH = "value_low", "value_high"
"""Columns of a table whose examples were drawn again: the ends of the interval of ``value``."""


def can_be_resampled(analysis: Analysis) -> TypeGuard[SplitAnalysis]:
    """Tell whether an analysis is a function of sums over examples alone, whose rows have a value."""
    if not isinstance(analysis, SplitAnalysis) or not analysis.resampled or analysis.schema is None:
        return False
    return "value" in analysis.schema.names and set(analysis.joined.values()) <= {"sum", "min", "max"}


@dataclass
class Resampling:
    """Draws of the examples, the same for all analyses, so that their numbers can be compared draw by draw.

    Attributes:
        draws: How many; 1000 are usual.
        seed: Of the draws.
        groups: At most so many sums are kept of each analysis.
    """

    draws: int
    seed: int = 0
    groups: int = GROUPS
    _tables: dict[str, tuple[pd.DataFrame, NDArray[np.float64]]] = field(default_factory=dict)

    def watch(self, analyses: Mapping[str, Analysis]) -> dict[str, GroupedSums]:
        """Return what is to be shown examples in the place of an analysis, for those that can be resampled."""
        return {name: GroupedSums(one, self) for name, one in analyses.items() if can_be_resampled(one)}

    def with_intervals(
        self, name: str, found: GroupedSums, table: pd.DataFrame, *, shown: bool = False
    ) -> pd.DataFrame:
        """Draw an analysis' examples again, and return its table with intervals; ``tables`` has the draws.

        Args:
            name: The analysis'.
            found: Its sums.
            table: Its table of all examples.
            shown: Whether to show how far it has got, where it takes long.
        """
        with Progress(f"intervals of {name}", self.draws, "draws", after=3) if shown else nullcontext() as progress:
            values = found.draw(table, (lambda: None) if progress is None else progress.advance)
        self._tables[name] = table, values
        low, high = percentiles(values)
        return table.assign(**{LOW: low, HIGH: high})

    def tables(self, name: str) -> Iterator[pd.DataFrame]:
        """Yield an analysis' table as each draw makes it; nothing of an analysis that was not resampled."""
        table, values = self._tables.get(name, (pd.DataFrame(), np.empty((0, 0))))
        for drawn in values:
            yield table.assign(value=drawn)


def percentiles(values: NDArray[np.float64], level: float = LEVEL) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ends of each column's interval; NaN where fewer than half of the draws have a value."""
    edge = (1 - level) / 2
    there = np.isfinite(values).mean(axis=0) >= 0.5 if len(values) else np.zeros(values.shape[1], dtype=bool)
    ends = np.full((2, values.shape[1]), np.nan)
    if there.any():
        ends[:, there] = np.nanquantile(values[:, there], [edge, 1 - edge], axis=0)
    return ends[0], ends[1]


class GroupedSums:
    """An analysis whose sums are kept by groups of examples.

    Args:
        analysis: After its ``setup``. Its states are what an example is read into; see ``gather``.
        resampling: The draws.
    """

    def __init__(self, analysis: SplitAnalysis, resampling: Resampling) -> None:
        self.analysis = analysis
        self.resampling = resampling
        examples = max(1, analysis.context.examples)
        order = torch.randperm(examples, generator=torch.Generator().manual_seed(resampling.seed))
        groups = min(resampling.groups, examples)
        self.group_of = (order % groups).tolist()
        self.names = [name for name, joined in analysis.joined.items() if joined == "sum"]
        self.empty = {name: torch.zeros_like(getattr(analysis, name)) for name in self.names}
        self.sums = {name: value.new_zeros(groups, *value.shape) for name, value in self.empty.items()}
        self.weights = times_drawn(draw_again(groups, resampling.draws, resampling.seed))
        analysis.compute_with_cache = False  # it is asked again for each draw

    def update(self, trace: Trace) -> None:
        """Take in the trace of one example."""
        (index,) = trace.inputs["index"].tolist()
        self._set(self.empty)
        self.analysis.update(trace)
        for name, sums in self.sums.items():
            sums[self.group_of[index]] += getattr(self.analysis, name)

    def gather(self) -> None:
        """Set the analysis' sums to those of all examples, as if it had been shown them itself."""
        self._set({name: sums.sum(dim=0) for name, sums in self.sums.items()})

    def draw(self, table: pd.DataFrame, done: Callable[[], None] = lambda: None) -> NDArray[np.float64]:
        """Return the values that each draw gives to the rows of the table of all examples, (draw, row).

        Args:
            table: That of all examples.
            done: Called after each draw.
        """
        keys = self.analysis.schema.keys  # type: ignore[union-attr]
        values = np.empty((len(self.weights), len(table)))
        self.analysis.values_only = True
        for number, weights in enumerate(self.weights):
            self._set({name: _weighted(weights, sums) for name, sums in self.sums.items()})
            values[number] = _in_order(self.analysis.compute(), table, keys)
            done()
        self.analysis.values_only = False
        self.gather()
        return values

    def _set(self, states: dict[str, Tensor]) -> None:
        for name, value in states.items():
            setattr(self.analysis, name, value.clone())


def _weighted(weights: Tensor, sums: Tensor) -> Tensor:
    """Add up groups, each as often as it was drawn."""
    return torch.tensordot(weights.to(sums), sums, dims=1)


def _in_order(drawn: pd.DataFrame, table: pd.DataFrame, keys: list[str]) -> NDArray[np.float64]:
    """Return a draw's values in the order of the table's rows; NaN where the draw has no such row."""
    if len(drawn) == len(table) and drawn[keys].equals(table[keys]):
        return drawn["value"].to_numpy(float)
    found = table[keys].merge(drawn[[*keys, "value"]], on=keys, how="left")
    return found["value"].to_numpy(float)
