"""The one way into a model's attention: who handles a call, who counts it, and that nothing is left behind."""

import threading

import pytest
import torch
import transformers as hf

from effective_attention.attention import forward_checks, handlers
from effective_attention.attention.call import AttentionCall
from effective_attention.attention.handlers import Calls
from effective_attention.attention.hook import attention_hook
from effective_attention.attention.replacement import logits_with
from effective_attention.attention.swap import use_attention
from effective_attention.attention.trace import trace
from effective_attention.attention.variants import ATTENTIONS, PARTS, TESTED, VARIANTS, variant_to_run
from effective_attention.finite import NotFiniteError


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=16
    )
    built = hf.BertForSequenceClassification(config).eval()
    with torch.no_grad():  # the usual 0.02 makes a model that hardly looks at its input
        for parameter in built.parameters():
            parameter.mul_(8 if parameter.ndim > 1 else 1)
    return built


IDS = torch.arange(1, 9)[None]


def own(call: AttentionCall):
    """Do what the model does."""
    return call.eager()


def test_a_handler_is_handed_every_layers_call_in_order(model):
    numbers = []

    def note(call: AttentionCall):
        numbers.append(call.number)
        return call.eager()

    with torch.no_grad(), attention_hook(model, note):
        hooked = model(IDS).logits
    assert numbers == [0, 1, 2]
    with torch.no_grad():
        torch.testing.assert_close(model(IDS).logits, hooked, atol=1e-6, rtol=1e-5)


def test_a_part_of_the_model_can_be_run_alone(model):
    calls = Calls()
    with torch.no_grad(), attention_hook(model, own, counter=calls):
        model.bert(IDS)
    assert calls.calls == 3


def test_any_thread_may_run_the_model(model):
    calls = Calls()

    def run():
        with torch.no_grad():
            model(IDS)

    with attention_hook(model, own, counter=calls):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert calls.calls == 3


def test_mode_implementation_and_hooks_are_restored_after_an_error(model):
    model.train()
    before = model.config._attn_implementation
    with attention_hook(model, own, evaluation=True):
        assert not model.training

    def fail(_call):
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"), attention_hook(model, fail, evaluation=True):
        model(IDS)
    assert model.training
    assert model.config._attn_implementation == before
    assert not any(handlers._HOOKS.get(module) for module in model.modules())
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


def test_a_model_that_keeps_our_function_without_a_hook_runs_its_own_attention(model):
    with torch.no_grad():
        expected = model(IDS).logits
        model.set_attn_implementation("hooked_attention")
        torch.testing.assert_close(model(IDS).logits, expected, atol=1e-6, rtol=1e-5)


def test_other_weights_in_one_layer_change_the_answer_and_the_same_weights_do_not(model):
    same = logits_with(model, {"input_ids": IDS}, lambda _call, weights: weights)
    with torch.no_grad():
        torch.testing.assert_close(model(IDS).logits, same, atol=1e-6, rtol=1e-5)
    other = logits_with(
        model, {"input_ids": IDS}, lambda call, weights: weights.flip(-1) if call.number == 1 else weights
    )
    assert (other - same).abs().max() > 1e-3


# --- numbers that are not finite ---


def damage(model, layer, part, bad=torch.nan):
    """Spoil one number of one layer, in what makes its queries or its values."""
    attention = model.bert.encoder.layer[layer].attention.self
    with torch.no_grad():
        getattr(attention, part).bias[3] = bad


@pytest.mark.parametrize("kind", TESTED)
@pytest.mark.parametrize("part", ["query", "value"])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_the_layer_is_named(model, kind, part, bad):
    damage(model, 1, part, bad)
    named = r"^layer bert\.encoder\.layer\.1\.attention\.self: .*NaN or infinite"
    with torch.no_grad(), pytest.raises(NotFiniteError, match=named), use_attention(model, kind):
        model(IDS)


def test_a_trace_names_the_layer(model):
    damage(model, 2, "value")
    with pytest.raises(NotFiniteError, match=r"layer\.2\.attention\.self: attention gives NaN or infinite numbers"):
        trace(model, {"input_ids": IDS})


def test_a_part_of_the_model_that_is_run_alone_is_looked_at_too(model):
    damage(model, 0, "key")
    with torch.no_grad(), pytest.raises(NotFiniteError, match=r"layer\.0\."), use_attention(model, "standard"):
        model.bert(IDS)


def test_a_model_that_is_mended_runs_again_in_the_same_block(model):
    with torch.no_grad(), use_attention(model, "standard"):
        damage(model, 1, "value")
        with pytest.raises(NotFiniteError):
            model(IDS)
        damage(model, 1, "value", 0.0)
        assert bool(model(IDS).logits.isfinite().all())


@pytest.mark.parametrize("part", ["query", "value"])
def test_an_attention_chosen_by_name_names_the_layer(model, part):
    damage(model, 1, part)
    model.set_attn_implementation("effective_attention")
    with torch.no_grad(), pytest.raises(NotFiniteError, match=r"^layer 1 \(BertSelfAttention\): "):
        model(IDS)


def test_the_device_is_waited_for_once_a_pass(model, monkeypatch):
    asked = []
    monkeypatch.setattr(forward_checks.Watch, "first", lambda self: asked.append(len(self._seen)))
    with torch.no_grad(), use_attention(model, "standard"):
        model(IDS)
    assert asked[0] == 3, "three layers, one question"


# --- the records ---


def test_one_record_for_each_attention():
    assert ATTENTIONS == ("standard", "effective")
    assert PARTS == ("standard", "effective", "null", "affine")
    assert TESTED == ("standard", "effective", "affine", "padded")
    assert len({variant.colour for variant in VARIANTS.values()}) == len(VARIANTS)
    with pytest.raises(ValueError, match="attention must be one of standard, effective, affine, padded, got 'null'"):
        variant_to_run("null")
