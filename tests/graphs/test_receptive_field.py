"""Rollout and flow of a causal graph, divided by what its mask alone brings."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from effective_attention.graphs.flow import attention_flow
from effective_attention.graphs.receptive_field import even_graph, over_even
from effective_attention.graphs.rollout import attention_rollout
from helpers.cases import build_case


def test_by_hand() -> None:
    """Two layers, two tokens, residual 0.5; the second token of each layer gives 0.8 to the first."""
    attention = torch.tensor([[[1.0, 0.0], [0.8, 0.2]]] * 2)
    even = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]] * 2)
    # with the residual: rows (1, 0) and (0.4, 0.6); even: (1, 0) and (0.25, 0.75)
    rollout = attention_rollout(attention)[1, 1]
    assert rollout.tolist() == pytest.approx([0.4 + 0.6 * 0.4, 0.6 * 0.6])
    by_mask = attention_rollout(even)[1, 1]
    assert by_mask.tolist() == pytest.approx([0.25 + 0.75 * 0.25, 0.75 * 0.75])
    lift = [0.64 / 0.4375, 0.36 / 0.5625]
    expected = [value / sum(lift) for value in lift]
    assert over_even(rollout, by_mask).tolist() == pytest.approx(expected)
    # flow: to the first token 0.4 goes straight, 0.6 to the second, of which 0.4 can go on; to the second 0.6
    flow = attention_flow(attention, rows=[1])[1, 0]
    assert flow.tolist() == pytest.approx([0.8, 0.6])
    by_mask = attention_flow(even, rows=[1])[1, 0]
    assert by_mask.tolist() == pytest.approx([0.5, 0.75])
    assert over_even(flow, by_mask).tolist() == pytest.approx([1.6 / 2.4, 0.8 / 2.4])


@pytest.mark.parametrize("measure", [attention_rollout, attention_flow])
def test_even_attention_has_equal_shares(measure: Any) -> None:
    seen = torch.ones(5, 5).tril()
    seen[4, 0] = 0  # a window
    even = (seen / seen.sum(dim=-1, keepdim=True)).expand(3, 5, 5).double()
    found = measure(even)
    assert float(found[2, 4, 0]) > 0  # through other tokens
    shares = over_even(found, measure(even))
    reached = found > 0
    assert torch.allclose(shares, reached.double() / reached.sum(dim=-1, keepdim=True))


def test_nothing_is_left_of_nothing() -> None:
    assert over_even(torch.zeros(2), torch.zeros(2)).tolist() == [0, 0]
    assert over_even(torch.tensor([0.5, 0.0]), torch.tensor([0.25, 0.75])).tolist() == [1, 0]


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_the_graph_of_a_batch(family: str) -> None:
    trace = build_case(family, (4, 2)).trace
    graph = even_graph(trace)
    assert graph.shape == (2, len(trace.layers), 4, 4)
    first = [[1, 0, 0, 0], [1 / 2, 1 / 2, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [1 / 4] * 4]
    second = [[1, 0, 0, 0], [1 / 2, 1 / 2, 0, 0], [0] * 4, [0] * 4]
    if family == "bert":
        first, second = [[1 / 4] * 4] * 4, [[1 / 2, 1 / 2, 0, 0]] * 2 + [[0] * 4] * 2
    expected = torch.tensor([first, second], dtype=torch.float64)
    assert torch.allclose(graph, expected[:, None].expand_as(graph))
    bare = replace(trace, layers=tuple(replace(layer, visible=None) for layer in trace.layers))
    assert bool((even_graph(bare)[0] == 0.25).all())
