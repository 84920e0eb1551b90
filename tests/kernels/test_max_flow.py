"""Maximum flow, compiled and by the reference, against networkx, one run per pair; on one thread and on two."""

from __future__ import annotations

from collections.abc import Iterator

import networkx
import numpy as np
import pytest
import torch

from effective_attention.kernels import blocking_flow, dinic, max_flow, max_flow_reference, threads
from effective_attention.kernels.max_flow import LayeredGraph


@pytest.fixture(params=[1, 2])
def thread_count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(threads, "_WORTH_SHARING", 0)  # small as these graphs are
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def oracle(capacity: np.ndarray, first: np.ndarray) -> np.ndarray:
    """(source, key) by networkx; node (0, k) is input token k."""
    graph = networkx.DiGraph()
    graph.add_nodes_from((level, node) for level in range(len(capacity) + 1) for node in range(capacity.shape[1]))
    for layer, query, key in zip(*np.nonzero(capacity), strict=True):
        graph.add_edge((layer + 1, query), (layer, key), capacity=capacity[layer, query, key])
    found = np.empty(first.shape)
    for source, row in enumerate(first):
        graph.add_node("source")
        graph.add_edges_from(("source", (len(capacity), key), {"capacity": row[key]}) for key in np.nonzero(row)[0])
        for key in range(len(row)):
            found[source, key] = networkx.maximum_flow_value(graph, "source", (0, key))
        graph.remove_node("source")
    return found


def graph(kind: str, layers: int, size: int, seed: int = 0) -> np.ndarray:
    """Not only stochastic matrices: the solver promises more."""
    random = np.random.default_rng([seed, layers, size])
    shape = (layers, size, size)
    weights = {
        "soft": np.exp(random.normal(size=shape)),
        "peaked": np.exp(5 * random.normal(size=shape)),
        "uniform": np.ones(shape),
        "sparse": random.random(shape) * (random.random(shape) < 0.35),
        "whole numbers": random.integers(0, 4, shape).astype(float),
    }[kind]
    if kind in ("soft", "peaked", "uniform"):
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return weights


Solver = LayeredGraph | max_flow_reference.LayeredGraph
SOLVERS: list[type[Solver]] = [LayeredGraph, max_flow_reference.LayeredGraph]
KINDS = ["soft", "peaked", "uniform", "sparse", "whole numbers"]


@pytest.mark.parametrize("residual", [0.0, 0.5])
@pytest.mark.parametrize("layers", [2, 3, 4, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_as_networkx(kind: str, layers: int, residual: float) -> None:
    weights = residual * np.eye(6) + (1 - residual) * graph(kind, layers, 6)
    want = oracle(weights[:-1], weights[-1])
    for solver in SOLVERS:
        got = solver(weights[:-1]).flow(weights[-1], layers - 1)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-9, err_msg=solver.__module__)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_agrees(kind: str) -> None:
    """On graphs that are too large for networkx."""
    weights = 0.3 * np.eye(18) + 0.7 * graph(kind, 7, 18)
    got, want = (solver(weights[:-1]).flow(weights[-1], 6) for solver in SOLVERS)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-9)


def test_the_reference_sees_edges_that_its_first_unit_is_too_coarse_for() -> None:
    """From 0 to 3: 1 over node 1, and 1e-10 over node 2, less than a unit of the first round."""
    capacity = np.zeros((4, 4))
    capacity[0, 1], capacity[1, 3] = 2.0, 1.0
    capacity[0, 2], capacity[2, 3] = 1e-10, 1.0
    got = max_flow_reference.pair_flow(capacity, 0, 3, 1e-14)
    assert got == pytest.approx(1 + 1e-10, rel=0, abs=1e-13)


def test_the_reference_keeps_its_tolerance_where_many_edges_are_too_small() -> None:
    """From 0 to 1: 1 at once, and 100 ways over a node each that the first round rounds to nothing."""
    capacity = np.zeros((102, 102))
    capacity[0, 1] = 1.0
    capacity[0, 2:] = capacity[2:, 1] = 0.9 * 2.0**-29
    got = max_flow_reference.pair_flow(capacity, 0, 1, 1e-8)
    assert got == pytest.approx(1 + 90 * 2.0**-29, rel=0, abs=1e-8)


def test_the_reference_takes_back_what_it_has_rounded() -> None:
    """The value is that of the smallest cut, found among all of them, for capacities of very different size."""
    random = np.random.default_rng(0)
    for _ in range(20):
        capacity = random.random((6, 6)) * 10.0 ** random.integers(-12, 1, (6, 6)) * (random.random((6, 6)) < 0.7)
        np.fill_diagonal(capacity, 0)
        sides = [[0, *(1 + node for node in range(4) if number >> node & 1)] for number in range(16)]
        cuts = [capacity[np.ix_(side, [node for node in range(6) if node not in side])].sum() for side in sides]
        assert max_flow_reference.pair_flow(capacity, 0, 5, 1e-15) == pytest.approx(min(cuts), rel=1e-9, abs=1e-14)


def nothing_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every pair really be solved."""
    monkeypatch.setattr(LayeredGraph, "_reached", lambda self, part, level, amounts: np.zeros(part.flows.shape))


def record_shared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return a list that gets, of every check of shared amounts, what pairs have at least, and their bounds."""
    found, reached = [], LayeredGraph._reached

    def recorded(self, part, level, amounts):  # type: ignore[no-untyped-def]
        found.append((reached(self, part, level, amounts), part.flows.copy()))
        return found[-1][0]

    monkeypatch.setattr(LayeredGraph, "_reached", recorded)
    return found


