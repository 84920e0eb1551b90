"""Flow with a barrier: the conditions of its optimum, its distance from the maximum, and graphs worked out by hand."""

import networkx as nx
import pytest
import torch
from scipy.optimize import minimize

from effective_attention.graphs.barrier_flow import barrier_flow


def maximum(capacities):
    """Compute the maximum flow from all nodes on top to all at the bottom."""
    graph = nx.DiGraph()
    layers, nodes = capacities.shape[:2]
    for node in range(nodes):
        graph.add_edge("source", (layers, node))
        graph.add_edge((0, node), "target")
    for layer, weights in enumerate(capacities.tolist()):
        for query, row in enumerate(weights):
            for key, capacity in enumerate(row):
                graph.add_edge((layer + 1, query), (layer, key), capacity=capacity)
    return nx.maximum_flow_value(graph, "source", "target")


def random_graph(seed, layers, nodes):
    generator = torch.Generator().manual_seed(seed)
    capacities = torch.rand(layers, nodes, nodes, generator=generator, dtype=torch.float64)
    return capacities * (torch.rand(layers, nodes, nodes, generator=generator) < 0.7)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("layers", "nodes"), [(1, 4), (2, 5), (4, 6)])
def test_it_is_a_flow_near_the_maximum(seed, layers, nodes):
    capacities = random_graph(seed, layers, nodes) * 1e-4
    least = float(capacities.sum(dim=(-2, -1)).min())
    found = barrier_flow(capacities, short=1e-3)
    assert bool((found >= 0).all())
    assert bool((found <= capacities).all())
    for above, below in zip(found[1:], found[:-1], strict=True):
        torch.testing.assert_close(above.sum(dim=0), below.sum(dim=1), rtol=0, atol=1e-7 * least)
    best = maximum(capacities)
    assert best - 1e-3 * least <= float(found[0].sum()) <= best * (1 + 1e-9)


@pytest.mark.parametrize("short", [1.0, 0.1])
def test_no_other_flow_is_better(short):
    """Let scipy maximise F + mu * barrier itself, over the flows of two layers of two nodes."""
    capacities = torch.tensor([[[1.0, 0.5], [0.3, 2.0]], [[0.7, 0.2], [0.4, 0.9]]], dtype=torch.float64)
    least = float(capacities.sum(dim=(-2, -1)).min())
    mu = short * least / (2 * 8)
    found = barrier_flow(capacities, short=short)

    def cost(flow):
        flows = torch.tensor(flow).view(2, 2, 2)
        if bool((flows <= 0).any()) or bool((flows >= capacities).any()):
            return 1e9
        return -float(flows[0].sum() + mu * (flows.log() + (capacities - flows).log()).sum())

    def lost(flow):
        flows = torch.tensor(flow).view(2, 2, 2)
        return (flows[1].sum(dim=0) - flows[0].sum(dim=1)).numpy()

    start = (capacities / 10).flatten()
    start[4:] = torch.tensor([0.07, 0.11, 0.08, 0.12])
    options = {"ftol": 1e-14, "maxiter": 1000}
    best = minimize(cost, start.numpy(), method="SLSQP", constraints={"type": "eq", "fun": lost}, options=options)
    assert cost(found.flatten().numpy()) <= best.fun + 1e-6
    torch.testing.assert_close(found.flatten(), torch.tensor(best.x), rtol=0, atol=1e-3)


def test_equal_ways_carry_the_same():
    found = barrier_flow(torch.ones(3, 4, 4) / 4)
    torch.testing.assert_close(found, found[:1, :1, :1].expand(3, 4, 4), rtol=1e-6, atol=1e-9)


def test_dead_ends_carry_nothing():
    capacities = torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]])  # node 1 leads nowhere
    found = barrier_flow(capacities)
    assert not found[1, :, 1].any()
    assert float(found[0].sum()) == pytest.approx(1, abs=1e-2)
    assert not barrier_flow(torch.zeros(2, 3, 3)).any()


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"short must be above 0, got 0\.0"):
        barrier_flow(torch.ones(1, 2, 2), short=0.0)
    with pytest.raises(ValueError, match="capacities must be finite and not negative"):
        barrier_flow(-torch.ones(1, 2, 2))
