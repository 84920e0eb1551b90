"""What analyses share: samples, layers, tidy tables."""

import pytest
import torch

from effective_attention.analyses.common.base import Context
from effective_attention.analyses.common.options import layer_numbers
from effective_attention.analyses.common.samples import random_share, sample
from effective_attention.analyses.common.tables import mean_over, tidy
from effective_attention.errors import UserError
from helpers.subjects import make_context


def context(examples: int, seed: int = 0) -> Context:
    return make_context(layers=1, heads=1, width=1, max_length=1, examples=examples, seed=seed)


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (3, 3), (10, 10), (99, 10), (None, 10)])
def test_a_sample_has_as_many_as_asked_for(count, expected):
    assert int(sample(context(10), count).sum()) == expected


def test_a_sample_depends_on_the_seed_alone():
    state = torch.get_rng_state()
    first = sample(context(1000, seed=3), 100)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    assert torch.equal(first, sample(context(1000, seed=3), 100))
    assert not torch.equal(first, sample(context(1000, seed=4), 100))


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("share", [0.01, 0.3])
def test_numbers_are_drawn_evenly(seed, share):
    numbers = torch.arange(200_000)
    chosen = random_share(numbers, share, seed).double()
    assert chosen.mean().item() == pytest.approx(share, abs=5 * (share * (1 - share) / len(numbers)) ** 0.5)
    parts = chosen.view(100, -1).mean(dim=1)  # nowhere more than elsewhere
    assert (parts - share).abs().max().item() < 5 * (share * (1 - share) / 2000) ** 0.5
    neighbours = (chosen[1:] * chosen[:-1]).mean().item()
    assert neighbours == pytest.approx(share**2, abs=5 * share / len(numbers) ** 0.5)


def test_a_number_is_drawn_whatever_its_company():
    numbers = torch.arange(50)
    assert torch.equal(random_share(numbers, 0.5, 7)[20:30], random_share(numbers[20:30], 0.5, 7))


@pytest.mark.parametrize(("choice", "numbers"), [("last", [5]), ("all", [0, 1, 2, 3, 4, 5]), (0, [0]), (-1, [5])])
def test_layers(choice, numbers):
    assert layer_numbers(choice, 6, "some.option") == numbers


@pytest.mark.parametrize("choice", [6, -7, "first", 1.0, True, None])
def test_no_such_layer(choice):
    with pytest.raises(UserError, match=r"some\.option must be last, all or a layer from 0 to 5"):
        layer_numbers(choice, 6, "some.option")


def test_tidy_names_every_value():
    values = torch.arange(4.0).view(2, 2)
    table = tidy(values, {"layer": [3, 4], "head": range(2)}, count=torch.tensor([7, 8]))
    assert table.values.tolist() == [[3, 0, 0, 7], [3, 1, 1, 8], [4, 0, 2, 7], [4, 1, 3, 8]]


def test_the_mean_of_nothing_is_undefined():
    assert mean_over(torch.tensor([2.0, 0.0]), torch.tensor([4, 0])).tolist()[0] == 0.5
    assert mean_over(torch.tensor([2.0, 0.0]), torch.tensor([4, 0])).isnan().tolist() == [False, True]
