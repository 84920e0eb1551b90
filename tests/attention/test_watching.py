"""The second road: models outside transformers' interface, and home-made ones, are watched while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional

from effective_attention import decompose, trace, use_attention
from effective_attention.attention.call import AttentionCall
from effective_attention.attention.handlers import Calls
from effective_attention.attention.hook import attention_hook
from effective_attention.attention.watching import Watching

WIDTH = 16
HEADS = 2


class HomeMade(nn.Module):
    """An embedding, two layers of attention, and an answer of the first token.

    Args:
        attend: From queries, keys and values, (batch, head, token, width), and a mask that is True on real tokens,
            (batch, token), to the product of weights and values.
    """

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(50, WIDTH)
        self.project = nn.ModuleList([nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2)])
        self.num_heads = HEADS
        self.attend = attend

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embedding(input_ids)
        for project in self.project:
            parts = [torch.unflatten(part, -1, (HEADS, -1)).transpose(1, 2) for part in project(x).chunk(3, dim=-1)]
            x = x + self.attend(*parts, attention_mask.bool()).transpose(1, 2).flatten(2)
        return x[:, 0]


def scores(query: Tensor, key: Tensor, real: Tensor, least: float = -1e9) -> Tensor:
    return (query @ key.mT / 2).masked_fill(~real[:, None, None], least)


def by_matmul(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    return scores(query, key, real).softmax(-1) @ value


def through_dropout_and_casts(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    weights = functional.dropout(torch.softmax(scores(query, key, real, -float("inf")), -1), 0.1, training=False)
    return torch.matmul(weights.double().to(value.dtype), value)


def by_folded_heads(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    weights = functional.softmax(scores(query, key, real).flatten(0, 1), dim=-1)
    return torch.bmm(weights, value.flatten(0, 1)).view_as(query)


def by_einsum(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    weights = functional.softmax(scores(query, key, real), dim=3)
    return torch.einsum("bnij,jbnd->ibnd", weights, value.permute(2, 0, 1, 3)).permute(1, 2, 0, 3)


def by_einsum_of_folded_heads(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    weights = scores(query, key, real).flatten(0, 1).softmax(dim=-1)
    return torch.einsum("nij,njd->nid", weights, value.flatten(0, 1)).view_as(query)


def hidden_afterwards(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    """Padding is hidden after the softmax alone, and so are the rows of padding."""
    weights = (query @ key.mT / 2).softmax(-1).masked_fill(~real[:, None, None], 0)
    return weights.masked_fill_(mask=~real[:, None, :, None], value=0.0) @ value


def by_kernel(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=real[:, None, None], scale=0.5)


def by_kernel_of_the_future(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


WAYS = {
    way.__name__: way
    for way in (
        by_matmul,
        through_dropout_and_casts,
        by_folded_heads,
        by_einsum,
        by_einsum_of_folded_heads,
        hidden_afterwards,
        by_kernel,
        by_kernel_of_the_future,
    )
}


def batch() -> dict[str, Tensor]:
    """Make texts of 20 and 13 tokens: longer than a head is wide (8)."""
    ids = torch.randint(1, 50, (2, 20), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(20) < torch.tensor([[20], [13]])).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def encoder(**options: Any) -> nn.Module:
    """Make PyTorch's own encoder."""

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embedding = nn.Embedding(50, WIDTH)
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 24, **{"batch_first": True, **options})
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            tokens = self.embedding(input_ids)
            tokens = tokens if layer_first else tokens.transpose(0, 1)
            found = self.layers(tokens, src_key_padding_mask=attention_mask == 0)
            return (found if layer_first else found.transpose(0, 1))[:, 0]

    layer_first = options.get("batch_first", True)
    return Encoder()


