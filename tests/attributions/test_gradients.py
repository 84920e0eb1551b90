"""Input gradients against captum, gradient-weighted attention against a loop."""

import pytest
import torch
from captum.attr import LayerGradientXActivation

from effective_attention.attributions.gradients import gradient_graph, gradient_x_input, input_gradient, relevance

FAMILIES = ("bert", "roberta", "distilbert", "electra", "gpt2", "llama")


def by_captum(case, *, times_input):
    """Let captum explain the log-odds of two classes, written out here: logit of the target minus the other."""
    names = [name for name in case.trace.inputs if name != "input_ids"]

    def output(ids, *others):
        logits = case.model(input_ids=ids, **dict(zip(names, others, strict=True))).logits
        rows = torch.arange(len(logits))
        return logits[rows, case.request.target] - logits[rows, 1 - case.request.target]

    method = LayerGradientXActivation(output, case.model.get_input_embeddings(), multiply_by_inputs=times_input)
    others = tuple(case.trace.inputs[name] for name in names)
    return method.attribute(case.trace.inputs["input_ids"], additional_forward_args=others).detach()


@pytest.mark.parametrize("family", FAMILIES)
def test_input_gradients_are_captums(make_case, family):
    case = make_case(family)
    expected = by_captum(case, times_input=False).norm(dim=-1)
    torch.testing.assert_close(input_gradient(case.work()), expected, rtol=1e-3, atol=1e-5)
    assert float(expected[case.trace.mask].min()) >= 0
    assert not input_gradient(case.work())[~case.trace.mask].any()


@pytest.mark.parametrize("family", FAMILIES)
def test_gradient_times_input_is_captums_and_signed(make_case, family):
    case = make_case(family)
    found = gradient_x_input(case.work())
    torch.testing.assert_close(found, by_captum(case, times_input=True).sum(dim=-1), rtol=1e-3, atol=1e-5)
    assert bool((found > 0).any())
    assert bool((found < 0).any())


@pytest.mark.parametrize("attention", ["standard", "effective"])
def test_gradient_weighted_attention_in_a_loop(make_case, attention):
    case = make_case("bert")
    found = gradient_graph(case.work(), attention)
    assert found.shape == (3, 2, 9, 9)
    for layer in range(2):
        weights = case.trace.layers[layer].part(attention)
        gradient = case.request.gradients.attention[layer]
        for row, length in enumerate((9, 6, 4)):
            for query in range(9):
                for key in range(9):
                    product = [
                        float(weights[row, head, query, key] * gradient[row, head, query, key]) for head in range(4)
                    ]
                    expected = sum(max(one, 0) for one in product) / 4 if max(query, key) < length else 0
                    assert float(found[row, layer, query, key]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_effective_attention_moves_evidence_among_keys_but_keeps_each_rows_total(make_case, family):
    case = make_case(family, (12, 8))  # longer than a head is wide, so that there is a null space
    for layer, gradient in zip(case.trace.layers, case.request.gradients.attention, strict=True):
        standard, effective = (
            layer.part(part) * gradient * case.trace.mask[:, None, :, None] for part in ("standard", "effective")
        )
        torch.testing.assert_close(standard.sum(dim=-1), effective.sum(dim=-1), rtol=1e-3, atol=1e-4)
    gap = gradient_graph(case.work(), "standard") - gradient_graph(case.work(), "effective")
    assert float(gap.abs().max()) > 1e-3


def test_one_backward_pass_serves_all(make_case):
    case = make_case("bert")
    work = case.work()
    with case.runs() as runs:
        input_gradient(work)
        gradient_x_input(work)
        gradient_graph(work, "standard")
        gradient_graph(work, "effective")
    assert len(runs) == 1


@pytest.mark.parametrize("attention", ["standard", "effective"])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_relevance_is_the_sum_over_all_ways_through_the_layers(make_case, family, attention):
    """Check two layers by hand: a token stays where it is, or goes through the one, the other or both."""
    case = make_case(family)
    lower, upper = gradient_graph(case.work(), attention).unbind(dim=1)
    for row in (0, 3):
        found = relevance(case.work(row=row), attention)
        for text, length in enumerate((9, 6, 4)):
            for key in range(length):
                first = (row == key) + float(lower[text, row, key])
                through = sum(float(upper[text, row, middle] * lower[text, middle, key]) for middle in range(length))
                assert float(found[text, 0, key]) == pytest.approx(first)
                assert float(found[text, 1, key]) == pytest.approx(first + float(upper[text, row, key]) + through)
            assert not found[text, :, length:].any()
