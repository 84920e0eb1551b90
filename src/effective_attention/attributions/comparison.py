"""Which methods are really better than which? Differences on the same examples, and average ranks.

Two ways, both of one number for each example and method (NaN where an example cannot be judged):

- ``paired_differences``: the examples are drawn again (bootstrap), the same ones for both methods of a pair, so that
  what makes an example hard for both drops out. The share of draws beyond 0 gives a two-sided p, corrected for the
  number of pairs (Holm 1979).
- ``average_ranks`` over the examples that all methods have, Friedman's test of whether they differ at all, and
  Nemenyi's critical difference: average ranks closer than it are not told apart (Demsar 2006, section 3.2.2).

Demsar ranks classifiers over data sets; here methods are ranked over examples of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from effective_attention.attributions.ranking import draw_again, ranks, times_drawn

LEVEL = 0.05
_DRAWS = 1000
_MOST_DRAWS = 100_000
_PER_PAIR = 80  # so that of many pairs, too, one whose draws all agree stands out after the correction


@dataclass(frozen=True)
class Difference:
    """The difference between two columns, on the examples that both have.

    Attributes:
        one: Number of a column.
        other: Number of another, which is subtracted.
        value: Mean of the differences; NaN: no example has both.
        std: Their standard deviation.
        low: Lower end of the 95 % interval of the mean.
        high: Its upper end.
        beyond: Share of the draws whose difference is 0 or has the other sign.
        p: Two-sided, corrected for the number of pairs.
        count: Examples.
    """

    one: int
    other: int
    value: float
    std: float
    low: float
    high: float
    beyond: float
    p: float
    count: int


def paired_differences(
    values: Float[Tensor, "example column"], pairs: Sequence[tuple[int, int]] | None = None, *, seed: int
) -> list[Difference]:
    """Compare columns by a paired bootstrap over examples: these pairs, or every column with every later one.

    The interval is that of the percentiles. ``p`` is twice ``(draws beyond 0 + 1) / (draws + 1)``, at most 1, then
    Holm's: the smallest of m times m, the next times m - 1, and so on, never less than the one before. There are 1000
    draws, or 80 for each pair, up to 100 000.
    """
    pairs = list(combinations(range(values.shape[1]), 2)) if pairs is None else pairs
    if not pairs or not len(values):
        return []
    one, other = torch.tensor(pairs, device=values.device).unbind(dim=-1)
    apart = (values[:, one] - values[:, other]).double().cpu()  # (example, pair)
    there = ~apart.isnan()
    count = there.sum(dim=0)
    mean = torch.where(count > 0, apart.nansum(dim=0) / count.clamp_min(1), torch.nan)
    spread = ((apart - mean).square().nansum(dim=0) / (count - 1).clamp_min(1)).sqrt()
    low, high, beyond, p = _drawn(apart, mean, min(_MOST_DRAWS, max(_DRAWS, _PER_PAIR * len(pairs))), seed)
    columns = (mean, torch.where(count > 0, spread, torch.nan), low, high, beyond, torch.tensor(holm(p.tolist())))
    rows = zip(pairs, *(column.tolist() for column in columns), count.tolist(), strict=True)
    return [Difference(*pair, *numbers) for pair, *numbers in rows]


def holm(p: Sequence[float]) -> list[float]:
    """Correct the p-values of several tests (Holm 1979); NaN is no test.

    >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted((number for number in range(len(p)) if not math.isnan(p[number])), key=p.__getitem__)
    corrected = list(p)
    least = 0.0
    for place, number in enumerate(order):
        least = max(least, min(1.0, (len(order) - place) * p[number]))
        corrected[number] = least
    return corrected


def _drawn(apart: Tensor, mean: Tensor, draws: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw the examples again: the ends of the intervals, the share of draws beyond 0, and two-sided p."""
    beyond = torch.zeros_like(mean)
    first = mean[None]
    for number, means in enumerate(_means(apart, draws, seed)):
        beyond += ((means * mean.sign() <= 0) & ~means.isnan()).sum(dim=0)
        first = means if number == 0 else first
    low, high = torch.nanquantile(first, torch.tensor([0.025, 0.975], dtype=torch.float64), dim=0)
    p = (2 * (beyond + 1) / (draws + 1)).clamp_max(1)
    known = ~mean.isnan()
    return low, high, torch.where(known, beyond / draws, torch.nan), torch.where(known, p, torch.nan)


def _means(apart: Tensor, draws: int, seed: int) -> Iterator[Tensor]:
    """Yield the mean of each pair in each draw, (draw, pair), a thousand draws at a time."""
    there = (~apart.isnan()).double()
    filled = apart.nan_to_num()
    for number, start in enumerate(range(0, draws, _DRAWS)):
        times = times_drawn(draw_again(len(apart), min(_DRAWS, draws - start), seed + 7919 * number))
        count = times @ there
        yield torch.where(count > 0, times @ filled / count.clamp_min(1), torch.nan)


def average_ranks(values: Float[Tensor, "example column"], *, more_is_better: bool) -> tuple[list[float], int]:
    """Rank the columns in each example, 1 the best, ties averaged; return the mean ranks and of how many examples.

    Examples that a column does not have are left out.

    >>> average_ranks(torch.tensor([[0.5, 0.1, 0.1], [0.2, 0.9, 0.3], [torch.nan, 1, 2]]), more_is_better=True)
    ([2.0, 1.75, 2.25], 2)
    """
    whole = values[~values.isnan().any(dim=-1)]
    if not len(whole):
        return [math.nan] * values.shape[1], 0
    ordered = -whole if more_is_better else whole
    found: list[float] = ranks(ordered, torch.ones_like(whole, dtype=torch.bool)).mean(dim=0).tolist()
    return found, len(whole)


def critical_difference(methods: int, examples: int, level: float = LEVEL) -> float:
    """Return how far two average ranks must be apart to differ, by Nemenyi's test; infinite where nothing can be told.

    ``q sqrt(k (k + 1) / (6 N))`` for ``k`` methods and ``N`` examples, ``q`` the upper quantile of the studentised
    range of ``k`` means and infinite degrees of freedom, divided by the square root of 2.

    >>> round(critical_difference(4, 14), 2)  # as Demsar, section 3.2.2
    1.25
    """
    if methods < 2 or examples < 1:
        return math.inf
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(1 - level, methods, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(methods * (methods + 1) / (6 * examples))


def friedman(average: Sequence[float], examples: int) -> float:
    """Return the p of Friedman's test that all methods are alike, from their average ranks (no correction for ties).

    >>> round(friedman([3.143, 2.000, 2.893, 1.964], 14), 3)  # Demsar, Table 6: 9.28 on 3 degrees of freedom
    0.026
    """
    methods = len(average)
    if methods < 2 or examples < 1:
        return math.nan
    from scipy.stats import chi2

    squares = sum(rank * rank for rank in average) - methods * (methods + 1) ** 2 / 4
    return float(chi2.sf(12 * examples / (methods * (methods + 1)) * squares, methods - 1))


def not_told_apart(average: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Group neighbours in a sorted list of average ranks that differ by less than a critical difference.

    Returns:
        First and last place of each group of two or more that is not part of another.

    >>> not_told_apart([1.5, 2.0, 3.1, 3.2], 1.3)
    [(0, 1), (1, 3)]
    """
    found: list[tuple[int, int]] = []
    for first in range(len(average)):
        last = max(place for place in range(first, len(average)) if average[place] - average[first] < difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found
