"""Numbers that are not finite: found wherever they are, named, and not seen where there are none."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from effective_attention.errors import UserError
from effective_attention.finite import NotFiniteError, Watch, all_finite, check_weights, first_not_finite

BAD = (torch.nan, torch.inf, -torch.inf)
HALF = (torch.float16, torch.bfloat16)


@given(st.integers(0, 20), st.lists(st.floats(width=32), max_size=8))
def test_one_of_many_is_found(before: int, numbers: list[float]) -> None:
    found = all_finite(torch.tensor([1.0] * before + numbers))
    assert found == bool(torch.tensor(numbers).isfinite().all())


@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64])
def test_the_largest_numbers_of_a_type_are_finite(dtype: torch.dtype) -> None:
    """Check that looking does not overflow: a sum or a difference would."""
    largest = torch.finfo(dtype).max
    assert all_finite(torch.tensor([largest, largest, -largest], dtype=dtype))
    assert not all_finite(torch.tensor([largest, torch.inf], dtype=dtype))


def test_looking_leaves_the_graph_alone() -> None:
    weight = torch.ones(3, requires_grad=True)
    assert all_finite(weight * 2)
    assert weight.grad is None


@pytest.mark.parametrize("bad", BAD)
def test_weights_are_refused_by_name(bad: float) -> None:
    weights = {"ids": torch.arange(3), "fine": torch.ones(2), "head": torch.tensor([[1.0, bad, bad]])}
    assert first_not_finite({"fine": weights["fine"]}) is None
    with pytest.raises(NotFiniteError, match=r"^model=x: 2 of 3 numbers of head are NaN or infinite, .*nothing$"):
        check_weights(weights, "model=x")


def test_the_error_is_a_users_and_a_value_error() -> None:
    """Check that commands print it as one line, and that a library's user may expect what bad values always raised."""
    assert issubclass(NotFiniteError, UserError)
    assert issubclass(NotFiniteError, ValueError)


def test_a_watch_names_the_first_place_once() -> None:
    watch = Watch[int](patience=3)
    assert watch.first() is None
    for place, number in enumerate((1.0, torch.inf, torch.nan)):
        watch.add(place, torch.tensor(number, dtype=HALF[place % 2]))
    assert watch.first() == 1
    assert watch.first() is None, "forgotten"


def test_a_watch_is_due_at_once_where_looking_costs_nothing_and_else_after_a_while() -> None:
    watch = Watch[int](patience=2)
    assert not watch.due
    watch.add(0, torch.ones(1, device="meta"))
    assert not watch.due
    watch.add(1, torch.ones(1, device="meta"))
    assert watch.due
    watch = Watch[int](patience=2)
    watch.add(0, torch.ones(1))
    assert watch.due
