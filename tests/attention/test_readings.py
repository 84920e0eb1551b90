"""Readings of effective attention: affine space and a tolerance, against plain formulas and what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from effective_attention import decompose, use_attention
from effective_attention.attention import long_weights
from effective_attention.attention.polytope import intervals
from effective_attention.attention.readings import Reading, as_reading, with_ones
from effective_attention.attention.trace import trace


def random_head(query: int, key: int, width: int, *, heads: int = 2, shared: int | None = None, seed: int = 0) -> Any:
    """Return attention of float64 and values, for a batch of two."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, heads, query, key, generator=generator, dtype=torch.float64)
    value = torch.randn(2, shared or heads, key, width, generator=generator, dtype=torch.float64)
    return 2 * scores, value


def masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores.softmax(-1) if mask is None else scores.masked_fill(~mask, -torch.inf).softmax(-1)


def projected(attention: Tensor, columns: Tensor, visible: Tensor) -> Tensor:
    """Project every row on the column space of its own keys, one after the other, by NumPy's pseudo-inverse."""
    found = torch.zeros_like(attention)
    groups = attention.shape[1] // columns.shape[1]
    for b, h, q in np.ndindex(*attention.shape[:3]):
        keys = visible.expand(attention.shape)[b, h, q].nonzero()[:, 0]
        own = columns[b, h // groups, keys].numpy()
        found[b, h, q, keys] = torch.from_numpy(attention[b, h, q, keys].numpy() @ own @ np.linalg.pinv(own))
    return found


MASKS = {
    "everything": None,
    "padding": (torch.arange(14) < torch.tensor([[14], [9]]))[:, None, None],
    "causal": torch.ones(14, 14, dtype=torch.bool).tril()[None, None],
    "window": (torch.ones(14, 14, dtype=torch.bool).tril() & torch.ones(14, 14, dtype=torch.bool).triu(-7))[None, None],
    "padding on the left, causal": torch.ones(14, 14, dtype=torch.bool).tril()
    & (torch.arange(14) >= torch.tensor([[0], [4]]))[:, None, None]
    | torch.eye(14, dtype=torch.bool),
    "holes": (torch.arange(14) % 3 != 1)[None, None, None] | torch.eye(14, dtype=torch.bool),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shared", [1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_affine_space_is_that_of_values_and_ones(mask: str, shared: int, dtype: torch.dtype) -> None:
    scores, value = random_head(14, 14, 4, heads=4, shared=shared)
    attention = masked(scores, MASKS[mask])
    given_mask = None if MASKS[mask] is None else MASKS[mask].expand(2, -1, -1, -1)
    parts = decompose(attention.to(dtype), value.to(dtype), given_mask, space="affine")
    visible = torch.ones(14, 14, dtype=torch.bool) if given_mask is None else given_mask
    ones = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
    expected = projected(attention, ones, visible)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(parts.effective.double(), expected, atol=tolerance, rtol=0)
    torch.testing.assert_close(parts.effective.sum(-1), torch.ones(2, 4, 14, dtype=dtype), atol=tolerance, rtol=0)
    assert bool((parts.effective[~visible.expand(attention.shape)] == 0).all())
    assert parts.value.shape[-1] == 4, "the values handed out are the model's own"
    torch.testing.assert_close(parts.effective @ parts.value, parts.attention @ parts.value, atol=3e-6, rtol=0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**6))
def test_properties_of_affine_space(query: int, key: int, width: int, seed: int) -> None:
    scores, value = random_head(query, key, width, seed=seed)
    value = value.round(decimals=seed % 3)  # some of them with rows that are the same, or 0
    attention = scores.softmax(-1)
    parts = decompose(attention, value, space="affine")
    inner = decompose(attention, value)
    torch.testing.assert_close(parts.effective.sum(-1), attention.sum(-1), atol=1e-9, rtol=0)
    torch.testing.assert_close(parts.effective @ value, attention @ value, atol=1e-9, rtol=0)
    again = decompose(parts.effective, value, space="affine").effective
    torch.testing.assert_close(again, parts.effective, atol=1e-9, rtol=0)
    assert bool((parts.rank >= inner.rank).all())
    assert bool((parts.rank <= inner.rank + 1).all())
    assert bool((parts.effective.norm(dim=-1) >= inner.effective.norm(dim=-1) - 1e-9).all()), "a larger space"
    assert bool((parts.effective.norm(dim=-1) <= attention.norm(dim=-1) + 1e-9).all())


def test_both_spaces_are_one_where_the_values_span_the_ones() -> None:
    scores, value = random_head(9, 12, 5)
    value = torch.cat([value[..., :4], 3 - value[..., :4].sum(-1, keepdim=True)], dim=-1)  # rows add up to 3
    attention = scores.softmax(-1)
    affine = decompose(attention, value, space="affine")
    exact = decompose(attention, value)
    torch.testing.assert_close(affine.effective, exact.effective, atol=1e-10, rtol=0)
    assert torch.equal(affine.rank, exact.rank)


@pytest.mark.parametrize("keys", [4, 5])
def test_few_keys_are_all_effective_in_affine_space(keys: int) -> None:
    scores, value = random_head(6, keys, 4)
    attention = scores.softmax(-1).float()
    assert torch.equal(decompose(attention, value.float(), space="affine").effective, attention)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_size_of_values_does_not_matter(size: float) -> None:
    scores, value = random_head(9, 14, 4)
    attention = scores.softmax(-1).float()
    expected = decompose(attention, value.float(), space="affine").effective
    torch.testing.assert_close(
        decompose(attention, (size * value).float(), space="affine").effective, expected, atol=2e-6, rtol=0
    )
    assert decompose(attention, 0 * value.float(), space="affine").effective.allclose(torch.tensor(1 / 14))


def test_ones_are_as_large_as_the_values_that_are_seen() -> None:
    value = torch.tensor([[[[3.0, 4.0], [0.0, 5.0], [100.0, 0.0]]]])
    seen = torch.tensor([[[True, True, False]]])
    assert with_ones(value, seen)[0, 0, :, 2].tolist() == pytest.approx([12.5**0.5] * 3)
    assert with_ones(0 * value)[0, 0, :, 2].tolist() == [1.0] * 3


def test_gradients_in_affine_space() -> None:
    scores, value = random_head(5, 11, 3, heads=1)
    attention = scores.softmax(-1)

    def effective(a: Tensor, v: Tensor) -> Tensor:
        return decompose(a, v, space="affine").effective

    assert torch.autograd.gradcheck(effective, (attention.requires_grad_(), value.requires_grad_()), eps=1e-6)


# --- a model that runs with it ---

SIZES: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
MODELS: dict[str, Any] = {
    "both ways": lambda: hf.BertModel(hf.BertConfig(vocab_size=99, hidden_size=32, **SIZES)),
    "causal, grouped": lambda: hf.LlamaModel(
        hf.LlamaConfig(vocab_size=99, hidden_size=32, num_key_value_heads=2, pad_token_id=0, **SIZES)
    ),
    "watched": lambda: hf.MPNetModel(hf.MPNetConfig(vocab_size=99, hidden_size=32, **SIZES)),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> hf.PreTrainedModel:
    torch.manual_seed(0)
    built: hf.PreTrainedModel = MODELS[request.param]().eval()
    with torch.no_grad():  # the usual 0.02 makes nearly uniform attention
        for parameter in built.parameters():
            parameter.mul_(5 if parameter.ndim > 1 else 1)
    return built


def batch(length: int) -> dict[str, Tensor]:
    ids = torch.randint(5, 99, (2, length), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(length) < torch.tensor([[length], [length - 9]])).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


@torch.no_grad()
@pytest.mark.parametrize("length", [20, 64])  # the second is long enough for the fast kernel
def test_a_model_answers_the_same_in_affine_space(model: hf.PreTrainedModel, length: int) -> None:
    inputs = batch(length)
    real = inputs["attention_mask"].bool()
    with use_attention(model, "standard"):
        expected = model(**inputs)
    with use_attention(model, "affine") as record:
        got = model(**inputs, output_attentions=True)
    torch.testing.assert_close(got[0][real], expected[0][real], atol=2e-5, rtol=1e-4)
    assert record.nontrivial > 0
    for layer, weights in zip(trace(model, inputs).layers, got.attentions, strict=True):
        of_real = weights.transpose(1, 2)[real]
        torch.testing.assert_close(of_real.sum(-1), torch.ones_like(of_real[..., 0]), atol=2e-6, rtol=0)
        torch.testing.assert_close(of_real, layer.part("affine").transpose(1, 2)[real], atol=2e-6, rtol=0)
    changed = use_attention(model, "affine")
    with changed:  # nobody asks for weights
        torch.testing.assert_close(model(**inputs)[0][real], expected[0][real], atol=2e-5, rtol=1e-4)


def test_derivatives_are_the_models_own(model: hf.PreTrainedModel) -> None:
    inputs = batch(40)
    weights = torch.randn(32, generator=torch.Generator().manual_seed(2))
    found: list[list[Tensor]] = []
    for kind in ("standard", "affine"):
        model.zero_grad()
        with use_attention(model, kind):
            ((model(**inputs)[0] @ weights) * inputs["attention_mask"]).square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    largest = max(float(gradient.norm()) for gradient in found[0])  # some are 0 but for rounding: biases of keys
    for own, other in zip(*found, strict=True):
        assert float((own - other).norm()) <= 1e-4 * float(own.norm()) + 1e-6 * largest


@torch.no_grad()
def test_writing_with_a_cache_keeps_sums() -> None:
    torch.manual_seed(0)
    config = hf.LlamaConfig(vocab_size=99, hidden_size=32, num_key_value_heads=2, pad_token_id=0, **SIZES)
    model = hf.LlamaForCausalLM(config).eval()
    options: dict[str, Any] = {"max_new_tokens": 20, "do_sample": False, "eos_token_id": None}
    with use_attention(model, "affine") as record:
        written = model.generate(
            batch(30)["input_ids"][:1], **options, output_attentions=True, return_dict_in_generate=True
        )
    assert {stream.beginnings for stream in record.streams.values()} == {1}
    last = written.attentions[-1]
    for layer, row in zip(trace(model, {"input_ids": written.sequences[:, :-1]}).layers, last, strict=True):
        torch.testing.assert_close(row, layer.part("affine")[:, :, -1:], atol=1e-6, rtol=0)
        torch.testing.assert_close(row.sum(-1), torch.ones(1, 4, 1), atol=1e-6, rtol=0)


def test_a_trace_is_read_as_it_was_asked(model: hf.PreTrainedModel) -> None:
    affine = trace(model, batch(20), reading=Reading(space="affine"))
    within = trace(model, batch(20), reading=Reading(epsilon=0.1))
    for one, other, plain in zip(affine.layers, within.layers, trace(model, batch(20)).layers, strict=True):
        assert torch.equal(one.part("effective"), plain.part("affine"))
        torch.testing.assert_close(one.part("null"), one.part("standard") - one.part("affine"))
        expected = decompose(plain.attention, plain.value, plain.visible, epsilon=0.1).effective
        torch.testing.assert_close(other.part("effective"), expected, atol=1e-6, rtol=0)


def test_examples_are_cut_out_of_affine_maps(model: hf.PreTrainedModel) -> None:
    seen = trace(model, batch(20), reading=Reading(space="affine"))
    cut = seen.example(1)
    for whole, part in zip(seen.layers, cut.layers, strict=True):
        for name in ("effective", "affine"):
            assert torch.equal(part.part(name)[0], whole.part(name)[1, :, :11, :11])


@pytest.mark.parametrize("name", ["both ways", "causal, grouped"])
def test_long_texts_are_read_in_affine_space_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    reading = Reading(space="affine")
    whole = trace(model, batch(40), reading=reading)
    monkeypatch.setattr(long_weights, "LARGEST", 0)
    long = trace(model, batch(40), reading=reading)
    real = batch(40)["attention_mask"].bool()
    for one, other in zip(long.layers, whole.layers, strict=True):
        assert one.is_long
        rows = torch.cat([one.rows("effective", queries) for queries in one.blocks()], dim=2)
        expected = other.part("effective")
        torch.testing.assert_close(rows.transpose(1, 2)[real], expected.transpose(1, 2)[real], atol=1e-5, rtol=0)


# --- a tolerance ---


def within(row: np.ndarray, value: np.ndarray, epsilon: float, *, keep_sum: bool) -> np.ndarray:
    """Find the smallest row by bisection over the multiplier of the plain formula."""
    even = np.full(len(row), row.sum() / len(row) if keep_sum else 0.0)
    centred = value - value.mean(axis=0) if keep_sum else value
    output = row @ centred
    allowed = epsilon * np.linalg.norm(row @ value)

    def answer(multiplier: float) -> np.ndarray:
        return output @ np.linalg.inv(centred.T @ centred + multiplier * np.eye(value.shape[1])) @ centred.T

    if np.linalg.norm(output) <= allowed:
        return even
    low, high = -30.0, 30.0  # powers of ten
    for _ in range(200):
        middle = (low + high) / 2
        change = np.linalg.norm(answer(10**middle) @ centred - output)
        low, high = (middle, high) if change < allowed else (low, middle)
    return even + answer(10**low)


@pytest.mark.parametrize("space", ["value", "affine"])
@pytest.mark.parametrize("epsilon", [1e-4, 0.05, 0.6])
@pytest.mark.parametrize("keys", [3, 12])
def test_the_smallest_row_within_a_tolerance(space: Any, epsilon: float, keys: int) -> None:
    scores, value = random_head(4, keys, 5)
    if keys == 3:
        value = value[..., :2]
    attention = scores.softmax(-1)
    found = decompose(attention, value, space=space, epsilon=epsilon).effective
    for b, h, q in np.ndindex(2, 2, 4):
        expected = within(attention[b, h, q].numpy(), value[b, h].numpy(), epsilon, keep_sum=space == "affine")
        np.testing.assert_allclose(found[b, h, q], expected, atol=1e-7)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10), st.integers(1, 5), st.floats(1e-6, 0.99), st.sampled_from(["value", "affine"]),
       st.sampled_from(sorted(MASKS)), st.integers(0, 10**6))  # fmt: skip
