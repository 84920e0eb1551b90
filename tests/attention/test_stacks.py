"""Models that read one text and write another: which attention is which, the same output, one token after the other."""

from typing import Any

import pytest
import torch
import transformers as hf

from effective_attention import decompose, use_attention
from effective_attention.attention.stacks import STACKS, StackFinder
from effective_attention.attention.trace import trace, trace_stacks
from helpers.writers import FAMILIES, HEADS, LAYERS, READ, WRITTEN, build_batch, build_writer

NAMES = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Any:
    return build_writer(request.param)


# --- traces ---


@torch.no_grad()
def test_each_stack_holds_what_the_eager_model_returns(model: Any) -> None:
    inputs = build_batch()
    traces = trace_stacks(model, inputs)
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    expected = model(**inputs, output_attentions=True, output_hidden_states=True)
    model.set_attn_implementation(before)
    for stack, seen in traces.items():
        assert len(seen.layers) == LAYERS
        for layer, attention in zip(seen.layers, expected[NAMES[stack]], strict=True):
            torch.testing.assert_close(layer.attention, attention, rtol=0, atol=0)
    assert torch.equal(traces["cross"].logits, expected.logits)
    for stack, name in (("encoder", "encoder_hidden_states"), ("decoder", "decoder_hidden_states")):
        assert all(torch.equal(*pair) for pair in zip(traces[stack].hidden, expected[name], strict=True))


def test_effective_attention_of_each_stack_has_the_same_output(model: Any) -> None:
    for seen in trace_stacks(model, build_batch()).values():
        for layer in seen.layers:
            same = torch.testing.assert_close
            same(layer.part("effective") @ layer.value, layer.attention @ layer.value, atol=1e-5, rtol=1e-5)
            assert float((layer.part("effective") - layer.attention).abs().max()) > 1e-3


def test_cross_attention_knows_the_tokens_that_were_read(model: Any) -> None:
    inputs = build_batch()
    seen = trace(model, inputs, stack="cross")
    assert seen.mask.sum(dim=-1).tolist() == list(WRITTEN)
    assert seen.keys.mask.sum(dim=-1).tolist() == list(READ)
    assert torch.equal(seen.inputs["input_ids"], inputs["decoder_input_ids"])
    assert torch.equal(seen.keys.inputs["input_ids"], inputs["input_ids"])
    assert not seen.layers[0].part("effective")[1, ..., READ[1] :].any()


@pytest.mark.parametrize("stack", STACKS)
def test_one_example_is_cut_out_as_if_it_ran_alone(model: Any, stack: Any) -> None:
    inputs = build_batch()
    whole = trace(model, inputs, stack=stack)
    _ = whole.layers[0].exact
    lengths = {"": READ[1], "decoder_": WRITTEN[1]}
    width = {name: lengths["decoder_" if name.startswith("decoder_") else ""] for name in inputs}
    alone = trace(model, {name: value[1:, : width[name]] for name, value in inputs.items()}, stack=stack)
    cut = whole.example(1)
    assert torch.equal(cut.keys.inputs["input_ids"], alone.keys.inputs["input_ids"])
    for mine, expected in zip(cut.layers, alone.layers, strict=True):
        for part in ("standard", "effective"):
            torch.testing.assert_close(mine.part(part), expected.part(part), atol=2e-5, rtol=0)


def test_the_encoder_is_traced_alone(model: Any) -> None:
    inputs = build_batch()
    expected = trace_stacks(model, inputs)["encoder"]
    read = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    seen = trace(model, read, stack="encoder")
    assert seen.model is model.get_encoder()
    assert torch.equal(seen.layers[-1].attention, expected.layers[-1].attention)
    assert torch.equal(seen.logits, expected.logits)


def test_hooks_are_gone_and_the_mode_is_back(model: Any) -> None:
    model.train()
    trace_stacks(model, build_batch())
    assert all(module.training for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())
    model.eval()


def test_a_layer_is_told_apart_by_what_it_is_given_not_by_its_lengths() -> None:
    model = build_writer("bart")
    inputs = {name: value[:, :6] for name, value in build_batch().items()}  # as many tokens read as written
    with StackFinder(model) as finder, torch.no_grad():
        model(**inputs)
    decoder = model.get_decoder().layers[0]
    stacks = [finder.stack_of(layer) for layer in (decoder.self_attn, decoder.encoder_attn)]
    assert stacks == ["decoder", "cross"]


