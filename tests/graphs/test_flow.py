"""Flow by hand, against networkx, on random graphs and on those of a real model, and what must hold for any graph."""

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.graphs.conventions import trace_graph
from effective_attention.graphs.flow import attention_flow, flows, head_flow
from effective_attention.graphs.rollout import attention_rollout

TEXTS = ["Dogs bark.", "The keys to the cabinet are here.", "She said that he would not come."]


def stochastic(*shape: int, seed: int = 0, sharp: float = 2.0) -> torch.Tensor:
    return (
        torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        .mul(sharp)
        .softmax(dim=-1)
    )


def oracle(attention, residual: float = 0.5, top=None) -> np.ndarray:
    """Compute flow from the last layer by networkx, (query, key); ``top`` stands in for the last layer's matrix."""
    weights = [np.asarray(layer, dtype=float) for layer in attention]
    if top is not None:
        weights[-1] = np.asarray(top, dtype=float)
    size = len(weights[0])
    graph = networkx.DiGraph()
    for layer, matrix in enumerate(weights):
        for query in range(size):
            for key in range(size):
                capacity = residual * (query == key) + (1 - residual) * matrix[query, key]
                graph.add_edge((layer + 1, query), (layer, key), capacity=capacity)
    ends = [[(networkx.maximum_flow_value(graph, (len(weights), i), (0, j))) for j in range(size)] for i in range(size)]
    return np.array(ends)


def test_two_tokens_two_layers_by_hand():
    """Check two layers by hand: lower A = [[.75, .25], [.5, .5]], upper A = [[.6, .4], [.3, .7]].

    From 0 to 0: min(.6, .75) + min(.4, .5) = 1, and so on.
    """
    attention = torch.tensor([[[0.5, 0.5], [1.0, 0.0]], [[0.2, 0.8], [0.6, 0.4]]], dtype=torch.float64)
    want = [[[0.75, 0.25], [0.5, 0.5]], [[1.0, 0.65], [0.8, 0.75]]]
    torch.testing.assert_close(attention_flow(attention), torch.tensor(want, dtype=torch.float64))


@pytest.mark.parametrize("residual", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("sharp", [0.0, 1.0, 6.0])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_layer_as_networkx(size, sharp, residual):
    attention = stochastic(4, size, size, sharp=sharp)
    got = attention_flow(attention, residual=residual)
    for layer in range(4):
        np.testing.assert_allclose(got[layer], oracle(attention[: layer + 1], residual), atol=1e-9)


def test_a_zero_row_and_zero_weights():
    attention = stochastic(3, 5, 5)
    attention[torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(0)) < 0.5] = 0
    attention[:, 2] = 0
    got = attention_flow(attention)
    np.testing.assert_allclose(got[-1], oracle(attention), atol=1e-9)
    torch.testing.assert_close(got[2, 2], torch.tensor([0.0, 0.0, 0.5, 0.0, 0.0], dtype=torch.float64))


def test_nothing_at_all():
    assert attention_flow(torch.zeros(4, 3, 3), residual=0.0).abs().max() == 0


def test_rows_layers_and_start_choose_from_all():
    attention = stochastic(4, 5, 5)
    everything = attention_flow(attention)
    torch.testing.assert_close(attention_flow(attention, rows=[3, 0], layers=[2, -1]), everything[[2, 3]][:, [3, 0]])
    torch.testing.assert_close(attention_flow(attention, start=1), attention_flow(attention[1:]))
    torch.testing.assert_close(attention_flow(attention, start=2, layers=[2]), attention_flow(attention[2:3]))
    assert attention_flow(attention, rows=[]).shape == (4, 0, 5)


def test_arrays_and_float32_are_welcome():
    attention = stochastic(3, 4, 4).float()
    got = attention_flow(attention.numpy())
    assert got.dtype == torch.float64
    torch.testing.assert_close(got, attention_flow(attention.double()))


def test_each_head_on_top_of_all_heads_below():
    heads = stochastic(3, 2, 4, 4)
    got = head_flow(heads)
    assert got.shape == (3, 2, 4, 4)
    for layer in range(3):
        for head in range(2):
            want = oracle(heads.mean(dim=1)[: layer + 1], top=heads[layer, head])
            np.testing.assert_allclose(got[layer, head], want, atol=1e-9)
    below = stochastic(3, 4, 4, seed=1)
    want = oracle(below, top=heads[2, 1])[[1]]
    np.testing.assert_allclose(head_flow(heads, rows=[1], layers=[2], below=below)[0, 1], want, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 9), st.floats(0, 1), st.floats(0, 8), st.integers(0, 1000))