def test_no_output_changes_by_more(key: int, width: int, epsilon: float, space: Any, mask: str, seed: int) -> None:
    scores, value = random_head(key, key, width, seed=seed)
    chosen = None if MASKS[mask] is None else MASKS[mask][..., :key, :key] | torch.eye(key, dtype=torch.bool)
    attention = masked(scores, chosen)
    parts = decompose(attention, value, None if chosen is None else chosen.expand(2, -1, -1, -1),
                      space=space, epsilon=epsilon)  # fmt: skip
    before = attention @ value
    change = (parts.effective @ value - before).norm(dim=-1)
    assert bool((change <= epsilon * before.norm(dim=-1) + 1e-12).all())
    exact = decompose(attention, value, None if chosen is None else chosen.expand(2, -1, -1, -1), space=space)
    assert bool((parts.effective.norm(dim=-1) <= exact.effective.norm(dim=-1) + 1e-9).all())
    assert torch.equal(parts.rank, exact.rank)
    if space == "affine":
        torch.testing.assert_close(parts.effective.sum(-1), attention.sum(-1), atol=1e-10, rtol=0)


@pytest.mark.parametrize("space", ["value", "affine"])
def test_the_curve_is_monotone_and_ends_at_the_exact_reading(space: Any) -> None:
    scores, value = random_head(6, 15, 4)
    attention = scores.softmax(-1)
    mask = torch.arange(15) < torch.tensor([[15], [10]])
    attention = masked(scores, mask[:, None, None])
    sizes = [
        decompose(attention, value, mask, space=space, epsilon=epsilon).effective.norm(dim=-1)
        for epsilon in (0.9, 0.5, 0.1, 1e-2, 1e-4, 1e-8)
    ]
    exact = decompose(attention, value, mask, space=space).effective
    for smaller, larger in zip(sizes, [*sizes[1:], exact.norm(dim=-1)], strict=True):
        assert bool((smaller <= larger + 1e-12).all())
    nearly = decompose(attention, value, mask, space=space, epsilon=1e-10).effective
    torch.testing.assert_close(nearly, exact, atol=1e-8, rtol=0)


