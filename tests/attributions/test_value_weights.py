"""Weights that know their values, against loops over heads and pairs."""

import pytest
import torch

from effective_attention.attributions.value_weights import contribution_weights, projections, vatp

ROW = 1
FAMILIES = ("bert", "roberta", "distilbert", "electra", "llama")


@pytest.mark.parametrize("attention", ["standard", "effective", "affine"])
@pytest.mark.parametrize("family", FAMILIES)
def test_equal_to_a_loop_over_heads_and_keys(make_case, family, attention):
    case = make_case(family)
    work = case.work(row=ROW)
    lengths, shares = vatp(work, attention), contribution_weights(work, attention)
    for text, size in enumerate((9, 6, 4)):
        for number, layer in enumerate(case.trace.layers):
            weights, value = layer.part(attention)[text, :, ROW].double(), layer.value[text].double()
            for key in range(size):
                expected = [0.0, 0.0]
                for head in range(4):
                    output = sum(weights[head, other] * value[head, other] for other in range(9))
                    brought = weights[head, key] * value[head, key]
                    expected[0] += float(brought.abs().sum()) / 4
                    expected[1] += float(brought @ output / (output @ output)) / 4
                assert float(lengths[text, number, key]) == pytest.approx(expected[0], rel=1e-4, abs=1e-6)
                assert float(shares[text, number, key]) == pytest.approx(expected[1], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("attention", ["standard", "effective"])
def test_the_shares_of_an_output_sum_to_one(make_case, attention):
    case = make_case("bert")
    shares = contribution_weights(case.work(row=ROW), attention)
    torch.testing.assert_close(shares.sum(dim=-1), torch.ones(3, 2, dtype=torch.float64), rtol=0, atol=1e-5)


def test_a_head_without_output_brings_nothing(make_case):
    (layer, _) = make_case("bert").trace.layers
    found = projections(layer, torch.zeros_like(layer.weights))
    assert not found.any()
