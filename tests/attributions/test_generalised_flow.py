"""Generalised attention flow against the maximum flow of each text's graph without padding."""

import networkx as nx
import pytest
import torch

from effective_attention.attributions.generalised_flow import generalised_flow
from effective_attention.attributions.gradients import gradient_graph
from effective_attention.graphs.barrier_flow import SHORT, barrier_flow


@pytest.mark.parametrize("attention", ["standard", "effective"])
def test_each_texts_flow_is_nearly_the_maximum(make_case, attention):
    case = make_case("bert")
    graph = gradient_graph(case.work(), attention)
    found = generalised_flow(case.work(), attention)
    for row, length in enumerate((9, 6, 4)):
        lower, upper = graph[row, :, :length, :length]
        assert not found[row, :, length:].any()
        torch.testing.assert_close(found[row, 0, :length], barrier_flow(lower[None])[0].sum(dim=0))
        best = maximum(lower, upper)
        least = min(float(lower.sum()), float(upper.sum()))
        assert best - SHORT * least <= float(found[row, 1].sum()) <= best * (1 + 1e-9)


def maximum(lower, upper):
    edges = nx.DiGraph()
    for place in range(len(lower)):
        edges.add_edge("source", ("top", place))
        edges.add_edge(("bottom", place), "target")
        for other in range(len(lower)):
            edges.add_edge(("top", place), ("middle", other), capacity=float(upper[place, other]))
            edges.add_edge(("middle", place), ("bottom", other), capacity=float(lower[place, other]))
    return nx.maximum_flow_value(edges, "source", "target")