@pytest.mark.usefixtures("_without_shape_checks")
def test_what_is_missing_is_said() -> None:
    model = build_writer("t5")
    inputs = build_batch()
    with pytest.raises(ValueError, match=r'three attentions; choose stack="encoder", "decoder" or "cross"'):
        trace(model, inputs)
    with pytest.raises(ValueError, match="stack must be one of encoder, decoder, cross, got 'both'"):
        trace(model, inputs, stack="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="inputs must hold decoder_input_ids, what T5ForConditionalGeneration has"):
        trace(model, {"input_ids": inputs["input_ids"]}, stack="cross")
    with pytest.raises(ValueError, match="leave it out for T5Stack"):
        trace(model.get_encoder(), {"input_ids": inputs["input_ids"]}, stack="encoder")


def test_a_model_whose_encoder_is_not_reached_is_refused_by_name() -> None:
    sizes: dict[str, Any] = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2}
    model = hf.LongT5ForConditionalGeneration(hf.LongT5Config(vocab_size=60, **sizes))
    with pytest.raises(ValueError, match=r"LongT5ForConditionalGeneration has no attention matrix .*: its encoder"):
        trace_stacks(model, build_batch())


def test_a_model_of_sounds_has_places_for_keys() -> None:
    torch.manual_seed(0)
    parts = {f"{side}_{name}": 2 for side in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    marks = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    sizes: dict[str, Any] = {"d_model": 8, "num_mel_bins": 4, "max_source_positions": 20, "vocab_size": 60}
    model = hf.WhisperForConditionalGeneration(hf.WhisperConfig(**sizes, **parts, **marks))
    written = build_batch()["decoder_input_ids"]
    seen = trace(model, {"input_features": torch.randn(2, 4, 40), "decoder_input_ids": written}, stack="cross")
    assert seen.keys.mask.shape == (2, 20)
    assert seen.example(1).layers[0].attention.shape == (1, 2, written.shape[1], 20)


# --- running with effective attention ---


@pytest.mark.parametrize("more", [1, 4])  # times as many tokens: with many, by the fast kernel
@torch.no_grad()
def test_the_output_is_the_same(model: Any, more: int) -> None:
    inputs = {name: value.repeat(1, more) for name, value in build_batch().items()}
    answers = {}
    for kind in ("standard", "effective"):
        with use_attention(model, kind) as swap:
            answers[kind] = model(**inputs)["logits"]
    assert swap.calls == 3 * LAYERS
    assert swap.nontrivial == swap.heads == 3 * LAYERS * HEADS * 2
    scale = float(answers["standard"].abs().max())
    torch.testing.assert_close(answers["effective"] / scale, answers["standard"] / scale, atol=1e-5, rtol=0)


@torch.no_grad()
def test_the_weights_are_the_split_ones(model: Any) -> None:
    inputs = build_batch()
    with use_attention(model, "effective"):
        output = model(**inputs, output_attentions=True)
    for stack, seen in trace_stacks(model, inputs).items():
        for layer, weights in zip(seen.layers, output[NAMES[stack]], strict=True):
            expected = decompose(layer.attention, layer.value, layer.visible).effective
            torch.testing.assert_close(weights, expected, atol=5e-5, rtol=0)


@torch.no_grad()
def test_writing_with_a_cache(model: Any) -> None:
    inputs = {name: value for name, value in build_batch().items() if not name.startswith("decoder")}
    options: dict[str, Any] = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False}
    start = {"decoder_start_token_id": 2, "pad_token_id": 0, "eos_token_id": None}
    with use_attention(model, "effective") as swap:
        made = model.generate(
            **inputs, **options, **start, output_attentions=True, return_dict_in_generate=True, output_logits=True
        )
    own = model.generate(**inputs, **options, **start, return_dict_in_generate=True, output_logits=True)
    assert torch.equal(made.sequences, own.sequences)
    for mine, expected in zip(made.logits, own.logits, strict=True):
        scale = float(expected.abs().max())
        torch.testing.assert_close(mine / scale, expected / scale, atol=1e-5, rtol=0)
    assert [stream.beginnings for stream in swap.streams.values()] == [1] * (2 * LAYERS)  # cross-attention's too
    written = {**inputs, "decoder_input_ids": made.sequences[:, :-1]}
    for step, rows in enumerate(made.cross_attentions):
        for layer, weights in zip(trace(model, written, stack="cross").layers, rows, strict=True):
            torch.testing.assert_close(weights[:, :, 0], layer.part("effective")[:, :, step], atol=5e-5, rtol=0)