def test_a_tolerance_sees_something_where_nothing_is_free() -> None:
    scores, value = random_head(6, 6, 8)
    attention = scores.softmax(-1)
    assert torch.equal(decompose(attention, value).effective, attention)
    reduced = decompose(attention, value, epsilon=0.05).effective
    assert float(((attention - reduced).norm(dim=-1) / attention.norm(dim=-1)).min()) > 0.01


# --- a control: a model that is identifiable by construction ---


def test_where_heads_are_wider_than_texts_are_long_nothing_is_free() -> None:
    """Bhardwaj et al. (2021): no null space, affine attention is attention, and every interval is a point."""
    torch.manual_seed(0)
    config = hf.BertConfig(vocab_size=99, hidden_size=96, num_hidden_layers=2, num_attention_heads=4)
    for layer in trace(hf.BertModel(config).eval(), batch(20)).layers:
        assert torch.equal(layer.rank, torch.tensor([[20] * 4, [11] * 4]))
        for name in ("effective", "affine"):
            assert torch.equal(layer.part(name), layer.exact.attention)
        rows = layer.attention[0, 0].double()
        rows = (rows / rows.sum(-1, keepdim=True)).numpy()
        low, high = intervals(rows, layer.value[0, 0].double().numpy(), np.full(rows.shape, True))
        np.testing.assert_array_equal(low, rows)
        np.testing.assert_array_equal(high, rows)


