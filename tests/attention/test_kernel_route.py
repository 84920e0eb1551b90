"""Models run with effective attention by the fast kernel: the same weights, outputs and gradients as without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from effective_attention import decompose, trace, use_attention
from effective_attention.attention import plain, variants
from effective_attention.attention.factors import Factors
from effective_attention.attention.intervals import causal_intervals
from effective_attention.attention.kernel_route import factors_of
from effective_attention.attention.readings import Space

SIZE: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
}
LENGTH = 40
FAMILIES = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**SIZE)),
    "gpt2": lambda: hf.GPT2Model(hf.GPT2Config(vocab_size=60, n_embd=16, n_layer=2, n_head=4)),
    "llama": lambda: hf.LlamaModel(hf.LlamaConfig(**SIZE, num_key_value_heads=2)),
    "mistral": lambda: hf.MistralModel(hf.MistralConfig(**SIZE, num_key_value_heads=1, sliding_window=16)),
    "modernbert": lambda: hf.ModernBertModel(
        hf.ModernBertConfig(**SIZE, layer_types=["sliding_attention", "full_attention"], local_attention=20,
                            pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
    ),
}  # fmt: skip


def build(family: str) -> hf.PreTrainedModel:
    torch.manual_seed(0)
    model = FAMILIES[family]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6 if parameter.ndim > 1 else 1)
    return model


def batch(padding: str) -> dict[str, Tensor]:
    ids = torch.randint(3, 60, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    if padding == "none":
        return {"input_ids": ids}
    mask = (torch.arange(LENGTH) < torch.tensor([[LENGTH], [33], [25]])).long()
    mask = mask if padding == "right" else mask.flip(1)
    return {"input_ids": ids * mask, "attention_mask": mask}


@contextmanager
def counting() -> Iterator[list[Factors | None]]:
    """Record what the fast road found for each call that it was tried on."""
    found: list[Factors | None] = []

    def spy(*args: Any) -> Factors | None:
        found.append(factors_of(*args))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants, "factors_of", spy)
        yield found


@pytest.mark.parametrize("padding", ["none", "right", "left"])
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_weights_and_output(family: str, padding: str) -> None:
    model = build(family)
    inputs = batch(padding)
    with counting() as found, use_attention(model, "effective") as swap:
        effective = model(**inputs, output_attentions=True)
    assert any(one is not None for one in found)
    with use_attention(model, "standard"):
        standard = model(**inputs).last_hidden_state
    assert swap.null_space_share > 0.9
    real = inputs["attention_mask"].bool() if "attention_mask" in inputs else torch.ones(3, LENGTH, dtype=torch.bool)
    torch.testing.assert_close(effective.last_hidden_state[real], standard[real], atol=1e-4, rtol=1e-4)
    for layer, weights in zip(trace(model, inputs).layers, effective.attentions, strict=True):
        expected = decompose(layer.attention, layer.value, layer.visible).effective
        torch.testing.assert_close(weights, expected, atol=1e-5, rtol=0)
        if layer.visible is not None:
            assert not weights.masked_select(~layer.visible.expand_as(weights)).any()


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_without_weights_only_the_factors_are_made(family: str) -> None:
    model = build(family)
    inputs = batch("right")
    with use_attention(model, "effective"):
        whole = model(**inputs, output_attentions=True)
        factors = model(**inputs)
    assert factors.get("attentions") is None
    torch.testing.assert_close(factors.last_hidden_state, whole.last_hidden_state, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("keys", [200, 257, 384, 512, 600])
def test_causal_calls_are_cut_into_pieces_where_that_is_quicker(keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check output and gradients with grouped queries against the kernel's own causal form."""
    generator = torch.Generator().manual_seed(keys)
    query = torch.randn(2, 4, keys, 8, generator=generator, requires_grad=True)
    key, value = (torch.randn(2, 2, keys, 8, generator=generator, requires_grad=True) for _ in range(2))
    hidden = torch.full((keys, keys), torch.finfo(torch.float32).min).triu(1)[None, None]
    seen = torch.ones(2, 1, keys, dtype=torch.bool)
    call = plain.Plain(query, key, value, 0.3, hidden, causal_intervals(seen, keys), seen, causal=True)
    kernel, asked = plain.scaled_dot_product_attention, []

    def spy(*parts: Tensor, **options: Any) -> Tensor:
        asked.append((parts[0].shape[2], parts[1].shape[2]))
        return kernel(*parts, **options)

    expected = kernel(query, key, value, is_causal=True, scale=0.3, enable_gqa=True)
    monkeypatch.setattr(plain, "scaled_dot_product_attention", spy)
    found = call.output()
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)
    weight = torch.randn(found.shape, generator=generator)
    gradients = (torch.autograd.grad((out * weight).sum(), (query, key, value)) for out in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-5)
    assert asked == {
        257: [(128, 128), (128, 256), (1, 257)],
        384: [(128, 128), (128, 256), (128, 384)],
        512: [(128, 128), (128, 256), (128, 384), (128, 512)],
    }.get(keys, [(keys, keys)])


