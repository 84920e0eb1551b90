"""Ranks and Spearman against SciPy, token subset by token subset; bootstrap intervals against a loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from effective_attention.attributions.ranking import (
    FEW,
    bootstrap,
    correlate,
    dense_ranks,
    dense_spearman,
    few_examples,
    ranks,
    spearman,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), min_size=1, max_size=12))
def test_as_scipy_does_with_ties_and_holes(rows: list[tuple[int, int, bool]]) -> None:
    one, other, chosen = (np.array(column) for column in zip(*rows, strict=True))
    expected = np.zeros(len(rows))
    expected[chosen] = stats.rankdata(one[chosen])
    mask = torch.from_numpy(chosen)
    np.testing.assert_allclose(ranks(torch.from_numpy(one).double(), mask), expected)
    got = spearman(torch.from_numpy(one).double(), torch.from_numpy(other).double(), mask).item()
    if len(set(one[chosen])) < 2 or len(set(other[chosen])) < 2:
        assert np.isnan(got)
    else:
        assert got == pytest.approx(stats.spearmanr(one[chosen], other[chosen]).statistic, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), min_size=1, max_size=12))
def test_dense_ranks_as_scipy_has_them_in_the_formula(rows: list[tuple[int, int, bool]]) -> None:
    one, other, chosen = (np.array(column) for column in zip(*rows, strict=True))
    expected = np.zeros(len(rows))
    expected[chosen] = stats.rankdata(one[chosen], method="dense")
    left, right, mask = torch.from_numpy(one).double(), torch.from_numpy(other).double(), torch.from_numpy(chosen)
    np.testing.assert_allclose(dense_ranks(left, mask), expected)
    got, count = correlate(left, right, mask, "dense").item(), int(chosen.sum())
    if count < 2:
        assert np.isnan(got)
        return
    apart = expected[chosen] - stats.rankdata(other[chosen], method="dense")
    assert got == pytest.approx(1 - 6 * (apart**2).sum() / (count * (count**2 - 1)))


def test_dense_ranks_have_no_gaps_and_leave_out_what_is_not_chosen() -> None:
    scores = torch.tensor([[0.5, 0.1, 0.5, 0.9, 0.1], [4.0, 3.0, 2.0, 1.0, 0.0]])
    chosen = torch.tensor([[True, True, True, False, True], [True, False, True, True, True]])
    assert dense_ranks(scores, chosen).tolist() == [[2, 1, 2, 0, 1], [4, 0, 3, 2, 1]]
    assert dense_spearman(scores, -scores, chosen)[1].item() == -1
    assert dense_spearman(scores[:, :1], scores[:, :1], chosen[:, :1]).isnan().all()


def test_many_at_once() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(3, 4, 7, generator=generator)
    other = torch.rand(4, 7, generator=generator)
    chosen = torch.rand(4, 7, generator=generator) < 0.8
    got = spearman(scores, other, chosen)
    assert got.shape == (3, 4)
    for method in range(3):
        for example in range(4):
            mask = chosen[example]
            want = stats.spearmanr(scores[method, example][mask], other[example][mask]).statistic
            assert got[method, example].item() == pytest.approx(want, abs=1e-9)


def test_rounding_noise_is_a_tie() -> None:
    chosen = torch.ones(3, dtype=torch.bool)
    assert ranks(torch.tensor([1.0, 1.0 + 1e-8, 2.0], dtype=torch.float64), chosen).tolist() == [1.5, 1.5, 3.0]
    assert ranks(torch.tensor([1e-12, 3e-12, 2e-12], dtype=torch.float64), chosen).tolist() == [1.0, 3.0, 2.0]


def test_bootstrap() -> None:
    values = torch.randn(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values[::3, 1] = torch.nan
    values[:, 2] = torch.nan
    low, high = bootstrap(values, seed=1)
    for column in range(2):
        kept = values[~values[:, column].isnan(), column].numpy()
        error = kept.std() / np.sqrt(len(kept))
        assert low[column].item() == pytest.approx(kept.mean() - 1.96 * error, abs=0.25 * error)
        assert high[column].item() == pytest.approx(kept.mean() + 1.96 * error, abs=0.25 * error)
    assert low[2].isnan()
    assert torch.equal(torch.stack(bootstrap(values, seed=1)).nan_to_num(), torch.stack([low, high]).nan_to_num())


def test_so_few_examples_are_named() -> None:
    assert few_examples(FEW) is None
    assert "8 examples: 95 % intervals of fewer than 30 are too short" in str(few_examples(8))
    assert str(few_examples(1)).startswith("1 example: ")


def test_intervals_of_few_examples_cover_less_than_they_say() -> None:
    """Check what the warning says, by a thousand made-up samples: of 8 examples too little, of a hundred enough."""
    generator = torch.Generator().manual_seed(0)
    for examples, least, most in ((8, 0.73, 0.90), (100, 0.92, 0.97)):
        drawn = torch.randn(examples, 1000, generator=generator, dtype=torch.float64)
        low, high = bootstrap(drawn, seed=1)
        covered = ((low <= 0) & (high >= 0)).double().mean().item()
        assert least <= covered <= most, (examples, covered)
