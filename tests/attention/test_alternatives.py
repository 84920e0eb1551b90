"""Other rows with the same output: by hand, against every vertex of small polytopes, and what must hold for any row."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.attention.alternatives import (
    alternative_maps,
    bounds,
    climb,
    distance,
    distance_bound,
    furthest,
    furthest_proved,
    largest_step,
)
from effective_attention.attention.polytope import RowPolytope
from effective_attention.attention.row_space import space_of


def make(keys, width, seed, concentration=0.5):
    random = np.random.default_rng(seed)
    return random.dirichlet(np.full(keys, concentration)), random.normal(size=(keys, width))


def furthest_vertex(weights, value):
    """Find the true maximum: a convex function is largest at a vertex, with no more keys than [V, 1] has columns."""
    rows = np.column_stack([value, np.ones(len(value))])
    best = 0.0
    for keys in combinations(range(len(value)), rows.shape[1]):
        part = rows[list(keys)].T
        if np.linalg.matrix_rank(part) < len(keys):
            continue
        vertex = np.zeros(len(value))
        vertex[list(keys)] = np.linalg.solve(part, rows.T @ weights)
        if vertex.min() > -1e-12:
            best = max(best, float(distance(vertex, weights)))
    return best


# --- by hand ---


def test_three_keys_in_a_line():
    """Check values 0, 1, 2: weight can only go from the middle in equal parts to both ends, or back."""
    weights = np.array([0.2, 0.5, 0.3])
    value = np.array([[0.0], [1.0], [2.0]])
    space = space_of(value)
    assert space.freedom == 1
    for found in (largest_step(weights, space), furthest(weights, space, starts=1)):
        assert found == pytest.approx([0.45, 0, 0.55])  # 0.5 moves; the other way only 2 * 0.2 could
    assert distance_bound(weights, space) == pytest.approx(0.5)


def test_equal_values_can_be_exchanged():
    """Check two tokens with the same value: all weight of one can go to the other."""
    weights = np.array([0.7, 0.3])
    value = np.ones((2, 1))
    space = space_of(value)
    assert space.freedom == 1
    assert furthest(weights, space, starts=1) == pytest.approx([0, 1])
    assert distance_bound(weights, space) == pytest.approx(0.7)


@pytest.mark.parametrize("keys", [1, 2, 3])
def test_no_freedom(keys):
    weights, value = make(keys, 2, 0)
    space = space_of(value)
    assert space.freedom == 0
    assert furthest(weights, space, starts=3).tolist() == weights.tolist()
    assert distance_bound(weights, space) == 0


def test_the_size_of_values_does_not_matter():
    _, value = make(9, 3, 0)
    for scale in (1e-12, 1.0, 1e12):
        assert space_of(value * scale).freedom == 5
    assert space_of(np.zeros((9, 3))).freedom == 8


def test_one_hot_attention_may_be_confined():
    """Check the paper's extreme case: no other distribution has the value of a corner."""
    value = np.array([[0.0], [1.0], [2.0], [3.0]])
    weights = np.array([0.0, 0.0, 0.0, 1.0])
    space = space_of(value)
    assert space.freedom == 2
    assert distance(furthest(weights, space, starts=4), weights) == pytest.approx(0, abs=1e-8)
    assert distance_bound(weights, space) == pytest.approx(0, abs=1e-7)


# --- against every vertex ---


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("keys", "width"), [(4, 1), (5, 2), (6, 2), (6, 1)])
def test_between_what_is_found_and_the_bound_lies_the_maximum(keys, width, seed):
    weights, value = make(keys, width, seed)
    space = space_of(value)
    truth = furthest_vertex(weights, value)
    found = float(distance(furthest(weights, space, starts=24), weights))
    assert found <= truth + 1e-7
    assert found >= 0.85 * truth
    assert truth <= distance_bound(weights, space) + 1e-7


def test_the_maximum_is_found_where_there_are_as_many_starts_as_sets():
    found, truth = [], []
    for seed in range(10):
        weights, value = make(6, 2, seed)
        found.append(float(distance(furthest(weights, space_of(value), starts=40), weights)))
        truth.append(furthest_vertex(weights, value))
    assert found == pytest.approx(truth, abs=1e-7)


def test_one_dimension_of_freedom_leaves_nothing_to_search():
    for seed in range(10):
        weights, value = make(6, 4, seed)
        space = space_of(value)
        truth = furthest_vertex(weights, value)
        assert float(distance(largest_step(weights, space), weights)) == pytest.approx(truth, abs=1e-9)
        assert distance_bound(weights, space) == pytest.approx(truth, abs=1e-7)