@torch.no_grad()
def test_weights_may_be_asked_for_in_the_config() -> None:
    model = build("bert")
    model.set_attn_implementation("eager")  # transformers takes the option with no other
    model.config.output_attentions = True
    with use_attention(model, "effective"):
        assert model(**batch("none")).attentions[0].shape == (3, 4, LENGTH, LENGTH)


@torch.no_grad()
def test_what_a_layer_hands_on_comes_from_the_factors() -> None:
    """Not from the kernel: else testing under effective attention would test nothing."""
    model = build("bert")
    inputs = batch("none")
    with use_attention(model, "effective"):
        before = model(**inputs).last_hidden_state

    def halved(*args: Any) -> Factors | None:
        found = factors_of(*args)
        assert found is not None
        found.output.mul_(0.5)
        return found

    with pytest.MonkeyPatch.context() as patch, use_attention(model, "effective"):
        patch.setattr(variants, "factors_of", halved)
        assert not torch.allclose(model(**inputs).last_hidden_state, before, atol=1e-3)


@pytest.mark.parametrize(("family", "padding"), [("bert", "left"), ("gpt2", "right"), ("llama", "none")])
def test_gradients_are_those_of_the_model(family: str, padding: str) -> None:
    model = build(family)
    inputs = batch(padding)
    direction = torch.randn(3, LENGTH, 16)
    gradients = []
    for kind in ("standard", "effective"):
        model.zero_grad()
        with counting() as found, use_attention(model, kind):
            (model(**inputs).last_hidden_state * direction).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    assert any(one is not None for one in found)
    for own, ours in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, own, atol=1e-3 * float(own.abs().max()) + 1e-5, rtol=0)


@pytest.mark.parametrize("family", ["gpt2", "mistral"])
def test_gradients_where_padding_sees_nothing(family: str) -> None:
    """PyTorch's kernel gives n times the derivative there: the weights are taken instead."""
    model = build(family)
    inputs = batch("left")
    direction = torch.randn(3, LENGTH, 16)
    gradients = []
    for kind in ("standard", "effective"):
        model.zero_grad()
        with use_attention(model, kind):
            (model(**inputs).last_hidden_state * direction).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for own, ours in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, own, atol=1e-3 * float(own.abs().max()) + 1e-5, rtol=0)


def test_weights_keep_their_graph_where_only_queries_are_trained() -> None:
    model = build("bert").requires_grad_(False)
    model.encoder.layer[0].attention.self.query.weight.requires_grad_()
    with use_attention(model, "effective"):
        assert model(**batch("none"), output_attentions=True).attentions[0].requires_grad


def _spoil_heads(model: hf.PreTrainedModel, thin: float) -> None:
    """Let two directions of the first head's values nearly be one; with 0 quite, and its rank falls."""
    for layer in model.encoder.layer:
        for part in (layer.attention.self.value.weight, layer.attention.self.value.bias):
            part.data[3] = part.data[0] + thin * part.data[3]


@pytest.mark.parametrize(("kind", "space"), [("effective", "value"), ("affine", "affine")])
@pytest.mark.parametrize("thin", [0.0, 1e-6, 1e-4, 1e-2])
@torch.no_grad()
def test_ill_conditioned_heads_are_as_exact(thin: float, kind: str, space: Space) -> None:
    model = build("bert")
    _spoil_heads(model, thin)
    inputs = batch("right")
    with counting() as found, use_attention(model, kind):
        effective = model(**inputs, output_attentions=True)
    assert all(one is not None for one in found)
    for number, (layer, weights) in enumerate(zip(trace(model, inputs).layers, effective.attentions, strict=True)):
        expected = decompose(layer.attention, layer.value, layer.visible, space=space).effective
        # The second layer's values differ by rounding, which the thin direction blows up, whatever splits them.
        torch.testing.assert_close(weights, expected, atol=2e-6 if number == 0 else 1e-3, rtol=0)


@torch.no_grad()
def test_a_text_shorter_than_a_head_is_wide_beside_a_long_one() -> None:
    """Its values are independent: effective attention is attention."""
    model = build("bert")
    inputs = batch("right")
    inputs["attention_mask"][1, 3:] = 0
    layer = trace(model, inputs).layers[0]
    with counting() as found, use_attention(model, "effective"):
        weights = model(**inputs, output_attentions=True).attentions[0]
    assert found[0] is not None
    assert found[0].rank[1].unique().tolist() == [3]
    torch.testing.assert_close(weights[1], layer.attention[1], atol=1e-6, rtol=0)


@pytest.mark.parametrize("reason", ["dropout", "half precision", "weights with a graph", "short"])
def test_where_the_kernel_would_not_do(reason: str) -> None:
    model = build("bert")
    inputs = batch("none")
    if reason == "dropout":
        model.train()
    if reason == "half precision":
        model.bfloat16()
    if reason == "short":
        inputs = {name: part[:, :4] for name, part in inputs.items()}
    with counting() as found, use_attention(model, "effective"):
        model(**inputs, output_attentions=reason == "weights with a graph")
    assert found == []


