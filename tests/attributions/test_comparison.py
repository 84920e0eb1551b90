"""Paired differences, Holm's correction, ranks and Nemenyi's difference against SciPy, loops and Demsar's numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from effective_attention.attributions.comparison import (
    average_ranks,
    critical_difference,
    friedman,
    holm,
    not_told_apart,
    paired_differences,
)
from effective_attention.attributions.ranking import draw_again

DEMSAR = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
"""Critical values at 0.05, Table 5 (a)."""


def values_of(examples: int, columns: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(examples, columns, generator=generator, dtype=torch.float64)


def test_differences_against_a_loop_over_draws() -> None:
    values = values_of(12, 3)
    values[2, 1] = torch.nan
    found = paired_differences(values, seed=4)
    assert [(one.one, one.other) for one in found] == [(0, 1), (0, 2), (1, 2)]
    drawn = draw_again(12, 1000, 4)
    raw = []
    for one in found:
        apart = (values[:, one.one] - values[:, one.other]).numpy()
        means = np.array([np.nanmean(apart[places]) for places in drawn.numpy()])
        assert one.value == pytest.approx(np.nanmean(apart))
        assert one.std == pytest.approx(np.nanstd(apart, ddof=1))
        assert (one.low, one.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])))
        assert one.count == int(np.isfinite(apart).sum())
        beyond = int((means * np.sign(one.value) <= 0).sum())
        assert one.beyond == pytest.approx(beyond / 1000)
        raw.append(min(1, 2 * (beyond + 1) / 1001))
    assert [one.p for one in found] == pytest.approx(holm(raw))


def test_what_is_shared_by_both_drops_out() -> None:
    """Check methods that differ little, on examples that differ much: only the paired interval tells them apart."""
    hard = 10 * values_of(40, 1)
    values = torch.cat([hard + 0.2, hard], dim=1) + 0.1 * values_of(40, 2, seed=1)
    (found,) = paired_differences(values, seed=0)
    assert 0 < found.low < found.value < found.high < 0.4
    assert found.p < 0.05
    same = paired_differences(torch.cat([hard, hard], dim=1), seed=0)[0]
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)


def test_missing_examples_and_columns() -> None:
    values = values_of(5, 3)
    values[:, 2] = torch.nan
    found = paired_differences(values, seed=0)
    assert [one.count for one in found] == [5, 0, 0]
    assert math.isnan(found[1].value)
    assert math.isnan(found[1].low)
    assert math.isnan(found[1].p)
    assert found[0].p < 1 or found[0].beyond > 0
    assert paired_differences(values[:, :1], seed=0) == []
    assert paired_differences(values[:0], seed=0) == []


def test_many_pairs_can_stand_out_too() -> None:
    """Check 20 columns: of 190 pairs those that always agree must stay clear of the correction."""
    values = torch.arange(20.0, dtype=torch.float64) + 0.01 * values_of(10, 20)
    assert max(one.p for one in paired_differences(values, seed=0)) < 0.05


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_against_its_definition(p: list[float]) -> None:
    corrected = holm(p)
    order = np.argsort(p, kind="stable")
    for place, number in enumerate(order):
        steps = [min(1.0, (len(p) - before) * p[order[before]]) for before in range(place + 1)]
        assert corrected[number] == pytest.approx(max(steps))
    assert all(mine >= plain for mine, plain in zip(corrected, p, strict=True))


def test_holm_leaves_out_what_is_no_test() -> None:
    assert holm([math.nan, 0.02, 0.01])[1:] == [0.02, 0.02]
    assert math.isnan(holm([math.nan])[0])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=6), st.booleans())
def test_ranks_against_scipy(rows: list[list[int]], more: bool) -> None:
    values = torch.tensor(rows, dtype=torch.float64)
    found, count = average_ranks(values, more_is_better=more)
    expected = np.mean([stats.rankdata([-value if more else value for value in row]) for row in rows], axis=0)
    assert found == pytest.approx(expected.tolist())
    assert count == len(rows)
    assert sum(found) == pytest.approx(6)


def test_examples_that_a_method_lacks_are_not_ranked() -> None:
    values = torch.tensor([[1.0, 2.0], [torch.nan, 1.0]])
    assert average_ranks(values, more_is_better=True) == ([2.0, 1.0], 1)
    found, count = average_ranks(values[1:], more_is_better=True)
    assert count == 0
    assert all(map(math.isnan, found))


@pytest.mark.parametrize("methods", DEMSAR)
def test_the_critical_values_are_the_papers(methods: int) -> None:
    factor = math.sqrt(methods * (methods + 1) / (6 * 30))
    assert critical_difference(methods, 30) / factor == pytest.approx(DEMSAR[methods], abs=2e-3)


def test_nothing_can_be_told_of_one_method_or_no_example() -> None:
    assert critical_difference(1, 10) == critical_difference(3, 0) == math.inf
    assert math.isnan(friedman([1.0], 10))


def test_friedman_against_scipy() -> None:
    values = values_of(15, 4)
    found, count = average_ranks(values, more_is_better=True)
    assert friedman(found, count) == pytest.approx(stats.friedmanchisquare(*values.T.numpy()).pvalue)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.integers(1, 8))
def test_groups_are_all_that_are_close_and_no_more(ranks: list[int], difference: int) -> None:
    ordered = sorted(map(float, ranks))
    found = not_told_apart(ordered, difference)
    for one in range(len(ordered)):
        for other in range(one + 1, len(ordered)):
            joined = any(first <= one and other <= last for first, last in found)
            assert joined == (ordered[other] - ordered[one] < difference)
    assert all(not (a <= c and d <= b) for a, b in found for c, d in found if (a, b) != (c, d)), "none in another"
