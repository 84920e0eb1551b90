"""Graphs of a tiny model with real texts, against loops over single examples."""

import pytest
import torch

from effective_attention.graphs import conventions
from effective_attention.graphs.conventions import signed_to_weights, trace_graph, trace_heads, with_residual


def test_signs_by_hand():
    weights = torch.tensor([[-0.2, 0.6], [0.0, 0.0], [-0.5, 0.0]])
    torch.testing.assert_close(signed_to_weights(weights), torch.tensor([[0.25, 0.75], [0.0, 0.0], [1.0, 0.0]]))
    torch.testing.assert_close(
        signed_to_weights(weights, "positive"), torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    )


def test_residual_by_hand():
    got = with_residual(torch.tensor([[0.0, 1.0], [0.5, 0.5]]), 0.25)
    torch.testing.assert_close(got, torch.tensor([[0.25, 0.75], [0.375, 0.625]]))


def test_standard_attention_is_only_averaged(singles):
    graph = trace_graph(singles[0], "standard")
    want = torch.stack([layer.attention.double().mean(dim=1) for layer in singles[0].layers], dim=1)
    assert torch.equal(graph, want)
    assert torch.equal(graph, trace_graph(singles[0], "standard", "positive"))


@pytest.mark.parametrize("convention", ["absolute", "positive"])
def test_heads_of_opposite_sign_do_not_cancel(singles, convention):
    trace = singles[0]
    graph = trace_graph(trace, "effective", convention)
    for number, layer in enumerate(trace.layers):
        effective = layer.part("effective")[0].double()
        for query in range(effective.shape[1]):
            total = sum(
                head[query].abs() if convention == "absolute" else head[query].clamp(min=0) for head in effective
            )
            torch.testing.assert_close(graph[0, number, query], total / total.sum())
    assert (
        torch.stack([layer.part("effective") for layer in trace.layers]) < -1e-3
    ).any()  # else this test says nothing


@pytest.mark.parametrize("attention", ["standard", "effective"])
def test_padding_is_not_in_the_graph(subject, singles, attention):
    batch = subject.trace([0, 1, 2, 3])
    graphs, heads = trace_graph(batch, attention), trace_heads(batch, attention)
    assert len(set(batch.lengths.tolist())) > 1
    for example, length in enumerate(batch.lengths.tolist()):
        want = trace_graph(singles[example], attention)[0]
        torch.testing.assert_close(graphs[example, :, :length, :length], want, atol=2e-6, rtol=1e-4)
        torch.testing.assert_close(graphs[example].sum(dim=-1)[:, :length], torch.ones(len(want), length).double())
        for graph in (graphs, heads):
            assert graph[example, ..., length:, :].count_nonzero() == 0
            assert graph[example, ..., :, length:].count_nonzero() == 0


def test_each_head_sums_to_one(singles):
    heads = trace_heads(singles[0], "effective")
    torch.testing.assert_close(heads.sum(dim=-1), torch.ones_like(heads[..., 0]))
    torch.testing.assert_close(
        heads[0, 1, 0], signed_to_weights(singles[0].layers[1].part("effective")[0, 0].double(), "absolute")
    )
    standard = trace_heads(singles[0], "standard")
    assert torch.equal(standard.mean(dim=2), trace_graph(singles[0], "standard"))


def test_the_trace_is_left_alone(singles):
    before = [layer.part("effective").clone() for layer in singles[1].layers]
    trace_graph(singles[1], "effective")
    assert all(
        torch.equal(layer.part("effective"), kept) for layer, kept in zip(singles[1].layers, before, strict=True)
    )


def test_wrong_words(singles):
    plain_unsigned, plain_heads = (
        getattr(function, "__wrapped__", function) for function in (conventions.unsigned, conventions._heads)
    )
    with pytest.raises(ValueError, match="convention must be absolute or positive, got 'squared'"):
        plain_unsigned(torch.ones(2, 2), "squared")
    with pytest.raises(ValueError, match="attention must be one of standard, effective, null, affine, got 'raw'"):
        plain_heads(singles[0], 0, "raw", "absolute")