@pytest.mark.parametrize("seed", range(25))
def test_further_phases_are_needed_and_right(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sparse graphs whose bound is out of reach; without the shared amounts, so that each pair is really solved."""
    nothing_shared(monkeypatch)
    weights = graph("sparse", 6, 7, seed)
    got = LayeredGraph(weights[:-1]).flow(weights[-1], 5)
    np.testing.assert_allclose(got, oracle(weights[:-1], weights[-1]), atol=1e-9)


def test_some_of_those_stay_below_their_bound() -> None:
    below = 0
    for seed in range(25):
        weights = graph("sparse", 6, 7, seed)
        network = LayeredGraph(weights[:-1])
        bounds = max_flow._Part(network, slice(5), weights[-1].copy(), network.into, 1.0).flows
        flow = network.flow(weights[-1], 5)
        assert (flow <= bounds + 1e-12).all()
        below += int((flow < bounds - 1e-6).sum())
    assert below > 50


@pytest.mark.parametrize("noise", [0.0, 1e-7])
@pytest.mark.parametrize("kind", ["soft", "peaked", "sparse"])
def test_shared_amounts_change_nothing(kind: str, noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rows that sum to exactly the same, and with rows that only nearly do, as float32 leaves them."""
    weights = 0.5 * np.eye(24) + 0.5 * graph(kind, 8, 24)
    weights *= 1 + noise * np.random.default_rng(0).normal(size=(8, 24, 1))
    network, shared = LayeredGraph(weights[:-1]), record_shared(monkeypatch)
    got = network.flow(weights[-1], 7)
    for reached, _ in shared:
        assert (reached <= got + 1e-12).all()
    if kind == "soft":
        assert (shared[0][0] >= shared[0][1] - 1e-12).mean() > 0.4  # else this test says nothing
    nothing_shared(monkeypatch)
    np.testing.assert_allclose(got, network.flow(weights[-1], 7), atol=1e-11)


def test_the_same_amounts_at_every_node_settle_pairs_where_attention_gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    """At one token, in the layers between the lowest and the highest, as that of trained models does.

    Then most of what sources give away is at that node, and most sinks can draw only a part of it.
    """
    weights = graph("soft", 6, 16)
    weights[1:-1] = 0.4 * weights[1:-1] + 0.6 * np.eye(16)[0]
    weights = 0.5 * np.eye(16) + 0.5 * weights
    shared = record_shared(monkeypatch)
    LayeredGraph(weights[:-1]).flow(weights[-1], 5)
    given_away, even = ((reached >= bounds - 1e-12).mean() for reached, bounds in shared)
    assert given_away < 0.2
    assert even > 0.3


def test_loops_that_solve_a_pair_count_no_references() -> None:
    """Numba says so in the code it makes: an atomic step at each call, which takes longer than all the rest."""
    for one in (dinic.pair_flow, blocking_flow.send_down, dinic._send, dinic._search):
        assert one.targetoptions["_nrt"] is False


def test_amounts_that_a_source_cannot_deliver_settle_nothing() -> None:
    """Two halves that never meet: each source reaches its own half only."""
    half = graph("uniform", 6, 12)
    weights = np.zeros((6, 24, 24))
    weights[:, :12, :12] = weights[:, 12:, 12:] = half
    got = LayeredGraph(weights[:-1]).flow(weights[-1], 5)
    np.testing.assert_allclose(got, np.kron(np.eye(2), np.ones((12, 12))), atol=1e-12)


def test_one_thread_and_two(thread_count: int) -> None:
    weights = 0.5 * np.eye(20) + 0.5 * graph("peaked", 5, 20)
    got = LayeredGraph(weights[:-1]).flow(weights[-1], 4)
    torch.set_num_threads(1)
    # Not to the bit: the compiler may order a bound's sum otherwise where the loop around it is shared.
    np.testing.assert_allclose(got, LayeredGraph(weights[:-1]).flow(weights[-1], 4), rtol=0, atol=1e-14)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_tolerance_is_relative_to_the_capacities(unit: float, solver: type[Solver]) -> None:
    weights = graph("sparse", 5, 6, seed=3)
    got = solver(unit * weights[:-1]).flow(unit * weights[-1], 4)
    np.testing.assert_allclose(got / unit, oracle(weights[:-1], weights[-1]), atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_capacities_are_left_alone_and_solving_twice_gives_the_same(solver: type[Solver]) -> None:
    weights = graph("sparse", 5, 6, seed=1)
    before = weights.copy()
    network = solver(weights[:-1])
    first = network.flow(weights[-1], 4)
    assert np.array_equal(first, network.flow(weights[-1], 4))
    assert np.array_equal(weights, before)


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_layer_below_and_no_source(solver: type[Solver]) -> None:
    network = solver(graph("soft", 3, 4))
    first = graph("soft", 1, 4)[0]
    assert np.array_equal(network.flow(first, 0), first)
    assert network.flow(first[:0], 3).shape == (0, 4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_fewer_layers_than_the_graph_has(solver: type[Solver]) -> None:
    weights = graph("sparse", 5, 6, seed=2)
    np.testing.assert_allclose(solver(weights).flow(weights[2], 2), oracle(weights[:2], weights[2]), atol=1e-9)