def check_swap(model: nn.Module) -> None:
    """Check outputs, gradients, and that the effective weights are those of the split."""
    model = model.eval()
    inputs = batch()
    own = model(**inputs)
    with use_attention(model, "effective") as record:
        found = model(**inputs)
    assert record.calls == 2
    assert record.null_space_share == 1
    torch.testing.assert_close(found, own, atol=1e-5, rtol=1e-4)
    parameters = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(found.sum(), parameters),
        torch.autograd.grad(own.sum(), parameters),
        atol=1e-4,
        rtol=1e-3,
    )
    seen = trace(model, inputs)
    torch.testing.assert_close(seen.logits, own, atol=1e-5, rtol=1e-4)
    for layer in seen.layers:
        expected = decompose(layer.attention, layer.value, layer.visible)
        torch.testing.assert_close(layer.part("effective"), expected.effective)
        assert float(layer.attention[1, :, :13, 13:].abs().max()) == 0 or layer.visible is not None
        assert float(expected.null.abs().max()) > 1e-4


@pytest.mark.parametrize("way", WAYS)
def test_however_a_layer_writes_its_attention(way: str) -> None:
    check_swap(HomeMade(WAYS[way]))


@pytest.mark.parametrize("options", [{}, {"batch_first": False}, {"norm_first": True}])
def test_pytorchs_own_encoder(options: dict[str, Any]) -> None:
    check_swap(encoder(**options))


@pytest.mark.parametrize(
    "options",
    [{}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 6, "vdim": 10}, {"bias": False}],
    ids=["plain", "bias", "zero", "separate", "no_bias"],
)
@pytest.mark.parametrize("average", [True, False])
def test_multihead_attention_is_what_pytorch_computes(options: dict[str, Any], average: bool) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(WIDTH, HEADS, **options).eval()
    query = torch.randn(5, 3, WIDTH)
    key = torch.randn(7, 3, options.get("kdim", WIDTH))
    value = torch.randn(7, 3, options["vdim"]) if "vdim" in options else key
    hidden = torch.rand(5, 7) < 0.3
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 5:] = True
    hidden[:, 0] = False
    given = {"attn_mask": hidden, "key_padding_mask": padding, "average_attn_weights": average}
    with torch.no_grad():
        expected = layer(query, key, value, **given)
        with use_attention(layer, "standard") as record:
            found = layer(query, key, value, **given)
        with use_attention(layer, "effective"):
            effective, _ = layer(query, key, value, **given)
    assert record.calls == 1
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(effective, expected[0], atol=1e-5, rtol=1e-4)


def test_multihead_attention_of_a_text_alone() -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(WIDTH, HEADS).eval()
    tokens = torch.randn(12, WIDTH)
    with torch.no_grad(), use_attention(layer, "effective"):
        found, weights = layer(tokens, tokens, tokens)
    with torch.no_grad():
        expected, own = layer(tokens, tokens, tokens)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert weights.shape == own.shape
    assert float((weights - own).abs().max()) > 1e-4


def test_a_mask_of_the_kernel_may_have_fewer_axes() -> None:
    torch.manual_seed(0)
    hidden = torch.rand(20, 20) > 0.3
    hidden[:, 0] = True

    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        folded = [part.flatten(0, 1) for part in (query, key, value)]
        return functional.scaled_dot_product_attention(*folded, attn_mask=hidden).view_as(query)

    model = HomeMade(attend).eval()
    with torch.no_grad(), use_attention(model, "effective") as record:
        found = model(**batch())
    assert record.calls == 2
    torch.testing.assert_close(found, model(**batch()), atol=1e-5, rtol=1e-4)


def test_the_mask_follows_the_order_of_an_einsum() -> None:
    """Weights with queries first: their scores must be turned with them before the mask is read off."""

    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        weights = scores(query, key, real).permute(2, 0, 1, 3).softmax(-1)
        return torch.einsum("ibnj,bnjd->bnid", weights, value)

    model = HomeMade(attend)
    check_swap(model)
    expected = trace(HomeMade(by_matmul).eval(), batch())
    for layer, own in zip(trace(model, batch()).layers, expected.layers, strict=True):
        torch.testing.assert_close(layer.part("effective"), own.part("effective"))


