"""Autocast: what we compute inside it is what we compute outside it, to the last bit."""

import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from effective_attention import decompose, trace, use_attention
from effective_attention.attention.call import head_outputs
from effective_attention.attention.precision import without_autocast

HALF = (torch.bfloat16, torch.float16)


def head(query: int, key: int, width: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 2, query, key, generator=generator)
    return scores.softmax(dim=-1), torch.randn(2, 2, key, width, generator=generator)


def test_autocast_is_off_inside_and_on_again_after() -> None:
    device = torch.device("cpu")
    with torch.autocast("cpu", torch.bfloat16):
        with without_autocast(device):
            assert not torch.is_autocast_enabled("cpu")
        assert torch.is_autocast_enabled("cpu")
    with without_autocast(device):
        assert not torch.is_autocast_enabled("cpu")
    with without_autocast(torch.device("meta")):  # which has none
        pass


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 6), st.sampled_from(HALF), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_the_split_is_the_same_inside_and_outside(
    query: int, key: int, width: int, dtype: torch.dtype, half_values: bool, padded: bool
) -> None:
    attention, value = head(query, key, width)
    value = value.to(dtype) if half_values else value  # as they come: weights float32, values as of a linear layer
    mask = torch.arange(key) < torch.tensor([[key], [max(1, key - 3)]])
    reading = "padded" if padded else "exact"
    outside = decompose(attention, value, mask, reading=reading)
    with torch.autocast("cpu", dtype):
        inside = decompose(attention, value, mask, reading=reading)
        changes = inside.output_change()
    assert torch.equal(inside.effective, outside.effective)
    assert torch.equal(inside.null, outside.null)
    assert torch.equal(inside.rank, outside.rank)
    assert torch.equal(changes, outside.output_change())


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_the_same_inside_and_outside(causal: bool) -> None:
    attention, value = head(7, 7, 3)
    mask = torch.ones(7, 7, dtype=torch.bool).tril() if causal else None
    found = []
    for enabled in (False, True):
        inputs = attention.clone().requires_grad_(), value.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            effective = decompose(*inputs, mask).effective
        found.append(torch.autograd.grad(effective.square().sum(), inputs))
    for outside, inside in zip(*found, strict=True):
        assert torch.equal(outside, inside)


@pytest.mark.parametrize("dtype", HALF)
def test_outputs_are_those_of_the_same_inputs_but_for_one_rounding(dtype: torch.dtype) -> None:
    attention, value = head(9, 20, 4)
    value = value.to(dtype)
    with torch.autocast("cpu", dtype):
        output = head_outputs(decompose(attention, value).effective, value)
    exact = (attention.double() @ value.double()).transpose(1, 2)
    assert output.dtype == dtype
    torch.testing.assert_close(output.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-5)


@pytest.fixture
def model() -> hf.PreTrainedModel:
    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
    )
    return hf.BertForSequenceClassification(config).eval()


INPUTS = {"input_ids": torch.arange(1, 25).view(2, 12), "attention_mask": torch.tensor([[1] * 12, [1] * 9 + [0] * 3])}


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("kind", ["standard", "effective", "affine", "padded"])
@pytest.mark.parametrize("with_gradients", [False, True])
def test_a_model_runs_with_every_attention(
    kind: str, dtype: torch.dtype, with_gradients: bool, model: hf.PreTrainedModel
) -> None:
    with torch.no_grad():
        expected = model(**INPUTS).logits
    with torch.set_grad_enabled(with_gradients), torch.autocast("cpu", dtype), use_attention(model, kind):
        logits = model(**INPUTS).logits
    if kind != "padded":
        torch.testing.assert_close(logits.float(), expected, atol=8 * torch.finfo(dtype).eps, rtol=0)
    if with_gradients:
        logits.float().sum().backward()
        assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("kind", ["standard", "effective", "affine", "padded"])
def test_a_model_of_half_precision_runs_with_every_attention(kind: str, model: hf.PreTrainedModel) -> None:
    model.bfloat16()
    with torch.no_grad(), use_attention(model, kind):
        assert model(**INPUTS).logits.dtype == torch.bfloat16


def test_a_trace_is_of_the_pass_that_was_run_and_its_split_is_exact(model: hf.PreTrainedModel) -> None:
    exact = trace(model, INPUTS)
    with torch.autocast("cpu", torch.bfloat16):
        traced = trace(model, INPUTS)
        layer = traced.layers[1]
        inside = layer.part("effective")
    assert layer.value.dtype == torch.bfloat16
    assert 1e-5 < (layer.attention - exact.layers[1].attention).abs().max() < 1e-2, "8 bits were the pass's"
    assert torch.equal(inside, decompose(layer.attention, layer.value, layer.visible).effective)
    change = layer.exact.output_change()
    assert float(change.max()) < 1e-5, "A V and the effective A V of what was traced are the same"
