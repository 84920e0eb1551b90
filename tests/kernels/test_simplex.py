"""Linear programs over rows with one output: by hand, against SciPy, and what must hold for any row."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.attention.alternatives import space_of
from effective_attention.kernels import simplex, simplex_reference, simplex_table

KINDS = ("plain", "repeated", "tiny", "flat", "peaked")


def make(keys, width, seed, kind="plain"):
    """Return a row and the columns that its output and its sum depend on."""
    random = np.random.default_rng(seed)
    weights = random.dirichlet(np.full(keys, 0.05 if kind == "peaked" else 0.5))
    value = random.normal(size=(keys, width))
    if kind == "repeated":  # tokens that are one and the same: vertices with basic weights of 0
        value = value[random.integers(0, max(1, keys // 3), keys)]
    if kind == "tiny":
        weights = weights * 10.0 ** random.integers(-14, 1, keys)
        weights[random.integers(keys)] += 1
        weights /= weights.sum()
    if kind == "flat":  # of lower rank than its columns
        value = value @ random.normal(size=(width, 1)) @ random.normal(size=(1, width))
    return weights, space_of(value).reached


def both(weights, reached):
    """Return the ends by the compiled loops and by the reference, (2, key) each."""
    given = reached[None].copy(), np.array([reached.shape]), np.zeros(1, dtype=np.int64), weights[None]
    return simplex.intervals(*given)[:, 0], simplex_reference.intervals(*given)[:, 0]


# --- by hand ---


@pytest.mark.parametrize("module", [simplex, simplex_reference])
def test_three_keys_in_a_line(module):
    """Check values 0, 1, 2: weight goes from the middle in equal parts to both ends, or back."""
    weights = np.array([0.2, 0.5, 0.3])
    reached = space_of(np.array([[0.0], [1.0], [2.0]])).reached
    found = module.intervals(reached[None].copy(), np.array([[3, 2]]), np.zeros(1, dtype=np.int64), weights[None])
    np.testing.assert_allclose(found[:, 0], [[0, 0, 0.1], [0.45, 0.9, 0.55]], atol=1e-12)
    vertex, bound = module.Polytope(reached, weights).least(np.array([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(vertex, [0.45, 0, 0.55], atol=1e-12)
    assert bound == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("keys", [1, 2, 3])
def test_no_freedom(keys):
    weights, reached = make(keys, 2, 0)
    for found in both(weights, reached):
        assert found.tolist() == [weights.tolist()] * 2


# --- against the reference ---


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.integers(1, 8), st.integers(0, 10**6), st.sampled_from(KINDS))
def test_the_compiled_loops_find_what_the_reference_does(keys, width, seed, kind):
    weights, reached = make(keys, width, seed, kind)
    ours, plain = both(weights, reached)
    np.testing.assert_allclose(ours, plain, rtol=0, atol=2e-9)
    assert (ours[0] <= weights).all()
    assert (weights <= ours[1]).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 40), st.integers(1, 12), st.integers(0, 10**6), st.sampled_from(KINDS))
def test_vertices_and_what_is_proved_of_them(keys, width, seed, kind):
    weights, reached = make(keys, width, seed, kind)
    if reached.shape[1] == keys:
        return
    polytope = simplex.Polytope(reached, weights)
    for cost in np.random.default_rng(seed).normal(size=(4, keys)):
        vertex, bound = polytope.least(cost)
        assert vertex.min() >= 0
        assert (vertex > 0).sum() <= reached.shape[1]
        np.testing.assert_allclose(vertex @ reached, weights @ reached, rtol=0, atol=1e-10)
        assert bound <= cost @ weights + 1e-12
        assert cost @ vertex == pytest.approx(bound, abs=1e-8)
        assert simplex_reference.Polytope(reached, weights).least(cost)[1] == pytest.approx(bound, abs=1e-8)


def test_a_bound_holds_whatever_the_table_says():
    weights, reached = make(24, 5, 0)
    cost = np.random.default_rng(0).normal(size=24)
    least = simplex_reference.Polytope(reached, weights).least(cost)[1]
    state = simplex_table.new_state(reached.copy(), weights)
    for seed in range(20):
        state.table[:] = np.random.default_rng(seed).normal(size=state.table.shape)
        assert simplex_table.proved(state, cost) <= least + 1e-9


def test_a_table_that_is_made_anew_stands_at_the_same_vertex():
    weights, reached = make(40, 9, 0)
    state = simplex_table.new_state(reached.copy(), weights)
    cost, before, after = np.random.default_rng(1).normal(size=40), np.empty(40), np.empty(40)
    assert simplex_table.optimise(state, cost)
    simplex_table.vertex(state, before)
    simplex_table.renew(state)
    simplex_table.vertex(state, after)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-12)
    assert simplex_table.optimise(state, cost)


def test_a_broken_table_is_mended():
    weights, reached = make(30, 6, 2)
    polytope = simplex.Polytope(reached, weights)
    polytope._state.table[:] *= 1.5
    cost = np.eye(30)[4]
    vertex, bound = polytope.least(cost)
    assert vertex[4] == pytest.approx(bound, abs=1e-9)
    np.testing.assert_allclose(vertex @ reached, weights @ reached, rtol=0, atol=1e-10)


def test_what_is_not_solved_goes_to_the_reference(monkeypatch):
    weights, reached = make(12, 3, 0)
    want = both(weights, reached)[1]
    monkeypatch.setattr(simplex, "_solve", lambda *_: (0.0, False))
    monkeypatch.setattr(simplex, "_solve_rows", lambda *given: given[-1].fill(False))
    assert both(weights, reached)[0] == pytest.approx(want)
    assert simplex.Polytope(reached, weights).least(np.eye(12)[3])[1] == pytest.approx(want[0, 3], abs=1e-9)


def test_a_program_without_an_end_says_so():
    with pytest.raises(ArithmeticError, match="linear program over 2 keys was not solved"):
        simplex_reference.Polytope(np.array([[1.0], [-1.0]]), np.array([1.0, 0.0])).least(np.array([-1.0, -1.0]))


# --- many rows ---


def test_many_rows_on_many_threads():
    """Check rows of spaces of different sizes, on one thread and on three."""
    made = [make(keys, 4, keys) for keys in (3, 9, 17, 12, 5)]
    reached = np.zeros((5, 17, 5))
    weights = np.zeros((10, 17))
    for space, (row, columns) in enumerate(made):
        reached[space, : len(row), : columns.shape[1]] = columns
        weights[space, : len(row)] = weights[5 + space, : len(row)] = row
    sizes = np.array([columns.shape for _, columns in made])
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(simplex.intervals(reached, sizes, np.arange(10) % 5, weights))
    finally:
        torch.set_num_threads(before)
    assert all(np.array_equal(one, other) for one, other in pairwise(found))
    for space, (row, columns) in enumerate(made):
        alone = both(row, columns)[0]
        np.testing.assert_array_equal(found[0][:, 5 + space, : len(row)], alone)
        assert (found[0][:, space, len(row) :] == 0).all()