def test_gradients_flow_through_a_bias_of_positions() -> None:
    model = build_writer("t5")
    inputs = {name: value.repeat(1, 4) for name, value in build_batch().items()}
    found = {}
    for kind in ("standard", "effective"):
        model.zero_grad()
        with use_attention(model, kind):
            model(**inputs).logits.square().mean().backward()
        found[kind] = [parameter.grad.clone() for parameter in model.parameters()]
    biases = [name for name, _ in model.named_parameters() if "relative_attention_bias" in name]
    assert len(biases) == 2
    for mine, expected in zip(found["effective"], found["standard"], strict=True):
        scale = float(expected.abs().max())
        assert scale > 0
        torch.testing.assert_close(mine / scale, expected / scale, atol=1e-4, rtol=0)


# --- models without text ---


def build_image_model() -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 12,
    }
    return hf.ViTModel(hf.ViTConfig(**sizes, image_size=8, patch_size=2)).eval()


@torch.no_grad()
def test_a_model_of_images_is_run_and_traced() -> None:
    model = build_image_model()
    inputs = {"pixel_values": torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))}
    own = model(**inputs).last_hidden_state
    with use_attention(model, "effective") as swap:
        torch.testing.assert_close(model(**inputs).last_hidden_state, own, atol=1e-5, rtol=1e-5)
    assert swap.nontrivial == swap.heads == 8
    seen = trace(model, inputs)
    assert seen.mask.shape == (2, 17)  # a place for each of 16 patches, and one for the whole image
    assert bool(seen.mask.all())
    layer = seen.layers[0]
    split = decompose(layer.attention, layer.value)
    torch.testing.assert_close(split.effective, layer.part("effective"))
    assert seen.example(1).layers[0].attention.shape == (1, 2, 17, 17)


# --- models that are watched ---


SIZES = {
    "vocab_size": 60,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
}


def build_mvp() -> Any:
    torch.manual_seed(0)
    return hf.MvpForConditionalGeneration(hf.MvpConfig(**SIZES)).eval()


def test_a_watched_model_writes_the_same() -> None:
    """Its encoder runs alone first, then its decoder, token by token."""
    model = build_mvp()
    inputs = {"input_ids": torch.randint(4, 60, (2, 20), generator=torch.Generator().manual_seed(0))}
    own = model.generate(**inputs, max_new_tokens=5, do_sample=False)
    with use_attention(model, "effective") as swap:
        assert torch.equal(model.generate(**inputs, max_new_tokens=5, do_sample=False), own)
    assert swap.calls > 2


@pytest.mark.parametrize("build", [build_mvp, lambda: hf.FSMTForConditionalGeneration(fsmt_config()).eval()])
def test_the_stacks_of_a_watched_model(build: Any) -> None:
    inputs = {"input_ids": torch.randint(4, 60, (2, 20)), "decoder_input_ids": torch.randint(4, 60, (2, 9))}
    model = build()
    assert len(trace(model, inputs, stack="encoder").layers) == 2
    for stack, queries, keys in (("decoder", 9, 9), ("cross", 9, 20)):
        seen = trace(model, inputs, stack=stack)
        assert [layer.shape[2:] for layer in seen.layers] == [(queries, keys)] * 2


def fsmt_config() -> Any:
    sizes = {name: size for name, size in SIZES.items() if name != "vocab_size"}
    return hf.FSMTConfig(langs=["en", "de"], src_vocab_size=60, tgt_vocab_size=60, **sizes)


@torch.no_grad()
def test_outputs_of_any_form() -> None:
    """A tuple, and a model of texts and images without hidden states of its own."""
    model = hf.BertModel(hf.BertConfig(vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2))
    model.config.return_dict = False
    seen = trace(model.eval(), {"input_ids": torch.randint(4, 60, (1, 9))})
    assert seen.logits.shape == (1, 9, 16)
