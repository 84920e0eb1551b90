"""Norm-based attention against vectors made one by one, with projections named by hand."""

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from effective_attention.attributions.norms import norm_weights, output_projections, vector_norms

PROJECTIONS = {
    "bert": lambda model: [layer.attention.output.dense for layer in model.bert.encoder.layer],
    "roberta": lambda model: [layer.attention.output.dense for layer in model.roberta.encoder.layer],
    "distilbert": lambda model: [layer.attention.out_lin for layer in model.distilbert.transformer.layer],
    "electra": lambda model: [layer.attention.output.dense for layer in model.electra.encoder.layer],
    "gpt2": lambda model: [layer.attn.c_proj for layer in model.transformer.h],
    "llama": lambda model: [layer.self_attn.o_proj for layer in model.model.layers],
}


def vectors(layer, projection, attention):
    """Return the vectors alpha_ij f_h(x_j) themselves, (batch, head, query, key, width)."""
    weight = projection.weight if isinstance(projection, Conv1D) else projection.weight.T
    alpha = layer.part(attention)
    value = layer.value
    batch, heads, keys, d_head = value.shape
    found = torch.zeros(batch, heads, keys, keys, weight.shape[1])
    for head in range(heads):
        block = weight[head * d_head : (head + 1) * d_head]
        for query in range(keys):
            for key in range(keys):
                found[:, head, query, key] = alpha[:, head, query, key, None] * (value[:, head, key] @ block)
    return found.detach()


@pytest.mark.parametrize("family", PROJECTIONS)
def test_the_output_projection_is_found(make_case, family):
    case = make_case(family)
    assert output_projections(case.trace) == PROJECTIONS[family](case.model)


@pytest.mark.parametrize("attention", ["standard", "effective"])
@pytest.mark.parametrize("family", PROJECTIONS)
def test_equal_to_the_vectors_norms(make_case, family, attention):
    case = make_case(family)
    found = norm_weights(case.trace, attention)
    assert found.per_head.shape == (3, 2, 4, 9, 9)
    assert found.per_layer.shape == (3, 2, 9, 9)
    real = case.trace.mask[:, :, None] & case.trace.mask[:, None, :]
    for number, projection in enumerate(PROJECTIONS[family](case.model)):
        expected = vectors(case.trace.layers[number], projection, attention)
        per_head = expected.norm(dim=-1) * real[:, None]
        per_layer = expected.sum(dim=1).norm(dim=-1) * real
        torch.testing.assert_close(found.per_head[:, number], per_head, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.per_layer[:, number], per_layer, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("attention", ["standard", "effective"])
@pytest.mark.parametrize("family", PROJECTIONS)
def test_the_vectors_and_the_bias_are_the_blocks_output(make_case, family, attention):
    """Check that what the oracle sums is what the model computes, so that the norms are of the right vectors."""
    case = make_case(family)
    outputs = []
    projections = PROJECTIONS[family](case.model)
    hooks = [one.register_forward_hook(lambda _module, _inputs, output: outputs.append(output)) for one in projections]
    with torch.no_grad():
        case.model(**case.trace.inputs)
    for hook in hooks:
        hook.remove()
    for layer, projection, output in zip(case.trace.layers, projections, outputs, strict=True):
        total = vectors(layer, projection, attention).sum(dim=(1, 3))
        total = total if projection.bias is None else total + projection.bias.detach()
        torch.testing.assert_close(total[case.trace.mask], output[case.trace.mask], rtol=1e-3, atol=1e-4)


def test_heads_that_cancel_leave_nothing():
    weights = torch.ones(2, 3, 3)
    value = torch.randn(1, 3, 4).repeat(2, 1, 1)
    block = torch.randn(1, 4, 5)
    per_head, per_layer = vector_norms(weights, value, torch.cat([block, -block]))
    assert float(per_head.min()) > 0
    assert float(per_layer.max()) < 1e-6


def test_by_hand():
    """Check two heads of width 1 and one key: vectors 2 * 3 * (1, 0) and -1 * 4 * (0, 1)."""
    weights = torch.tensor([[[2.0]], [[-1.0]]])
    value = torch.tensor([[[3.0]], [[4.0]]])
    per_head, per_layer = vector_norms(weights, value, torch.eye(2)[:, None])
    assert per_head.flatten().tolist() == [6, 4]
    assert float(per_layer) == pytest.approx(52**0.5)


def test_a_model_without_an_output_projection_is_refused(make_case):
    case = make_case("bert")
    case.model.bert.encoder.layer[1].attention.output.dense = nn.Identity()
    with pytest.raises(ValueError, match=r"BertForSequenceClassification hands .* no linear map \(layers \[1\]\)"):
        norm_weights(case.trace)
