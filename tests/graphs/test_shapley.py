"""The flow of sets of tokens against networkx, Shapley values against all orders, and what decreasing returns imply."""

from itertools import permutations

import networkx
import pytest
import torch

from effective_attention.graphs.flow import attention_flow
from effective_attention.graphs.rollout import attention_rollout
from effective_attention.graphs.shapley import coalition_flows, maximum_flow_range, shapley_values


def stochastic(layers: int, size: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(layers, size, size, generator=generator, dtype=torch.float64).mul(2).softmax(dim=-1)


def joint_flow(attention: torch.Tensor, row: int, members: list[int]) -> float:
    """Compute the flow of a set by networkx, from a source above the set's tokens."""
    layers, size, _ = attention.shape
    graph = networkx.DiGraph()
    for layer in range(layers):
        for query in range(size):
            for key in range(size):
                weight = 0.5 * (query == key) + 0.5 * attention[layer, query, key].item()
                graph.add_edge((layer, key), (layer + 1, query), capacity=weight)
    for token in members:
        graph.add_edge("all", (0, token))
    return float(networkx.maximum_flow_value(graph, "all", (layers, row)))


@pytest.mark.parametrize("layers", [1, 3])
def test_every_set_as_networkx(layers):
    attention = stochastic(layers, 4, seed=layers)
    worth = coalition_flows(attention, row=2)
    assert worth[0] == 0
    for coalition in range(1, 16):
        members = [token for token in range(4) if coalition >> token & 1]
        assert worth[coalition].item() == pytest.approx(joint_flow(attention, 2, members), abs=1e-9)


def test_a_token_alone_sends_its_attention_flow():
    attention = stochastic(4, 5, seed=0)
    worth = coalition_flows(attention, row=1)
    torch.testing.assert_close(worth[2 ** torch.arange(5)], attention_flow(attention)[-1, 1])


def test_shapley_values_are_the_mean_over_all_orders():
    worth = coalition_flows(stochastic(3, 5, seed=1), row=0)
    gains = torch.zeros(5, dtype=torch.float64)
    orders = list(permutations(range(5)))
    for order in orders:
        joined = 0
        for token in order:
            gains[token] += worth[joined | 1 << token] - worth[joined]
            joined |= 1 << token
    torch.testing.assert_close(shapley_values(worth), gains / len(orders), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_they_share_the_whole_flow_and_none_gets_more_than_its_own(seed):
    worth = coalition_flows(stochastic(3, 6, seed), row=0)
    values = shapley_values(worth)
    least, most = maximum_flow_range(worth)
    assert worth[-1].item() == pytest.approx(1)
    assert values.sum().item() == pytest.approx(1)
    assert (values <= most + 1e-9).all()
    assert (values >= least - 1e-9).all()
    assert (most - values).max() > 1e-3  # flows compete


def test_one_layer_has_nothing_to_compete_for():
    attention = stochastic(1, 5, seed=3)
    values = shapley_values(coalition_flows(attention, row=4))
    torch.testing.assert_close(values, attention_flow(attention)[0, 4], rtol=0, atol=1e-9)


def test_rollout_lies_in_the_range_of_maximum_flows():
    attention = stochastic(4, 5, seed=7)
    least, most = maximum_flow_range(coalition_flows(attention, row=0))
    rollout = attention_rollout(attention)[-1, 0]
    assert ((rollout >= least - 1e-9) & (rollout <= most + 1e-9)).all()


def test_a_null_player_gets_nothing():
    attention = torch.zeros(2, 3, 3, dtype=torch.float64)
    attention[..., 0] = 1  # nobody looks at the last token, and it is not the one that is asked
    values = shapley_values(coalition_flows(attention, row=1))
    assert values[2].item() == pytest.approx(0, abs=1e-12)
    assert values[:2].sum().item() == pytest.approx(1)


def test_too_many_tokens_and_a_wrong_table():
    with pytest.raises(ValueError, match=r"at most 12 tokens, .*got 13"):
        coalition_flows(torch.ones(1, 13, 13) / 13, row=0)
    with pytest.raises(ValueError, match=r"an entry for each set of players.*got 6"):
        shapley_values(torch.zeros(6))
