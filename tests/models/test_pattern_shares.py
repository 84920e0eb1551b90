"""Shares of patterns without the errors of the net that counted them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.models.pattern_net import PATTERNS, pattern_net_facts
from effective_attention.models.pattern_shares import corrected_shares, error_rates

RATES = torch.tensor([[0.9, 0.1], [0.2, 0.8]], dtype=torch.float64)


def test_two_classes_by_hand():
    # found = 0.9 p + 0.2 (1 - p): 0.76 for p = 0.8, 0.34 for p = 0.2
    found = torch.tensor([[0.76, 0.24], [0.34, 0.66]])
    expected = torch.tensor([[0.8, 0.2], [0.2, 0.8]], dtype=torch.float64)
    torch.testing.assert_close(corrected_shares(found, RATES), expected, atol=1e-6, rtol=0)


def test_what_no_shares_could_bring_ends_at_the_edge():
    # even if all maps were of the first class, 0.1 would be taken for the second
    found = torch.tensor([[1.0, 0.0], [0.95, 0.05]])
    expected = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(corrected_shares(found, RATES), expected, atol=1e-4, rtol=0)


def test_a_net_without_errors_is_believed():
    found = torch.tensor([0.5, 0.3, 0.2, 0.0, 0.0])
    torch.testing.assert_close(corrected_shares(found, torch.eye(5)), found.double())


def test_nothing_found_stays_nothing():
    found = torch.tensor([[torch.nan] * 2, [0.55, 0.45]])
    shares = corrected_shares(found, RATES)
    assert shares[0].isnan().all()
    assert shares[1].tolist() == pytest.approx([0.5, 0.5])


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0.02, 1), min_size=5, max_size=5))
def test_shares_that_the_net_blurred_come_back(weights):
    shares = torch.tensor(weights, dtype=torch.float64)
    shares /= shares.sum()
    rates = 0.8 * torch.eye(5, dtype=torch.float64) + 0.04
    found = corrected_shares(shares @ rates, rates)
    torch.testing.assert_close(found, shares, atol=1e-4, rtol=0)
    assert found.sum().item() == pytest.approx(1)


def test_no_other_shares_are_likelier():
    rates = error_rates()
    found = torch.tensor([0.5, 0.1, 0.2, 0.05, 0.15], dtype=torch.float64)
    best = corrected_shares(found, rates)
    others = torch.distributions.Dirichlet(torch.ones(5)).sample((500,)).double()
    others = torch.cat([others, 0.99 * best + 0.01 * others])

    def likelihood(shares):
        return (found * (shares @ rates).log()).sum(-1)

    assert (likelihood(others) <= likelihood(best) + 1e-9).all()


def test_the_error_rates_are_those_of_the_held_out_maps():
    rates = error_rates()
    assert rates.shape == (len(PATTERNS), len(PATTERNS))
    torch.testing.assert_close(rates.sum(dim=1), torch.ones(5, dtype=torch.float64))
    facts = pattern_net_facts()
    everything, random = torch.tensor(facts["confusion"]), torch.tensor(facts["confusion_drawn_at_random"])
    assert (random <= everything).all()
    vertical = (random[0] + 10 * (everything[0] + 0.1) / (everything[0].sum() + 0.5)) / (random[0].sum() + 10)
    torch.testing.assert_close(rates[0], vertical.double(), atol=1e-6, rtol=0)
    assert (rates.argmax(dim=1) == torch.arange(5)).all()
