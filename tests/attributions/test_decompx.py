"""Decomposed logits: they add up to the logits, and are those of a loop over tokens with BERT's parts named by hand."""

import pytest
import torch
from torch import nn

from effective_attention.attributions.decompx import check_parts, decomposed_logits, decompx
from helpers.cases import ENCODERS

LENGTHS = (9, 6, 4)


@pytest.mark.parametrize("attention", ["standard", "effective", "affine"])
@pytest.mark.parametrize("family", ENCODERS)
def test_nothing_is_lost(make_case, family, attention):
    """Check effective rows too, which need not sum to 1, with texts longer than a head is wide."""
    case = make_case(family, double=True, lengths=(9, 6, 4))
    found = decomposed_logits(case.trace, attention)
    assert found.shape == (3, 2, 9, 2)
    torch.testing.assert_close(found[:, -1].sum(dim=1), case.trace.logits.detach(), rtol=1e-6, atol=1e-8)
    assert not found[2, :, 4:].any()


def shared_out(vectors, bias):
    sizes = [abs(float(vector @ bias)) for vector in vectors]
    return [vector + size / (sum(sizes) + 1e-12) * bias for vector, size in zip(vectors, sizes, strict=True)]


def linear(vectors, module):
    return shared_out([module.weight @ vector for vector in vectors], module.bias)


def normed(vectors, norm):
    whole = sum(vectors)
    spread = (whole.var(unbiased=False) + norm.eps).sqrt()
    return shared_out([norm.weight * (vector - vector.mean()) / spread for vector in vectors], norm.bias)


def activated(vectors, function):
    whole = sum(vectors)
    return [vector * function(whole) / (whole + 1e-12) for vector in vectors]


def by_hand(case, row, attention):
    """Carry every token's summands through BERT, one query, middle token and head at a time."""
    model, trace, size = case.model, case.trace, LENGTHS[row]
    zero = torch.zeros(16, dtype=torch.float64)
    for number, layer in enumerate(model.bert.encoder.layer):
        alpha = trace.layers[number].part(attention)[row]
        value, output = layer.attention.self.value, layer.attention.output
        above = []
        for query in range(size):
            if number == 0:
                vectors = [trace.hidden[0][row, key] if key == query else zero for key in range(size)]
            else:
                vectors = list(states[query])  # noqa: F821
            bias = output.dense.bias
            for head in range(4):
                rows = slice(4 * head, 4 * head + 4)
                block = output.dense.weight[:, rows]
                for middle in range(size):
                    weight = alpha[head, query, middle]
                    if number == 0:
                        brought = block @ (value.weight[rows] @ trace.hidden[0][row, middle] + value.bias[rows])
                        vectors[middle] = vectors[middle] + weight * brought
                        continue
                    bias = bias + weight * (block @ value.bias[rows])
                    for key in range(size):
                        brought = block @ (value.weight[rows] @ states[middle][key])  # noqa: F821
                        vectors[key] = vectors[key] + weight * brought
            vectors = normed(shared_out(vectors, bias), output.LayerNorm)
            inside = activated(linear(vectors, layer.intermediate.dense), nn.functional.gelu)
            further = linear(inside, layer.output.dense)
            vectors = [one + other for one, other in zip(vectors, further, strict=True)]
            above.append(normed(vectors, layer.output.LayerNorm))
        states = above
    pooled = activated(linear(states[0], model.bert.pooler.dense), torch.tanh)
    return torch.stack(linear(pooled, model.classifier))


@pytest.mark.parametrize("attention", ["standard", "effective"])
def test_equal_to_a_loop_over_tokens(make_case, attention):
    case = make_case("bert", double=True)
    found = decomposed_logits(case.trace, attention)
    for row in (1, 2):
        with torch.no_grad():
            expected = by_hand(case, row, attention)
        torch.testing.assert_close(found[row, -1, : LENGTHS[row]], expected, rtol=1e-6, atol=1e-8)


def test_a_lower_layer_is_read_as_if_the_model_ended_there(make_case):
    case = make_case("bert", double=True)
    found = decomposed_logits(case.trace)
    model = case.model
    with torch.no_grad():
        expected = model.classifier(model.bert.pooler(case.trace.hidden[1]))
    torch.testing.assert_close(found[:, 0].sum(dim=1), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_the_targets_logit_is_explained(make_case, classes):
    case = make_case("roberta", classes=classes)
    scores = decompx(case.work(), "standard")
    target = case.request.target if classes > 1 else torch.zeros(3, dtype=torch.long)
    logits = case.trace.logits[torch.arange(3), target].double()
    torch.testing.assert_close(scores[:, -1].sum(dim=-1), logits, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "reason"),
    [("gpt2", "normalises what a layer reads"), ("llama", "normalises what a layer reads"), ("xlnet", "no linear map")],
)
def test_other_models_are_refused(make_case, family, reason):
    with pytest.raises(ValueError, match=reason):
        check_parts(make_case(family).trace)


def test_a_head_of_another_kind_is_refused(make_case):
    case = make_case("bert")
    case.model.classifier = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2))
    changed = case.part([0, 1, 2], torch.ones(9, dtype=torch.bool))
    with pytest.raises(ValueError, match="has no head of one or two linear maps"):
        check_parts(changed.trace)