def test_any_graph(layers, size, residual, sharp, seed):
    """Check that rollout is a feasible flow, and no flow exceeds what leaves its source or enters its sink.

    Names of tokens do not matter.
    """
    attention = stochastic(layers, size, size, seed=seed, sharp=sharp)
    got = attention_flow(attention, residual=residual)
    into = residual + (1 - residual) * attention[0].sum(dim=0)
    assert (got >= attention_rollout(attention, residual=residual) - 1e-9).all()
    assert (got <= into.clamp_max(1) + 1e-9).all()
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    turned = attention_flow(attention[:, order][:, :, order], residual=residual)
    torch.testing.assert_close(turned, got[:, order][:, :, order], atol=1e-9, rtol=0)


def test_padding_changes_nothing():
    small = stochastic(4, 5, 5)
    padded = torch.zeros(2, 4, 8, 8, dtype=torch.float64)
    padded[0, :, 2:7, 2:7] = small
    padded[1] = stochastic(4, 8, 8, seed=1)
    mask = torch.ones(2, 8, dtype=torch.bool)
    mask[0] = torch.tensor([0, 0, 1, 1, 1, 1, 1, 0])
    got = flows(padded, mask, rows=[0, 3, 6], layers=[0, 3])
    want = attention_flow(small, rows=[1, 4], layers=[0, 3])
    torch.testing.assert_close(got[0, :, 1:, 2:7], want, atol=1e-12, rtol=0)
    assert got[0, :, 0].abs().max() == 0
    assert got[0, :, :, [0, 1, 7]].abs().max() == 0
    torch.testing.assert_close(got[1], attention_flow(padded[1], rows=[0, 3, 6], layers=[0, 3]))
    inside = attention_flow(padded[0])[:, 2:7, 2:7]  # the same without the mask: padding is not connected
    torch.testing.assert_close(inside, attention_flow(small), atol=1e-12, rtol=0)


def test_an_example_that_is_all_padding_has_no_flow():
    graphs = stochastic(1, 2, 3, 3)
    assert flows(graphs, torch.zeros(1, 3, dtype=torch.bool)).abs().max() == 0


@pytest.fixture(scope="module")
def real_trace(tokenizer):
    from effective_attention.attention.trace import trace
    from effective_attention.models.encoders import PretrainedEncoder

    model = PretrainedEncoder("minilm").classifier(2)
    return trace(model, dict(tokenizer(TEXTS, padding=True, return_tensors="pt")))


@pytest.mark.parametrize("attention", ["standard", "effective"])
def test_real_graphs_as_networkx(real_trace, attention):
    graphs = trace_graph(real_trace, attention)
    got = flows(graphs, real_trace.mask)
    for example, length in enumerate(real_trace.lengths.tolist()):
        graph = graphs[example, :, :length, :length]
        for layer in (2, 5) if example == 0 else (5,):
            np.testing.assert_allclose(got[example, layer, :length, :length], oracle(graph[: layer + 1]), atol=1e-6)


def test_wrong_input():
    good = stochastic(2, 3, 3)
    with pytest.raises(ValueError, match=r"must not be negative .* convention absolute or positive"):
        attention_flow(good - 0.5)
    with pytest.raises(ValueError, match=r"as many queries as keys, got shape \(2, 3, 2\)"):
        attention_flow(good[..., :2])
    with pytest.raises(ValueError, match=r"at least one layer and one token, got shape \(0, 3, 3\)"):
        attention_flow(good[:0])
    with pytest.raises(ValueError, match="attention must be finite"):
        attention_flow(good / 0)
    with pytest.raises(ValueError, match=r"residual must be from 0 to 1, got -0\.1"):
        attention_flow(good, residual=-0.1)
    with pytest.raises(ValueError, match=r"rows must be from 0 to 2, got \[3\]"):
        attention_flow(good, rows=[3])
    with pytest.raises(ValueError, match=r"layers must be from 1 to 1, got \[0\]"):
        attention_flow(good, layers=[0], start=1)