def test_an_einsum_with_heads_before_texts() -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        return torch.einsum("nbij,bnjd->bnid", scores(query, key, real).transpose(0, 1).softmax(-1), value)

    expected = trace(HomeMade(by_matmul).eval(), batch())
    for layer, own in zip(trace(HomeMade(attend), batch()).layers, expected.layers, strict=True):
        torch.testing.assert_close(layer.part("effective"), own.part("effective"))


@pytest.mark.parametrize("as_numbers", [False, True])
def test_the_kernel_gives_zero_where_a_query_sees_nothing(as_numbers: bool) -> None:
    seen = torch.ones(20, 20, dtype=torch.bool).tril(-1)  # the first query sees nothing
    mask = torch.zeros(20, 20).masked_fill(~seen, -torch.inf) if as_numbers else seen

    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    model = HomeMade(attend).eval()
    for kind in ("standard", "effective"):
        with torch.no_grad(), use_attention(model, kind):
            found = model(**batch())
        torch.testing.assert_close(found, model(**batch()), atol=1e-5, rtol=1e-4)


def test_multihead_attention_gives_zero_where_a_query_sees_nothing() -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    tokens = torch.randn(2, 12, WIDTH)
    causal = torch.ones(12, 12, dtype=torch.bool).triu(1)
    padding = torch.arange(12) < torch.tensor([[0], [4]])  # padded on the left
    given = {"attn_mask": causal, "key_padding_mask": padding, "need_weights": False}
    expected, _ = layer(tokens, tokens, tokens, **given)
    for kind in ("standard", "effective"):
        with use_attention(layer, kind):
            found, _ = layer(tokens, tokens, tokens, **given)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_the_kernel_of_one_head_and_of_what_a_batch_shares() -> None:
    def alone(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        heads = [functional.scaled_dot_product_attention(query[0, n], key[0, n], value[0, n]) for n in range(HEADS)]
        return torch.stack(heads)[None]

    def shared(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key[:1], value[:1])

    for attend in (alone, shared):
        model = HomeMade(attend).eval()
        with torch.no_grad(), use_attention(model, "effective"):
            found = model(**batch())
        torch.testing.assert_close(found, model(**batch()), atol=1e-5, rtol=1e-4)


class ReturnsWeights(nn.Module):
    """One layer, which casts its weights before their product and returns them as they were."""

    def forward(self, tokens: Tensor, output_attentions: bool = False) -> tuple[Tensor, Tensor]:
        query = tokens.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        weights = (query @ query.mT).softmax(-1)
        return weights.double().to(query.dtype) @ query, weights


def test_returned_weights_are_effective_through_a_cast() -> None:
    model = ReturnsWeights()
    tokens = torch.randn(2, 20, WIDTH, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), use_attention(model, "effective"):
        _, found = model(tokens, output_attentions=True)
    _, own = model(tokens)
    value = tokens.unflatten(-1, (HEADS, -1)).transpose(1, 2)
    torch.testing.assert_close(found, decompose(own, value).effective, atol=1e-5, rtol=0)


# --- both roads are one ---


def test_the_interface_and_watching_see_the_same() -> None:
    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24
    )
    model = hf.BertModel(config).eval()
    expected = trace(model, batch())
    seen: list[AttentionCall] = []

    def note(call: AttentionCall) -> Any:
        seen.append(call)
        return call.eager()

    model.set_attn_implementation("eager")
    with torch.no_grad(), Watching(model), attention_hook_of(model, note):
        model(**batch())
    for call, layer in zip(seen, expected.layers, strict=True):
        torch.testing.assert_close(call.weights(), layer.attention, rtol=0, atol=0)
        torch.testing.assert_close(call.value, layer.value, rtol=0, atol=0)
        visible = call.visible()
        assert visible is not None
        assert layer.visible is not None
        assert torch.equal(visible.expand_as(layer.visible), layer.visible)


