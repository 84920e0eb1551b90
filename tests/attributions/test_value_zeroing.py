"""Value zeroing against layers run one token at a time, with the value vectors zeroed by hand."""

import pytest
import torch
from torch import nn

from effective_attention.attention.hook import attention_hook
from effective_attention.attributions.layer_modules import layer_modules
from effective_attention.attributions.value_zeroing import (
    value_zeroing,
    value_zeroing_graph,
    value_zeroing_rollout,
)
from helpers.cases import build_case

LAYERS = {
    "bert": lambda model: list(model.bert.encoder.layer),
    "roberta": lambda model: list(model.roberta.encoder.layer),
    "distilbert": lambda model: list(model.distilbert.transformer.layer),
    "electra": lambda model: list(model.electra.encoder.layer),
    "gpt2": lambda model: list(model.transformer.h),
    "llama": lambda model: list(model.model.layers),
}
LENGTHS = (9, 6, 4)


def changes(case, row, layer, attention):
    """Return c_ij of one layer and text: the model runs once a token, and nothing changes before that layer."""
    alone = case.alone(row)
    (size,) = alone.trace.lengths.tolist()
    known = alone.trace.layers[layer]
    weights, value = known.part(attention)[0], known.value[0]
    module = LAYERS[type_of(case)](case.model)[layer]

    def output(token):
        outputs = []

        def handle(call):
            heads = torch.zeros(1, size, value.shape[0], value.shape[2])
            if call.number != layer:
                return call.eager()
            for head in range(value.shape[0]):
                for key in range(size):
                    if key != token:
                        heads[0, :, head] += weights[head, :, key, None] * value[head, key]
            return heads, None

        hook = module.register_forward_hook(lambda _module, _given, gave: outputs.append(gave))
        with torch.no_grad(), attention_hook(case.model, handle, evaluation=True):
            case.model(**alone.trace.inputs)
        hook.remove()
        (found,) = outputs
        return (found if isinstance(found, torch.Tensor) else found[0])[0].double()

    whole = output(None)
    found = torch.stack([1 - nn.functional.cosine_similarity(output(token), whole) for token in range(size)], dim=-1)
    return found / found.sum(dim=-1, keepdim=True)


def type_of(case):
    return case.model.config.model_type


@pytest.mark.parametrize("family", LAYERS)
def test_the_layers_are_found(make_case, family):
    case = make_case(family)
    assert layer_modules(case.trace) == LAYERS[family](case.model)


@pytest.mark.parametrize("attention", ["standard", "effective", "affine"])
@pytest.mark.parametrize("family", LAYERS)
def test_equal_to_one_run_a_token(make_case, family, attention):
    case = make_case(family)
    found = value_zeroing_graph(case.trace, attention, rows=4)
    for row, length in enumerate(LENGTHS):
        for layer in range(2):
            expected = changes(case, row, layer, attention)
            torch.testing.assert_close(found[row, layer, :length, :length], expected, rtol=1e-3, atol=1e-5)
            assert not found[row, layer, length:].any()
            assert not found[row, layer, :, length:].any()


def test_the_rollout_is_a_product_without_residual(make_case):
    case = make_case("bert")
    work = case.work(row=2, residual=0.3)
    graph = value_zeroing_graph(case.trace, "effective")
    torch.testing.assert_close(value_zeroing(work, "effective"), graph[:, :, 2])
    product = graph[:, 1] @ graph[:, 0]
    torch.testing.assert_close(value_zeroing_rollout(work, "effective")[:, 1], product[:, 2])
    torch.testing.assert_close(product.sum(dim=-1), case.trace.mask.double())


def test_a_model_whose_layers_cannot_be_run_alone_is_refused():
    with pytest.raises(ValueError, match=r"XLNetFor.* has no module that is one layer .* \(layers \[0, 1\]\)"):
        value_zeroing_graph(build_case("xlnet").trace)
