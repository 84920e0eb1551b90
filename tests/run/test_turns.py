"""Who goes first, and what the times of batches say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from effective_attention.run.turns import FEWEST_BATCHES, enough, in_turn, ratio_quartiles

SECONDS = st.floats(1e-3, 1e3)


@given(st.lists(st.integers(), min_size=1, max_size=5, unique=True))
def test_everybody_is_first_and_last_equally_often(kinds: list[int]) -> None:
    orders = [in_turn(kinds, turn) for turn in range(len(kinds))]
    for place in range(len(kinds)):
        assert sorted(order[place] for order in orders) == sorted(kinds)


def test_few_batches_are_not_enough() -> None:
    assert enough([1.0] * FEWEST_BATCHES)
    assert not enough([1.0] * (FEWEST_BATCHES - 1))
    assert not enough([])


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=FEWEST_BATCHES, max_size=30))
def test_quartiles_hold_the_median_and_half_of_the_batches(pairs: list[tuple[float, float]]) -> None:
    low, middle, high = ratio_quartiles(*map(list, zip(*pairs, strict=True)))
    assert low <= middle <= high
    inside = sum(low * (1 - 1e-12) <= mine / theirs <= high * (1 + 1e-12) for mine, theirs in pairs)
    assert inside >= len(pairs) / 2 - 1


@given(st.lists(st.floats(0.1, 10.0), min_size=9, max_size=30), st.floats(2.0, 1000.0), st.integers(0, 3))
def test_a_few_disturbed_batches_do_not_move_the_median(machine: list[float], times: float, disturbed: int) -> None:
    """Check that a machine of any speed, and up to a third of batches with a disturbed run, leave a ratio of 1.25."""
    standard = [1.0 * slow for slow in machine]
    effective = [1.25 * slow * (times if place < disturbed else 1.0) for place, slow in enumerate(machine)]
    assert ratio_quartiles(effective, standard)[1] == pytest.approx(1.25)
