"""Rows with one output: intervals by hand and against every vertex, the sparsest and the smallest."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.attention import polytope
from effective_attention.attention.polytope import RowPolytope, intervals, row_intervals, smallest_map, sparse_map
from effective_attention.attention.row_space import reached_by, space_of


def make(keys, width, seed, concentration=0.5):
    random = np.random.default_rng(seed)
    return random.dirichlet(np.full(keys, concentration)), random.normal(size=(keys, width))


def vertices(weights, value):
    """Yield every vertex: solutions with no more keys than [V, 1] has columns."""
    rows = np.column_stack([value, np.ones(len(value))])
    for keys in combinations(range(len(value)), rows.shape[1]):
        part = rows[list(keys)].T
        if np.linalg.matrix_rank(part) == len(keys):
            vertex = np.zeros(len(value))
            vertex[list(keys)] = np.linalg.solve(part, rows.T @ weights)
            if vertex.min() > -1e-12:
                yield vertex


def everywhere(row, value):
    """Return a row and its values as a map of one query."""
    return row[None], value, np.ones((1, len(row)), dtype=bool)


def causal(size, width, seed=0):
    random = np.random.default_rng(seed)
    visible = np.tril(np.ones((size, size), dtype=bool))
    attention = random.random((size, size)) * visible
    return attention / attention.sum(axis=1, keepdims=True), random.normal(size=(size, width)), visible


# --- intervals ---


def test_equal_values_share_their_weight():
    """Check two tokens with the same value: only their sum is identified; the third is, wholly."""
    low, high = intervals(*everywhere(np.array([0.5, 0.2, 0.3]), np.array([[1.0], [1.0], [5.0]])))
    assert low[0] == pytest.approx([0, 0, 0.3])
    assert high[0] == pytest.approx([0.7, 0.7, 0.3])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("keys", "width"), [(4, 1), (6, 2), (7, 3)])
def test_against_every_vertex(keys, width, seed):
    weights, value = make(keys, width, seed)
    every = np.stack(list(vertices(weights, value)))
    low, high = intervals(*everywhere(weights, value))
    np.testing.assert_allclose(low[0], np.maximum(every.min(axis=0), 0), atol=1e-9)
    np.testing.assert_allclose(high[0], every.max(axis=0), atol=1e-9)


def test_each_query_over_its_own_keys():
    attention, value, visible = causal(9, 3)
    low, high = intervals(attention, value, visible)
    assert (low[~visible] == 0).all()
    assert (high[~visible] == 0).all()
    assert (low[:4] == attention[:4]).all()  # up to d_head + 1 visible keys nothing is free
    assert (high[:4] == attention[:4]).all()
    assert ((high - low)[5:][visible[5:]] > 1e-6).any()
    for query in range(9):
        alone = row_intervals(attention[query, : query + 1], reached_by(value[: query + 1]))
        np.testing.assert_allclose([low[query, : query + 1], high[query, : query + 1]], alone, atol=1e-12)


def test_hidden_keys_between_and_a_query_that_sees_nothing():
    weights, value = make(10, 2, 0)
    visible = np.ones((2, 12), dtype=bool)
    visible[0, [3, 7]] = False
    visible[1] = False
    attention, wide = np.zeros((2, 12)), np.full((12, 2), 1e3)
    attention[0, visible[0]], wide[visible[0]] = weights, value
    low, high = intervals(attention, wide, visible)
    alone = intervals(*everywhere(weights, value))
    np.testing.assert_allclose([low[0, visible[0]], high[0, visible[0]]], [alone[0][0], alone[1][0]], atol=1e-12)
    assert not np.any([low[1], high[1]])
    assert not sparse_map(attention, wide, visible)[1].any()
    assert not smallest_map(attention, wide, visible)[1].any()


def test_many_heads_in_groups(monkeypatch):
    made = [causal(11, 3, seed) for seed in range(6)]
    attention, value, visible = (np.stack(part).reshape(2, 3, *part[0].shape) for part in zip(*made, strict=True))
    want = [intervals(*one) for one in made]
    for numbers in (2**23, 1):
        monkeypatch.setattr(polytope, "_NUMBERS", numbers)
        low, high = intervals(attention, value, visible)
        assert low.shape == attention.shape
        np.testing.assert_allclose(low.reshape(6, 11, 11), [one[0] for one in want], atol=1e-12)
        np.testing.assert_allclose(high.reshape(6, 11, 11), [one[1] for one in want], atol=1e-12)


# --- one row ---


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 24), st.integers(1, 8), st.integers(0, 10**6), st.sampled_from([0.02, 0.5, 5.0]))
def test_both_ends_have_the_output(keys, width, seed, concentration):
    weights, value = make(keys, width, seed, concentration)
    row = RowPolytope(weights, reached_by(value))
    low, high = intervals(*everywhere(weights, value))
    for key in range(0, keys, 5):
        for place, end in zip((low, high), row.ends(key), strict=True):
            assert end[key] == pytest.approx(place[0, key], abs=2e-9)
            assert end.min() >= 0
            assert end.sum() == pytest.approx(1, abs=1e-9)
            assert np.abs(end @ value - weights @ value).max() <= 1e-9 * np.abs(value).max()


# --- sparse and small ---


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 24), st.integers(1, 8), st.integers(0, 10**6), st.sampled_from([0.02, 0.5, 5.0]))
def test_a_sparse_row_has_no_more_weights_than_the_rank(keys, width, seed, concentration):
    weights, value = make(keys, width, seed, concentration)
    sparse = sparse_map(*everywhere(weights, value))[0]
    assert (sparse > 0).sum() <= reached_by(value).shape[1]
    assert sparse.min() >= 0
    assert sparse @ value == pytest.approx(weights @ value, abs=1e-8)
    assert sparse @ weights >= weights @ weights - 1e-9


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 10**6), st.sampled_from([0.02, 0.5, 5.0]))
def test_the_smallest_row(keys, width, seed, concentration):
    weights, value = make(keys, width, seed, concentration)
    smallest = smallest_map(*everywhere(weights, value))[0]
    assert smallest.min() >= 0
    assert smallest.sum() == pytest.approx(1, abs=1e-8)
    assert smallest @ value == pytest.approx(weights @ value, abs=1e-8)
    others = [weights, sparse_map(*everywhere(weights, value))[0]]
    row = RowPolytope(weights, reached_by(value))
    others += [row.least(cost) for cost in np.random.default_rng(seed).normal(size=(3, keys))]
    for other in others:
        # smallest: every other point lies beyond the plane through it, of which it is the foot
        assert smallest @ (other - smallest) >= -1e-8
        assert smallest @ smallest <= other @ other + 1e-8


def test_where_the_projection_is_a_distribution_it_is_the_smallest_row():
    found = 0
    for seed in range(20):
        weights, value = make(8, 2, seed, 20.0)
        space = space_of(value)
        projected = space.reached @ (weights @ space.reached)
        if projected.min() >= 0:
            found += 1
            np.testing.assert_allclose(smallest_map(*everywhere(weights, value))[0], projected, atol=1e-9)
    assert found > 3


def test_the_smallest_row_of_a_corner_is_the_corner():
    weights, value = np.array([0.0, 0.0, 0.0, 1.0]), np.array([[0.0], [1.0], [2.0], [3.0]])
    assert smallest_map(*everywhere(weights, value))[0] == pytest.approx(weights, abs=1e-8)
    low, high = intervals(*everywhere(weights, value))
    np.testing.assert_allclose([low[0], high[0]], [weights, weights], atol=1e-9)


def test_a_smallest_row_that_is_not_found_says_so(monkeypatch):
    monkeypatch.setattr(polytope, "_ROUNDS", 1)
    weights, value = make(30, 6, 0, 0.05)
    with pytest.raises(ArithmeticError, match="smallest row over 30 keys was not found"):
        smallest_map(*everywhere(weights, value))