@pytest.mark.parametrize(("keys", "width"), [(4, 1), (6, 2), (7, 2)])
def test_the_maximum_is_proved(keys, width):
    for seed in range(4):
        weights, value = make(keys, width, seed)
        proof = furthest_proved(weights, space_of(value), seconds=20.0)
        truth = furthest_vertex(weights, value)
        assert proof.is_largest
        assert [proof.distance, proof.bound] == pytest.approx([truth, truth], abs=2e-6)
        assert distance(proof.weights, weights) == pytest.approx(proof.distance)
        assert proof.weights @ value == pytest.approx(weights @ value, abs=1e-8)


def test_a_proof_without_time_is_a_bound():
    weights, value = make(40, 8, 0)
    space = space_of(value)
    proof = furthest_proved(weights, space, seconds=1e-3)
    assert proof.distance >= float(distance(furthest(weights, space, starts=4), weights))
    assert proof.distance <= proof.bound <= 1


def test_nothing_to_prove_without_freedom():
    weights, value = make(3, 2, 0)
    proof = furthest_proved(weights, space_of(value), seconds=1.0)
    assert proof.is_largest
    assert proof.bound == 0


# --- what holds for any row ---


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 24), st.integers(1, 8), st.integers(0, 10**6), st.sampled_from([0.02, 0.5, 5.0]))
def test_distributions_with_the_same_output(keys, width, seed, concentration):
    weights, value = make(keys, width, seed, concentration)
    space = space_of(value)
    step = largest_step(weights, space)
    program = furthest(weights, space, starts=2)
    for other in (step, program):
        assert other.min() >= 0
        assert other.sum() == pytest.approx(1, abs=2e-9)
        assert np.abs((other - weights) @ value).max() <= 1e-9 * np.abs(value).max() * 2
    assert distance(program, weights) >= distance(step, weights)


@settings(max_examples=25, deadline=None)
@given(st.integers(6, 24), st.integers(1, 5), st.integers(0, 10**6))
def test_every_round_goes_further(keys, width, seed):
    weights, value = make(keys, width, seed)
    losing = np.random.default_rng(seed).random(keys) < 0.5
    space = space_of(value)
    polytope = RowPolytope(weights, space.reached)
    distances = [float(distance(found, weights)) for found in climb(polytope, space, losing)]
    assert len(distances) >= 1
    assert (np.diff(distances) > 0).all()


def test_more_starts_and_more_rounds_find_no_less():
    for seed in range(6):
        weights, value = make(20, 5, seed)
        space = space_of(value)
        reached = [float(distance(furthest(weights, space, starts=starts), weights)) for starts in (1, 3, 8)]
        assert reached == sorted(reached)
        light = float(distance(furthest(weights, space, starts=1, rounds=1), weights))
        assert light <= reached[0]


# --- whole maps ---


def causal_map(size, width, seed=0):
    random = np.random.default_rng(seed)
    visible = np.tril(np.ones((size, size), dtype=bool))
    attention = random.random((size, size)) * visible
    return attention / attention.sum(axis=1, keepdims=True), random.normal(size=(size, width)), visible


def test_each_query_over_its_own_keys():
    attention, value, visible = causal_map(9, 3)
    made = alternative_maps(attention, value, visible, starts=2)
    for maps in (made.step, made.program):
        assert (maps[~visible] == 0).all()
        assert maps @ value == pytest.approx(attention @ value, abs=1e-9)
        assert maps.sum(axis=1) == pytest.approx(np.ones(9), abs=1e-9)
    moved = distance(made.program, attention)
    assert (moved[:4] == 0).all()  # up to d_head + 1 visible keys there is no freedom
    assert (moved[4:] > 1e-3).all()
    assert made.freedom == 9 - 4
    limits = list(bounds(attention, value, visible))
    assert limits[:4] == [0, 0, 0, 0]
    assert (moved <= np.array(limits) + 1e-7).all()


def test_hidden_keys_take_no_part():
    attention, value, _ = causal_map(12, 3)
    attention = np.repeat(attention[-1:], 12, axis=0)
    visible = np.ones((12, 12), dtype=bool)
    visible[:, 8:] = False
    attention = attention * visible
    attention /= attention.sum(axis=1, keepdims=True)
    made = alternative_maps(attention, value, visible, starts=1)
    short = alternative_maps(attention[:8, :8], value[:8], visible[:8, :8], starts=1)
    assert made.program[:8, :8] == pytest.approx(short.program)
    assert (made.program[:, 8:] == 0).all()
    assert made.freedom == 8 - 4