def attention_hook_of(model: nn.Module, handler: Callable[..., Any]) -> Any:
    """Register a handler without a road."""
    from effective_attention.attention.forward_checks import ForwardChecks
    from effective_attention.attention.handlers import Hook, hooked

    calls = Calls()
    return hooked(model, Hook(handler, calls, ForwardChecks(model)))


# --- nothing is left behind ---


def test_nested_blocks_and_what_is_left() -> None:
    model = HomeMade(by_matmul).eval()
    with torch.no_grad(), use_attention(model, "effective") as outer:
        model(**batch())
        with use_attention(model, "padded") as inner:
            model(**batch())
        model(**batch())
    assert (outer.calls, inner.calls) == (6, 2)
    assert inner.output_change > 0
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_after_an_error_the_next_pass_is_watched_again() -> None:
    model = HomeMade(by_matmul).eval()
    with torch.no_grad(), use_attention(model, "effective") as record:
        with pytest.raises(IndexError):
            model(torch.full((1, 3), 999), torch.ones(1, 3))
        model(**batch())
    assert record.calls == 2
    assert not torch.overrides._get_current_function_mode_stack()


def test_any_thread_may_run_the_model() -> None:
    model = HomeMade(by_matmul).eval()
    calls = Calls()

    def run() -> None:
        with torch.no_grad():
            model(**batch())

    with attention_hook(model, lambda call: call.eager(), counter=calls):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert calls.calls == 2


def test_many_threads_may_run_the_model_at_once() -> None:
    model = HomeMade(by_matmul).eval()
    own = model(**batch())
    answers: list[Tensor] = []

    def run() -> None:
        with torch.no_grad():
            for _ in range(5):
                answers.append(model(**batch()))

    with use_attention(model, "effective"):
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answers) == 20  # none was refused for the calls of another
    for answer in answers:
        torch.testing.assert_close(answer, own, atol=1e-5, rtol=1e-4)


def test_what_runs_beside_the_model_is_left_alone() -> None:
    model = HomeMade(by_matmul).eval()
    calls = Calls()
    with attention_hook(model, lambda call: call.eager(), counter=calls):
        torch.randn(2, 2, 5, 5).softmax(-1) @ torch.randn(2, 2, 5, 3)
    assert calls.calls == 0


# --- refused ---


def test_a_softmax_whose_use_cannot_be_followed() -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        return (scores(query, key, real).softmax(-1)[..., None] * value[:, :, None]).sum(dim=3)

    model = HomeMade(attend)
    with (
        pytest.raises(ValueError, match=r"HomeMade: a softmax in HomeMade is not followed .* write it as a matmul"),
        use_attention(model, "effective"),
    ):
        model(**batch())


def test_weights_that_are_multiplied_twice() -> None:
    """What of them reaches the output depends on both products."""

    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        weights = scores(query, key, real).softmax(-1)
        return weights @ value + weights @ key

    model = HomeMade(attend)
    with pytest.raises(ValueError, match="HomeMade multiplies the same attention weights twice"):
        trace(model, batch())


@pytest.mark.parametrize("shared", ["texts", "heads"])
def test_weights_that_are_shared(shared: str) -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        found = scores(query, key, real)
        return (found[:1] if shared == "texts" else found[:, :1]).softmax(-1) @ value

    with pytest.raises(ValueError, match="is not followed by a product with values that could be read"):
        trace(HomeMade(attend), batch())


