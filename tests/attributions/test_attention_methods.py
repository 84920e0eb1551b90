"""Methods that read a row of the attention, and random scores, against loops over single texts."""

from functools import reduce

import networkx as nx
import numpy as np
import pytest
import torch

from effective_attention.attributions.flow import flow
from effective_attention.attributions.gradients import gradient_attention, gradient_graph, gradient_rollout
from effective_attention.attributions.norms import norm, norm_rollout, norm_weights
from effective_attention.attributions.random_scores import random_scores
from effective_attention.attributions.raw import raw
from effective_attention.attributions.rollout import rollout

ROW = 1
RESIDUAL = 0.3
LENGTHS = (9, 6, 4)


def layers_of(case, row, length, attention):
    """Build the graph of each layer of one text: absolute weights, averaged over heads, rows that sum to 1."""
    for layer in case.trace.layers:
        weights = layer.part(attention)[row, :, :length, :length].double().abs().mean(dim=0).numpy()
        yield weights / weights.sum(axis=1, keepdims=True)


def shares(weights):
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def product(layers):
    """Multiply the layers from the top down to the input."""
    steps = [(1 - RESIDUAL) * weights + RESIDUAL * np.eye(len(weights)) for weights in layers]
    return reduce(lambda below, step: step @ below, steps)


def max_flow(layers, key, row=ROW):
    """Compute the flow from a row's token in the top layer to one input token."""
    graph = nx.DiGraph()
    for level, weights in enumerate(layers, start=1):
        capacity = (1 - RESIDUAL) * weights + RESIDUAL * np.eye(len(weights))
        for query, from_query in enumerate(capacity):
            for below, value in enumerate(from_query):
                graph.add_edge((level, query), (level - 1, below), capacity=float(value))
    return nx.maximum_flow_value(graph, (len(layers), row), (0, key))


@pytest.mark.parametrize("attention", ["standard", "effective"])
def test_raw_rollout_and_flow(make_case, attention):
    case = make_case("bert")
    work = case.work(row=ROW, residual=RESIDUAL)
    found = {method: method(work, attention).numpy() for method in (raw, rollout, flow)}
    for row, length in enumerate(LENGTHS):
        graphs = list(layers_of(case, row, length, attention))
        for top in range(2):
            below = graphs[: top + 1]
            expected = {raw: graphs[top][ROW], rollout: product(below)[ROW]}
            expected[flow] = np.array([max_flow(below, key) for key in range(length)])
            for method, values in expected.items():
                np.testing.assert_allclose(found[method][row, top, :length], values, rtol=1e-4, atol=1e-6)
                assert not found[method][row, top, length:].any()


@pytest.mark.parametrize("attention", ["standard", "effective"])
def test_the_largest_of_all_queries(make_case, attention):
    case = make_case("bert")
    work = case.work(residual=RESIDUAL, query="max")
    found = {method: method(work, attention).numpy() for method in (raw, rollout, flow)}
    for row, length in enumerate(LENGTHS):
        graphs = list(layers_of(case, row, length, attention))
        for top in range(2):
            below = graphs[: top + 1]
            flows = np.array([[max_flow(below, key, query) for key in range(length)] for query in range(length)])
            expected = {raw: graphs[top], rollout: product(below), flow: shares(flows)}
            for method, values in expected.items():
                np.testing.assert_allclose(found[method][row, top, :length], values.max(axis=0), rtol=1e-4, atol=1e-6)
                assert not found[method][row, top, length:].any()


@pytest.mark.parametrize("attention", ["standard", "effective"])
def test_gradients_and_norms_and_their_rollout(make_case, attention):
    case = make_case("bert")
    work = case.work(row=ROW, residual=RESIDUAL)
    norms = norm_weights(case.trace, attention).per_layer.double()
    pairs = [(gradient_attention, gradient_rollout, gradient_graph(work, attention)), (norm, norm_rollout, norms)]
    for plain, rolled, weights in pairs:
        torch.testing.assert_close(plain(work, attention), weights[:, :, ROW])
        for row, length in enumerate(LENGTHS):
            graphs = [shares(layer) for layer in weights[row, :, :length, :length].numpy()]
            expected = product(graphs)[ROW]
            np.testing.assert_allclose(rolled(work, attention)[row, 1, :length], expected, rtol=1e-6, atol=1e-9)


def test_a_row_that_is_padding_scores_nothing(make_case):
    work = make_case("bert").work(row=5)  # the last text has four tokens
    for method in (raw, rollout, flow, gradient_attention, gradient_rollout, norm, norm_rollout):
        scores = method(work, "standard")
        assert bool(scores[0].any())
        assert not scores[2].any()


def test_random_scores_are_the_examples_own(make_case):
    case = make_case("bert")
    scores = random_scores(case.work(seed=1))[case.trace.mask]
    assert float(scores.min()) > 0
    assert float(scores.max()) < 1
    assert len(set(scores.tolist())) == sum(LENGTHS)
    other = random_scores(case.work(seed=2))[case.trace.mask]
    assert not set(other.tolist()) & set(scores.tolist())
    expected = torch.rand(6, generator=torch.Generator().manual_seed(1_000_003 + 41), dtype=torch.float64)
    assert torch.equal(scores[9:15], expected)