# --- what is no reading ---


@pytest.mark.usefixtures("_without_shape_checks")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"space": "flat"}, r"space must be one of \('value', 'affine'\), got 'flat'"),
        ({"epsilon": 1.0}, "epsilon must be at least 0 and below 1, got 1.0"),
        ({"epsilon": -0.1}, "epsilon must be at least 0"),
        ({"epsilon": float("nan")}, "epsilon must be at least 0"),
        ({"epsilon": True}, "epsilon must be at least 0"),
        ({"reading": "padded", "space": "affine"}, "reading='padded' is the published protocol"),
        ({"reading": "padded", "epsilon": 0.1}, "reading='padded' is the published protocol"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    scores, value = random_head(3, 3, 2)
    with pytest.raises(ValueError, match=message):
        decompose(scores.softmax(-1), value, **options)


def test_names() -> None:
    assert [Reading().name, Reading("padded").name, Reading(space="affine").name] == ["exact", "padded", "affine"]
    assert Reading(epsilon=0.05).name == "exact within 0.05"
    assert as_reading("padded") == Reading("padded")
    assert as_reading(Reading(space="affine")).space == "affine"


class HomeMade(nn.Module):
    """A layer of its own, without a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(12, 36)

    def forward(self, hidden: Tensor) -> Tensor:
        """Attend with three heads of width 4."""
        query, key, value = self.project(hidden).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        return ((query @ key.mT).softmax(-1) @ value).transpose(1, 2).flatten(2)


@torch.no_grad()
def test_a_home_made_layer_in_affine_space() -> None:
    torch.manual_seed(0)
    layer, hidden = HomeMade().eval(), torch.randn(2, 15, 12)
    with use_attention(layer, "affine") as record:
        torch.testing.assert_close(layer(hidden), HomeMade.forward(layer, hidden), atol=1e-5, rtol=0)
    assert record.nontrivial == 6