def of_one_head(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    weights = scores(query, key, real)[:, 0].softmax(-1)
    return (weights[..., None, None] * value.transpose(1, 2)[:, None]).sum(dim=2).transpose(1, 2)


def of_all_texts(query: Tensor, key: Tensor, value: Tensor, _real: Tensor) -> Tensor:
    return (query[0] @ key[0].mT).softmax(-1) @ value


def of_folded_heads_that_are_masked(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    weights = (query @ key.mT).flatten(0, 1).softmax(-1) * real.repeat_interleave(HEADS, dim=0)[:, None]
    return torch.bmm(weights, value.flatten(0, 1)).view_as(query)


def over_queries(query: Tensor, key: Tensor, value: Tensor, _real: Tensor) -> Tensor:
    return (key @ query.mT).softmax(-2).mT @ value


def by_logarithms(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
    return scores(query, key, real).log_softmax(-1).exp() @ value


@pytest.mark.parametrize(
    "way", [of_one_head, of_all_texts, of_folded_heads_that_are_masked, over_queries, by_logarithms]
)
def test_a_layer_that_cannot_be_followed_behind_one_that_can(way: Callable[..., Tensor]) -> None:
    """Half a model would be swapped, and nobody would know."""
    ways = iter((by_matmul, way))
    model = HomeMade(lambda *parts: next(ways)(*parts))
    with (
        pytest.raises(ValueError, match="HomeMade: a softmax in HomeMade is not followed by a product with values"),
        use_attention(model, "effective"),
    ):
        model(**batch())


@pytest.mark.parametrize("way", ["times", "set", "add"])
def test_weights_that_are_changed_in_place(way: str) -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        weights = (query @ key.mT).softmax(-1)
        hidden = ~real[:, None, None].expand(weights.shape)
        if way == "times":
            weights *= ~hidden
        elif way == "set":
            weights[hidden] = 0
        else:
            weights.add_(1)
        return weights @ value

    with torch.no_grad(), pytest.raises(ValueError, match=r"HomeMade changes its attention weights in place \("):
        trace(HomeMade(attend), batch())


def test_keys_that_come_ready_made() -> None:
    model = nn.MultiheadAttention(WIDTH, HEADS)
    tokens = torch.randn(5, 2, WIDTH)
    ready = torch.randn(2 * HEADS, 5, WIDTH // HEADS)

    class Ready(nn.Module):
        def forward(self) -> Tensor:
            given = (model.in_proj_weight, model.in_proj_bias, None, None, False, 0.0)
            out = (model.out_proj.weight, model.out_proj.bias)
            call = functional.multi_head_attention_forward
            return call(tokens, tokens, tokens, WIDTH, HEADS, *given, *out, static_k=ready)[0]

    ready_made = Ready()
    with (
        pytest.raises(ValueError, match="Ready calls multi_head_attention_forward with static_k or static_v"),
        use_attention(ready_made, "effective"),
    ):
        ready_made()


def test_after_ctrl_c_nothing_is_watched_any_more() -> None:
    def interrupted(*_: Tensor) -> Tensor:
        raise KeyboardInterrupt

    model = HomeMade(interrupted)
    with pytest.raises(KeyboardInterrupt), use_attention(model, "effective"):
        model(**batch())
    assert not torch.overrides._get_current_function_mode_stack()
    test_a_softmax_whose_use_cannot_be_followed()  # is still refused


@pytest.mark.parametrize("least", [-1e4, -65504.0, -1e9, torch.finfo(torch.float32).min, -float("inf")])
@pytest.mark.parametrize("kind", ["kernel", "layer"])
def test_a_mask_of_large_numbers_hides(kind: str, least: float) -> None:
    """However large: what is hidden has no effective attention, and the split is that of what is seen."""

    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        mask = torch.zeros(real.shape).masked_fill(~real, least)
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(50, WIDTH)
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            states = self.embedding(input_ids)
            mask = torch.zeros(attention_mask.shape).masked_fill(attention_mask == 0, least)
            return self.attention(states, states, states, key_padding_mask=mask)[0]

    inputs = batch()
    for layer in trace(HomeMade(attend) if kind == "kernel" else Layer().eval(), inputs).layers:
        effective = layer.part("effective")[1]  # of 13 tokens
        assert not effective[..., 13:].any()
        alone = decompose(layer.attention[1:, :, :13, :13], layer.value[1:, :, :13])
        torch.testing.assert_close(effective[:, :13, :13], alone.effective[0], atol=1e-6, rtol=0)
        assert torch.equal(layer.rank[1:], alone.rank)


def test_an_attention_of_five_axes_beside_another() -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        wide = scores(query, key, real)[:, :, None].softmax(-1) @ value[:, :, None]
        return by_matmul(query, key, value, real) + wide[:, :, 0]

    with pytest.raises(ValueError, match="a softmax in HomeMade is not followed by a product with values"):
        trace(HomeMade(attend), batch())


def test_keys_that_are_hidden_after_the_softmax() -> None:
    for layer in trace(HomeMade(hidden_afterwards), batch()).layers:
        assert layer.visible is not None
        assert not layer.part("effective")[1, ..., 13:].any()


def test_a_batch_that_is_attended_text_by_text() -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        return torch.cat([by_matmul(*(part[i : i + 1] for part in (query, key, value, real))) for i in range(2)])

    with pytest.raises(ValueError, match="HomeMade: of a batch of 2 texts, attention was met in 1 at a time"):
        trace(HomeMade(attend), batch())


def test_a_module_that_is_compiled_is_refused() -> None:
    model = nn.Sequential(torch.compile(HomeMade(by_matmul), backend="eager"))
    with pytest.raises(ValueError, match=r"holds a module that torch\.compile has wrapped, .* its _orig_mod"):
        trace(model, batch())


def test_a_causal_hint_without_a_mask() -> None:
    layer = nn.MultiheadAttention(WIDTH, HEADS)
    tokens = torch.randn(5, 2, WIDTH)
    with use_attention(layer, "standard"), pytest.raises(ValueError, match="beside is_causal=True"):
        layer(tokens, tokens, tokens, is_causal=True)


def test_a_kernel_with_more_axes() -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, real: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query[None], key[None], value[None])[0]

    with pytest.raises(ValueError, match="tensors of 5 axes"):
        trace(HomeMade(attend), batch())


def test_a_model_without_attention() -> None:
    model = nn.Linear(3, 3)
    with pytest.raises(ValueError, match="Linear: no attention was met while it ran"), use_attention(model, "standard"):
        model(torch.randn(2, 3))


SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


@pytest.mark.parametrize(
    ("model_class", "config", "reason"),
    [
        (hf.NystromformerModel, hf.NystromformerConfig(**SIZES), "approximates attention by landmarks"),
        (hf.LongformerModel, hf.LongformerConfig(**SIZES, attention_window=4), "overlapping chunks"),
    ],
)
def test_a_model_without_an_attention_matrix(model_class: Any, config: Any, reason: str) -> None:
    model = model_class(config)
    with pytest.raises(ValueError, match=rf"has no attention matrix to split: .*{reason}"):
        trace(model, batch())


def test_a_model_of_which_not_every_layer_is_met() -> None:
    """Talking heads mix the weights of several heads after the softmax: nobody's attention matrix."""
    config = hf.DebertaConfig(**SIZES, talking_head=True, relative_attention=False, position_biased_input=True)
    model = hf.DebertaModel(config).eval()
    model.encoder.layer[0].attention.self.head_weights_proj = None
    with pytest.raises(ValueError, match=r"DebertaModel has 2 layers of attention, and 1 were met"):
        trace(model, batch())


def test_weights_and_gradients_together_are_refused() -> None:
    torch.manual_seed(0)
    model = hf.MPNetModel(hf.MPNetConfig(**SIZES, max_position_embeddings=64)).eval()
    with (
        pytest.raises(ValueError, match=r"only return other attention weights than its own without autograd"),
        use_attention(model, "effective"),
    ):
        model(**batch(), output_attentions=True)
    with use_attention(model, "effective"):
        model(**batch()).last_hidden_state.sum().backward()