@torch.no_grad()
def test_a_family_that_does_more_than_softmax_keeps_its_own_attention() -> None:
    """Gemma 2 caps its scores: PyTorch's kernel does not."""
    torch.manual_seed(0)
    sizes = SIZE | {"num_key_value_heads": 2, "head_dim": 4}
    model = hf.Gemma2Model(hf.Gemma2Config(**sizes, attn_logit_softcapping=0.5)).eval()
    inputs = batch("none")
    with counting() as found, use_attention(model, "effective"):
        effective = model(**inputs).last_hidden_state
    with use_attention(model, "standard"):
        standard = model(**inputs).last_hidden_state
    assert found == []
    torch.testing.assert_close(effective, standard, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@torch.no_grad()
def test_a_mask_may_weigh_keys_too(family: str) -> None:
    """Some models, and some users, put biases into the mask: it is neither no mask nor a causal one then."""
    model = build(family)
    place = torch.arange(LENGTH)
    bias = -0.3 * (place[:, None] - place).abs()
    hidden = place > place[:, None] if family == "gpt2" else torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    mask = bias.masked_fill(hidden, torch.finfo(torch.float32).min).expand(3, 1, -1, -1)
    inputs = {"input_ids": batch("none")["input_ids"], "attention_mask": mask}
    with counting() as found, use_attention(model, "effective"):
        effective = model(**inputs).last_hidden_state
    assert any(one is not None for one in found)
    with use_attention(model, "standard"):
        standard = model(**inputs).last_hidden_state
        without = model(input_ids=inputs["input_ids"]).last_hidden_state
    assert not torch.allclose(standard, without, atol=1e-2)
    torch.testing.assert_close(effective, standard, atol=1e-4, rtol=1e-4)


WRITERS = {
    "grouped": lambda sizes: hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, num_key_value_heads=2)),
    "window": lambda sizes: hf.MistralForCausalLM(hf.MistralConfig(**sizes, num_key_value_heads=1, sliding_window=12)),
}


@pytest.mark.parametrize("family", WRITERS)
@pytest.mark.parametrize("beams", [1, 3])
@torch.no_grad()
def test_each_new_token_has_the_row_of_the_whole_text(family: str, beams: int) -> None:
    torch.manual_seed(0)
    model = WRITERS[family](SIZE | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}).eval()
    ids = batch("none")["input_ids"][:2, :20]
    options: dict[str, Any] = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "num_beams": beams}
    with use_attention(model, "effective") as swap:
        made = model.generate(ids, **options, output_attentions=True, return_dict_in_generate=True)
    streams = list(swap.streams.values())
    assert len(streams) == 2
    if beams > 1:  # its rows belong to texts that were given up
        expected = model.generate(ids, **options)
        assert torch.equal(made.sequences, expected)
        return
    assert [stream.beginnings for stream in streams] == [1, 1]
    layers = trace(model, {"input_ids": made.sequences[:, :-1]}).layers
    for step, rows in enumerate(made.attentions):
        for layer, weights in zip(layers, rows, strict=True):
            row = layer.part("effective")[:, :, 19 + step, : 20 + step]
            kept = weights.shape[-1]
            torch.testing.assert_close(weights[:, :, -1], row[..., -kept:], atol=2e-6, rtol=0)
            assert not row[..., :-kept].any()


@torch.no_grad()
def test_texts_of_different_lengths_are_continued_too() -> None:
    torch.manual_seed(0)
    model = WRITERS["grouped"](SIZE | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}).eval()
    inputs = batch("left")
    options: dict[str, Any] = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    with use_attention(model, "effective") as swap:
        made = model.generate(**inputs, **options, output_attentions=True, return_dict_in_generate=True)
    assert torch.equal(made.sequences, model.generate(**inputs, **options))
    assert [stream.beginnings for stream in swap.streams.values()] == [1, 1]
    assert not made.attentions[-1][0][2, :, 0, :15].any()


@torch.no_grad()
def test_a_cache_that_is_written_over_is_noticed() -> None:
    torch.manual_seed(0)
    model = WRITERS["grouped"](SIZE | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}).eval()
    ids = batch("none")["input_ids"][:1, :20]
    with use_attention(model, "effective") as swap:
        cache = model(ids, use_cache=True).past_key_values
        for step in range(2):
            model(ids[:, step : step + 1], past_key_values=cache, output_attentions=True)
        cache.layers[0].values[:, :, 3:6] *= 5
        rows = model(ids[:, :1], past_key_values=cache, output_attentions=True).attentions
    assert [stream.beginnings for stream in swap.streams.values()] == [2, 1]
    value = cache.layers[0].values
    output = rows[0] @ value.repeat_interleave(2, dim=1)
    assert float((rows[0] - output @ torch.linalg.pinv(value.repeat_interleave(2, dim=1))).abs().max()) < 1e-5
