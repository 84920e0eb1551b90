"""What is explained, and its derivatives against finite differences in double precision."""

from dataclasses import replace

import pytest
import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask

from effective_attention.attention.interface import attention_function, eager_function
from effective_attention.attention.trace import trace
from effective_attention.attributions.request import AttributionRequest

NUDGE: dict = {}
STEP = 1e-5


def nudged_attention(module, query, key, value, attention_mask, **kwargs):
    """Add a small matrix to the model's weights in one layer."""
    _, weights = eager_function(module)(module, query, key, value, attention_mask, **kwargs)
    if NUDGE["calls"] == NUDGE["layer"]:
        weights = weights + NUDGE["by"]
    NUDGE["calls"] += 1
    values = value.repeat_interleave(weights.shape[1] // value.shape[1], dim=1)
    return torch.einsum("bhqk,bhkd->bqhd", weights, values).contiguous(), weights


AttentionInterface.register("nudged_attention", nudged_attention)
AttentionMaskInterface.register("nudged_attention", eager_mask)


@torch.no_grad()
def evidence(case):
    return case.request.evidence(case.model(**case.trace.inputs).logits)


def moved_embeddings(case, by):
    hook = case.model.get_input_embeddings().register_forward_hook(lambda _module, _inputs, output: output + by)
    try:
        return evidence(case)
    finally:
        hook.remove()


def moved_attention(case, layer, by):
    NUDGE.update(calls=0, layer=layer, by=by)
    with attention_function(case.model, "nudged_attention"):
        return evidence(case)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "gpt2"])
def test_gradient_of_the_embeddings(make_case, family):
    case = make_case(family, double=True)
    gradients = case.request.gradients
    for seed in range(3):
        direction = torch.randn(
            gradients.embedding.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        slope = (moved_embeddings(case, STEP * direction) - moved_embeddings(case, -STEP * direction)) / (2 * STEP)
        torch.testing.assert_close((gradients.embedding * direction).sum(dim=(1, 2)), slope, rtol=1e-5, atol=1e-7)
    embeddings = case.model.get_input_embeddings()(case.trace.inputs["input_ids"]).detach()
    assert torch.equal(gradients.embeddings, embeddings)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "gpt2"])
@pytest.mark.parametrize("layer", [0, 1])
def test_gradient_of_the_attention(make_case, family, layer):
    case = make_case(family, double=True)
    gradient = case.request.gradients.attention[layer]
    assert float(gradient.abs().max()) > 1e-3
    for seed in range(3):
        direction = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        ahead, behind = (moved_attention(case, layer, step * direction) for step in (STEP, -STEP))
        torch.testing.assert_close(
            (gradient * direction).sum(dim=(1, 2, 3)), (ahead - behind) / (2 * STEP), rtol=1e-5, atol=1e-7
        )


def test_grouped_queries_have_a_gradient_per_head(make_case):
    case = make_case("llama")
    for layer, gradient in zip(case.trace.layers, case.request.gradients.attention, strict=True):
        assert gradient.shape == layer.attention.shape == (3, 4, 9, 9)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_evidence_is_the_log_odds_of_the_probability(make_case, classes):
    request = make_case(classes=classes).request
    logits = torch.randn(3, classes, dtype=torch.float64, requires_grad=True)
    probability = request.probability(logits)
    torch.testing.assert_close(probability, torch.stack([logits.softmax(-1)[row, row % classes] for row in range(3)]))
    torch.testing.assert_close(request.evidence(logits), (probability / (1 - probability)).log())
    (of_evidence,) = torch.autograd.grad(request.evidence(logits).sum(), logits)
    (of_probability,) = torch.autograd.grad(probability.sum(), logits)
    torch.testing.assert_close(of_evidence * (probability * (1 - probability)).detach()[:, None], of_probability)


def test_evidence_does_not_saturate(make_case):
    request = make_case().request
    logits = torch.tensor([[200.0, -200.0]] * 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(request.evidence(logits).sum(), logits)
    assert gradient.tolist() == [[1, -1], [-1, 1], [1, -1]]


def test_rows_of_other_examples(make_case):
    request = make_case(classes=3).request
    logits = torch.randn(4, 3)
    examples = torch.tensor([2, 2, 0, 1])
    torch.testing.assert_close(
        request.probability(logits, examples), logits.double().softmax(-1)[torch.arange(4), request.target[examples]]
    )


def test_the_score_of_a_regression_is_explained_itself(make_case):
    case = make_case(classes=1, double=True)
    odd = replace(case.request, target=torch.tensor([7, 7, 7]))  # ignored
    assert torch.equal(odd.probability(case.trace.logits), case.trace.logits[:, 0])
    assert torch.equal(odd.evidence(case.trace.logits), case.trace.logits[:, 0])
    torch.testing.assert_close(odd.gradients.embedding, case.request.gradients.embedding)


def test_bad_questions_are_refused(make_case):
    seen = make_case().trace
    with pytest.raises(ValueError, match="target must be one class for each of 3 examples, got shape \\(2,\\)"):
        AttributionRequest(seen, torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="target must be from 0 to 1, got 0 to 2"):
        AttributionRequest(seen, torch.tensor([0, 1, 2]))
    body = trace(seen.model.bert, {name: seen.inputs[name] for name in ("input_ids", "attention_mask")})
    with pytest.raises(ValueError, match="BertModel gave shape \\(3, 9, 16\\); use a classifier"):
        AttributionRequest(body, torch.tensor([0, 1, 0]))
