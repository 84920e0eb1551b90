"""The swap on tiny random models of every family: same output, the right weights, everything restored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from effective_attention import decompose, use_attention
from effective_attention.attention import call as calls
from effective_attention.attention import handlers
from effective_attention.attention.hook import attention_hook

SMALL: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
}
BUILDERS: dict[str, Callable[[], hf.PreTrainedModel]] = {
    "bert": lambda: hf.BertModel(hf.BertConfig(**SMALL)),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**SMALL, pad_token_id=0)),
    "distilbert": lambda: hf.DistilBertModel(
        hf.DistilBertConfig(vocab_size=50, dim=16, n_layers=2, n_heads=4, hidden_dim=24)
    ),
    "electra": lambda: hf.ElectraModel(hf.ElectraConfig(**SMALL, embedding_size=8)),
    "gpt2": lambda: hf.GPT2Model(hf.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4)),
    "llama": lambda: hf.LlamaModel(hf.LlamaConfig(**SMALL, num_key_value_heads=2)),
    "mpnet": lambda: hf.MPNetModel(hf.MPNetConfig(**SMALL, pad_token_id=0)),
    "deberta": lambda: hf.DebertaModel(hf.DebertaConfig(**SMALL, relative_attention=True, pos_att_type=["c2p", "p2c"])),
    "deberta_v2": lambda: hf.DebertaV2Model(
        hf.DebertaV2Config(**SMALL, relative_attention=True, pos_att_type=["c2p", "p2c"])
    ),
    "roformer": lambda: hf.RoFormerModel(hf.RoFormerConfig(**SMALL, embedding_size=8)),
    "xlnet": lambda: hf.XLNetModel(hf.XLNetConfig(vocab_size=50, d_model=16, n_layer=2, n_head=4, d_inner=24)),
}
WATCHED = ("mpnet", "deberta", "deberta_v2", "roformer", "xlnet")  # not by transformers' AttentionInterface
SEQUENCE_TO_SEQUENCE = {"layers": 1, "attention_heads": 4, "ffn_dim": 24}
CAUSAL = ("gpt2", "llama")
KEYS = 11
WIDTH = 4


def build(name: str) -> hf.PreTrainedModel:
    torch.manual_seed(0)
    model = BUILDERS[name]().eval()
    with torch.no_grad():  # the usual 0.02 makes nearly uniform attention, on which little can go wrong
        for parameter in model.parameters():
            parameter.mul_(8 if parameter.ndim > 1 else 1)
    return model


@pytest.fixture(params=BUILDERS)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def batch(side: str = "right") -> dict[str, Tensor]:
    """Make three texts of 11, 8 and 3 tokens: longer and shorter than a head is wide (4)."""
    ids = torch.randint(1, 50, (3, KEYS), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(KEYS) < torch.tensor([[11], [8], [3]])).long()
    mask = mask if side == "right" else mask.flip(1)
    return {"input_ids": ids * mask, "attention_mask": mask}


@torch.no_grad()
def run(model: hf.PreTrainedModel, kind: Any, inputs: dict[str, Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
    with use_attention(model, kind):
        outputs = model(**inputs, output_attentions=True)
    return outputs.last_hidden_state, outputs.attentions


@torch.no_grad()
def captured_values(model: hf.PreTrainedModel, inputs: dict[str, Tensor]) -> list[Tensor]:
    """Return the values of every layer as the attention function sees them, one set per query head."""
    values: list[Tensor] = []

    def spy(call: calls.AttentionCall) -> calls.AttentionOutput:
        weights, value = call.weights_and_values()
        values.append(value)
        return calls.head_outputs(weights, value), weights

    with attention_hook(model, spy):
        model(**inputs)
    return values


def seen_by(inputs: dict[str, Tensor], family: str) -> Tensor:
    """Return which keys each query sees, (batch, 1, query, key).

    A query that sees nothing gets uniform weights from softmax, so it sees all.
    """
    visible = inputs["attention_mask"].bool()[:, None, None, :].expand(-1, 1, KEYS, -1)
    if family in CAUSAL:
        visible = visible & torch.ones(KEYS, KEYS, dtype=torch.bool).tril()
    return visible | ~visible.any(dim=-1, keepdim=True)


# --- what comes out ---


@pytest.mark.parametrize("side", ["right", "left"])
def test_same_output_and_the_split_weights(family: str, side: str) -> None:
    model = build(family)
    inputs = batch(side)
    standard, weights = run(model, "standard", inputs)
    effective, parts = run(model, "effective", inputs)
    torch.testing.assert_close(effective, standard, atol=2e-4, rtol=1e-4)
    for value, a, e in zip(captured_values(model, inputs), weights, parts, strict=True):
        expected = decompose(a, value, seen_by(inputs, family))
        real = inputs["attention_mask"].bool()  # DeBERTa and XLNet let padding see other keys than words see
        found, wanted = (part.transpose(1, 2)[real] for part in (e, expected.effective))  # (real query, head, key)
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)
        torch.testing.assert_close(e @ value, a @ value, atol=1e-4, rtol=0)
        assert float(expected.null.abs().max()) > 1e-3
        if family in CAUSAL:
            assert not e[0].triu(1).any()


def test_weights_that_a_graph_needs_are_not_overwritten() -> None:
    model = build("bert")
    inputs = batch()
    without, weights = run(model, "effective", inputs)
    with use_attention(model, "effective"):
        outputs = model(**inputs, output_attentions=True)
    torch.testing.assert_close(outputs.last_hidden_state, without)
    torch.testing.assert_close(outputs.attentions, weights)
    outputs.last_hidden_state.square().sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("side", ["right", "left"])
def test_standard_is_the_models_own_attention(family: str, side: str) -> None:
    model = build(family)
    inputs = batch(side)
    standard, weights = run(model, "standard", inputs)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = model(**inputs, output_attentions=True)
    assert torch.equal(outputs.last_hidden_state, standard)
    assert all(torch.equal(a, b) for a, b in zip(outputs.attentions, weights, strict=True))


def test_padding_columns_are_zero_and_companions_do_not_matter() -> None:
    model = build("bert")
    inputs = batch()
    _, together = run(model, "effective", inputs)
    hidden = ~inputs["attention_mask"].bool()[:, None, None, :]
    assert all(not weights.masked_select(hidden).any() for weights in together)
    for example, length in enumerate((11, 8, 3)):
        _, alone = run(model, "effective", {name: x[example : example + 1, :length] for name, x in inputs.items()})
        for a, b in zip(alone, together, strict=True):
            torch.testing.assert_close(a[0], b[example, :, :length, :length], atol=1e-4, rtol=0)


def test_without_padding_there_is_no_mask() -> None:
    model = build("bert")
    inputs = {"input_ids": batch()["input_ids"].clamp_min(1)}
    standard, _ = run(model, "standard", inputs)
    effective, weights = run(model, "effective", inputs)
    padded, same = run(model, "padded", inputs)
    torch.testing.assert_close(effective, standard, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(padded, effective, atol=1e-4, rtol=1e-4)  # another way to the same
    torch.testing.assert_close(weights, same, atol=1e-5, rtol=0)


def test_cross_attention() -> None:
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in SEQUENCE_TO_SEQUENCE.items()}
    torch.manual_seed(0)
    model = hf.BartModel(hf.BartConfig(vocab_size=50, d_model=16, **sizes)).eval()
    inputs = batch()
    inputs["decoder_input_ids"] = torch.randint(4, 50, (3, 5))
    results = {}
    for kind in ("standard", "effective"):
        with torch.no_grad(), use_attention(model, kind) as swap:
            results[kind] = model(**inputs, output_attentions=True)
        assert swap.calls == 3  # encoder, decoder, cross
    torch.testing.assert_close(
        results["effective"].last_hidden_state, results["standard"].last_hidden_state, atol=1e-4, rtol=1e-4
    )
    cross = results["effective"].cross_attentions[0]
    assert cross.shape == (3, 4, 5, KEYS)
    assert not cross[2, :, :, 3:].any()
    assert float((cross - results["standard"].cross_attentions[0]).abs().max()) > 1e-3


# --- the padded reading ---


def test_padded_reports_its_change() -> None:
    model = build("bert")
    inputs = batch()
    with torch.no_grad(), use_attention(model, "padded") as swap:
        changed = model(**inputs).last_hidden_state
    assert 0.01 < swap.mean_output_change < swap.output_change
    assert float((changed - run(model, "standard", inputs)[0]).abs().max()) > 1e-3
    full = {name: x[:1] for name, x in inputs.items()}
    with torch.no_grad(), use_attention(model, "padded") as swap:
        model(**full)
    assert swap.output_change < 1e-5


def test_only_padded_reports_a_change() -> None:
    model = build("bert")
    inputs = batch()
    for kind in ("standard", "effective"):
        with torch.no_grad(), use_attention(model, kind) as swap:
            model(**inputs)
        assert (swap.calls, swap.output_change, swap.mean_output_change) == (2, 0, 0)


# --- restored ---


def hooks(model: nn.Module) -> int:
    """Count our hooks only: transformers leaves some of its own on the layers when asked for attentions."""
    found = [
        hook for part in model.modules() for hook in (*part._forward_hooks.values(), *part._forward_pre_hooks.values())
    ]
    return sum(hook.__module__.startswith("effective_attention") for hook in found)


@pytest.mark.parametrize("own", ["eager", "sdpa"])
def test_restored_on_exit_and_on_error(family: str, own: str) -> None:
    if own == "sdpa" and family in WATCHED:
        pytest.skip("the family has no attention by a fast kernel")
    model = build(family)
    inputs = batch()
    model.set_attn_implementation(own)
    with torch.no_grad():
        before = model(**inputs).last_hidden_state
    run(model, "effective", inputs)
    with pytest.raises(RuntimeError, match="on purpose"), use_attention(model, "effective"):
        raise RuntimeError("on purpose")
    with pytest.raises(Exception), torch.no_grad(), use_attention(model, "effective"):  # noqa: B017, PT011
        model(input_ids=torch.full((1, 3), 10**6))  # no such token: fails inside forward
    assert model.config._attn_implementation == own
    assert hooks(model) == 0
    assert not any(handlers._HOOKS.get(module) for module in model.modules())
    with torch.no_grad():
        assert torch.equal(model(**inputs).last_hidden_state, before)


def test_nested_use() -> None:
    model = build("bert")
    inputs = batch()
    with torch.no_grad(), use_attention(model, "effective") as outer:
        model(**inputs)
        with use_attention(model, "padded") as inner:
            model(**inputs)
        assert model.config._attn_implementation == "hooked_attention"
        model(**inputs)
    assert (outer.calls, inner.calls) == (6, 2)  # a call counts for both, its effect for the innermost
    assert inner.output_change > 0.01
    assert outer.output_change == 0
    assert not any(handlers._HOOKS.get(module) for module in model.modules())


def test_two_models_at_once() -> None:
    bert = build("bert")
    gpt2 = build("gpt2")
    inputs = batch()
    with torch.no_grad(), ExitStack() as stack:
        swaps = [stack.enter_context(use_attention(model, "effective")) for model in (bert, gpt2)]
        bert(**inputs)
    assert [swap.calls for swap in swaps] == [2, 0]


def test_inside_a_task_model() -> None:
    torch.manual_seed(0)
    model = hf.BertForSequenceClassification(hf.BertConfig(**SMALL)).eval()
    with torch.no_grad(), use_attention(model, "effective") as swap:
        logits = model(**batch()).logits
    with torch.no_grad():
        torch.testing.assert_close(model(**batch()).logits, logits, atol=1e-5, rtol=1e-4)
    assert swap.calls == 2
    assert model.bert.config._attn_implementation == model.config._attn_implementation == "sdpa"


# --- training ---


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_train_mode(name: str) -> None:
    """Check that dropout falls on the weights before the split.

    Without dropout the gradients are those of standard attention.
    """
    model = build(name).train()
    inputs = batch()
    gradients = {}
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    for kind in ("standard", "effective"):
        model.zero_grad()
        with use_attention(model, kind):
            model(**inputs).last_hidden_state.square().mean().backward()
        gradients[kind] = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    assert model.training
    for got, want in zip(gradients["effective"], gradients["standard"], strict=True):
        torch.testing.assert_close(got, want, atol=1e-3 * float(want.abs().max()) + 1e-6, rtol=0)


def test_dropout_is_kept() -> None:
    model = build("bert").train()
    inputs = batch()
    outputs = {}
    for kind in ("standard", "effective"):
        torch.manual_seed(3)
        with torch.no_grad(), use_attention(model, kind):
            outputs[kind] = model(**inputs).last_hidden_state
    torch.testing.assert_close(outputs["effective"], outputs["standard"], atol=2e-4, rtol=1e-4)


# --- errors ---


@pytest.fixture
def lazy_model() -> hf.PreTrainedModel:
    """Make a model that claims the interface and never calls it."""
    model = build("bert")
    model.forward = lambda **kwargs: torch.zeros(1)
    return model


def test_model_that_never_calls_the_function(lazy_model: hf.PreTrainedModel) -> None:
    with pytest.raises(ValueError, match=r"BertModel: no attention was met"), use_attention(lazy_model, "effective"):
        lazy_model(**batch())
    assert hooks(lazy_model) == 0


@pytest.mark.parametrize(
    ("model", "kind", "error", "match"),
    [
        ([1, 2], "effective", TypeError, r"needs a model \(torch.nn.Module\), got list"),
        ("bert", "fancy", ValueError, "one of standard, effective, affine, padded, got 'fancy'"),
    ],
    ids=["no model", "no kind"],
)
def test_wrong_arguments(
    model: Any, kind: Any, error: type[Exception], match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)  # our message, not the checker's
    model = build(model) if isinstance(model, str) else model
    with pytest.raises(error, match=match), use_attention(model, kind):
        pass
