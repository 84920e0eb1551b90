"""Sampled Shapley values against all orders, and what the gains of an order add up to."""

from itertools import permutations

import pytest
import torch

from effective_attention.attributions.perturbations import PerturbedTexts, probabilities
from effective_attention.attributions.shapley import shapley_values

UNK = 3


def worth(case, row, uncovered):
    """Return the target's probability when only these words are not blanked."""
    blank = case.words[row].clone()
    blank[list(uncovered)] = False
    texts = PerturbedTexts(torch.tensor([row]), case.trace.mask[row : row + 1], blank[None])
    return float(probabilities(case.request, texts, unk_id=UNK))


def in_all_orders(case, row):
    words = case.words[row].nonzero()[:, 0].tolist()
    orders = list(permutations(words))
    found = torch.zeros(len(case.words[row]), dtype=torch.float64)
    for order in orders:
        for place, word in enumerate(order):
            found[word] += worth(case, row, order[: place + 1]) - worth(case, row, order[:place])
    return found / len(orders)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_many_orders_come_near_all_orders(make_case, family):
    case = make_case(family, (5, 3, 3) if family == "bert" else (3, 1, 1))  # three words, one, one
    found = shapley_values(case.request, case.special, UNK, [1, 2, 3], orders=200)
    expected = torch.stack([in_all_orders(case, row) for row in range(3)])
    assert float(expected.abs().max()) > 0.01
    torch.testing.assert_close(found, expected, rtol=0, atol=0.15 * float(expected.abs().max()))
    torch.testing.assert_close(found[1:], expected[1:], rtol=1e-4, atol=1e-6)  # one word has one order


def test_every_orders_gains_add_up(make_case):
    case = make_case("roberta")
    found = shapley_values(case.request, case.special, UNK, [1, 2, 3], orders=1)
    for row in range(3):
        words = case.words[row].nonzero()[:, 0].tolist()
        assert float(found[row].sum()) == pytest.approx(worth(case, row, words) - worth(case, row, []), abs=1e-6)
        assert not found[row][~case.words[row]].any()


def test_seeds_are_the_examples_own(make_case):
    case = make_case("bert")
    one, other = (shapley_values(case.request, case.special, UNK, seeds, orders=1) for seeds in ([1, 2, 3], [1, 5, 3]))
    assert torch.equal(one[0], other[0])
    assert not torch.equal(one[1], other[1])


def test_orders_must_be_positive(make_case):
    case = make_case("bert")
    with pytest.raises(ValueError, match="orders must be at least 1, got 0"):
        shapley_values(case.request, case.special, UNK, [1, 2, 3], orders=0)
