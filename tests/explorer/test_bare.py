"""``explore`` of bare tensors: attention of any model, with or without its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from effective_attention import decompose, explore
from helpers.explorer_page import header_of, numbers_of

QUERIES = ["a", "b", "c"]
KEYS = [f"patch {number}" for number in range(7)]
RANDOM = np.random.default_rng(0)
WIDE = RANDOM.dirichlet([0.4] * 7, size=(2, 4, 3))  # (layer, head, query, key)
SQUARE = RANDOM.dirichlet([0.4] * 7, size=(2, 4, 7))
VALUE = RANDOM.normal(size=(2, 4, 7, 3))


def shown(page: str, part: str, layer: int) -> Any:
    return numbers_of(page, 0, part, layer) / 1e5


@pytest.mark.parametrize("kind", ["torch", "numpy", "list", "as transformers returns them"])
def test_the_page_holds_the_tensors(kind: str) -> None:
    given: Any = {
        "torch": torch.tensor(WIDE),
        "numpy": WIDE,
        "list": list(WIDE),
        "as transformers returns them": tuple(torch.tensor(layer)[None] for layer in WIDE),
    }[kind]
    page = explore(attention=given, value=list(VALUE), tokens=QUERIES, key_tokens=KEYS, name="mine").html
    header = header_of(page)
    side = header["sides"][0]
    assert (header["title"], side["model"], side["texts"]) == ("Attention of mine", "mine", [])
    assert (side["tokens"], side["keys"]["tokens"]) == (QUERIES, KEYS)
    expected = decompose(torch.tensor(WIDE), torch.tensor(VALUE))
    for layer in range(2):
        np.testing.assert_allclose(shown(page, "standard", layer), WIDE[layer], atol=1e-5)
        np.testing.assert_allclose(shown(page, "effective", layer), expected.effective[layer], atol=1e-5)
    assert side["ranks"] == [[3] * 4] * 2


def test_keys_are_the_queries_unless_they_have_names_of_their_own() -> None:
    header = header_of(explore(attention=SQUARE, value=VALUE, tokens=KEYS).html)
    assert header["sides"][0]["keys"] is None
    assert header["attentions"] == ["standard", "effective", "null", "affine", "difference"]
    assert header["title"] == "Attention"
    other = [name.upper() for name in KEYS]
    assert (
        header_of(explore(attention=SQUARE, tokens=KEYS, key_tokens=other).html)["sides"][0]["keys"]["tokens"] == other
    )


def test_without_values_there_is_standard_attention_alone() -> None:
    page = explore(attention=SQUARE, tokens=KEYS).html
    assert header_of(page)["attentions"] == ["standard"]
    assert header_of(page)["sides"][0]["ranks"] is None


def test_values_that_heads_share() -> None:
    shared = VALUE[:, :2]
    page = explore(attention=SQUARE, value=shared, tokens=KEYS).html
    expected = decompose(torch.tensor(SQUARE), torch.tensor(shared)).effective
    np.testing.assert_allclose(shown(page, "effective", 1), expected[1], atol=1e-5)


def test_hidden_keys_stay_hidden() -> None:
    causal = np.tril(SQUARE)
    causal /= causal.sum(axis=-1, keepdims=True)
    page = explore(attention=causal, value=VALUE, tokens=KEYS).html
    mask = torch.ones(7, 7, dtype=torch.bool).tril()
    expected = decompose(torch.tensor(causal), torch.tensor(VALUE), mask).effective
    np.testing.assert_allclose(shown(page, "effective", 0), expected[0], atol=1e-5)
    assert not np.triu(shown(page, "effective", 0), 1).any()
    assert header_of(page)["sides"][0]["causal"]


def test_half_precision_and_gradients() -> None:
    given = torch.tensor(SQUARE, dtype=torch.bfloat16, requires_grad=True)
    page = explore(attention=given, value=torch.tensor(VALUE, dtype=torch.bfloat16), tokens=KEYS).html
    np.testing.assert_allclose(shown(page, "standard", 0), given[0].detach().double(), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": QUERIES}, r"attention must be a tensor \(layer, head, query, key\), .* got NoneType"),
        ({"attention": WIDE[0], "tokens": QUERIES}, r"got shape \(4, 3, 7\)"),
        ({"attention": [], "tokens": QUERIES}, "a list of one tensor for each layer, got list"),
        ({"attention": "weights", "tokens": QUERIES}, "got str"),
        ({"attention": [[1.0]], "tokens": QUERIES}, "attention must hold tensors or arrays, got list"),
        ({"attention": [WIDE[0, 0]], "tokens": QUERIES}, r"got a layer of shape \(3, 7\)"),
        ({"attention": [WIDE[0], WIDE[1, :2]], "tokens": QUERIES}, r"layers of one shape, got \(2, 3, 7\) and \(4, 3"),
        ({"attention": WIDE * np.nan, "tokens": QUERIES}, "attention must be finite numbers, got NaN or infinite ones"),
        ({"attention": WIDE}, "tokens must be a list of strings, one for each of 3 queries, got NoneType"),
        ({"attention": WIDE, "tokens": "abc"}, "tokens must be a list of strings, .* got str"),
        ({"attention": WIDE, "tokens": KEYS}, "one for each of 3 queries, got 7"),
        (
            {"attention": WIDE, "tokens": [1, 2, 3]},
            r"tokens must be strings, got int; give \[str\(token\) for token in to",
        ),
        ({"attention": WIDE, "tokens": ["a", None, "c"]}, "tokens must be strings, got NoneType"),
        ({"attention": SQUARE, "tokens": KEYS, "key_tokens": list(range(7))}, "key_tokens must be strings, got int"),
        ({"attention": WIDE, "tokens": QUERIES}, "3 queries and 7 keys; add key_tokens"),
        ({"attention": WIDE, "tokens": QUERIES, "key_tokens": QUERIES}, "one for each of 7 keys, got 3"),
        ({"attention": SQUARE, "tokens": KEYS, "value": VALUE[:1]}, "as many layers as attention, 2, got 1"),
        ({"attention": SQUARE, "tokens": KEYS, "value": VALUE[:, :, :5]}, r"with 7 keys, .* shape \(4, 5, 3\)"),
        ({"attention": SQUARE, "tokens": KEYS, "value": VALUE[:, :3]}, r"its heads must divide 4, got .* \(3, 7, 3\)"),
        ({"attention": SQUARE, "tokens": KEYS, "text": "a"}, "a model on a text, or bare tensors; leave out"),
        ({"attention": SQUARE, "tokens": KEYS, "name": ("a", "b")}, "name of bare tensors must be one string"),
        ({"attention": 1000 * SQUARE, "tokens": KEYS}, "values must be below"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        explore(**options)
    assert "\n" not in str(caught.value)


FIELDS = np.zeros(SQUARE.shape, dtype=[("low", float), ("high", float)])
NESTED = (torch.tensor(SQUARE[0]), torch.tensor(SQUARE[1]))


@pytest.mark.parametrize("option", ["attention", "value"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            SQUARE.astype(object),
            r"floating-point numbers, got an array of objects; give \.astype\(float\), or a list of",
        ),
        (FIELDS, "floating-point numbers, got an array of the fields low, high; give one of them"),
        (SQUARE.astype("U9"), r"floating-point numbers, got <U9; give \.astype\(float\)"),
        (SQUARE > 0, r"floating-point numbers, got bool; give \.astype\(float\)"),
        (SQUARE * 1j, r"real numbers, got complex128; give their real part, \.real, or their size"),
        (
            torch.tensor(SQUARE * 1j),
            r"real numbers, got torch\.complex128; give their real part, \.real, or their size",
        ),
        (torch.tensor(SQUARE > 0), r"floats of 16 to 64 bits, got torch\.bool; give \.float\(\)"),
        (torch.tensor(SQUARE).to(torch.float8_e4m3fn), r"got torch\.float8_e4m3fn; give \.float\(\)"),
        (
            torch.tensor(SQUARE).to("meta"),
            "got one on the meta device, which has none; run the model on a CPU or a GPU",
        ),
        (torch.tensor(SQUARE).to_sparse(), r"a dense tensor, got one of layout torch\.sparse_coo; give \.to_dense\(\)"),
        (torch.nested.as_nested_tensor(NESTED, layout=torch.jagged), "a dense tensor, got a nested one; give a list"),
    ],
)
def test_numbers_that_cannot_be_read(given: Any, message: str, option: str) -> None:
    options: dict[str, Any] = {"attention": SQUARE, "tokens": KEYS, option: given}
    with pytest.raises(ValueError, match=f"^{option} must be .*{message}") as caught:
        explore(**options)
    assert "\n" not in str(caught.value)


def test_a_list_of_sparse_layers_is_refused() -> None:
    layers = [torch.tensor(layer).to_sparse() for layer in SQUARE]
    with pytest.raises(ValueError, match="attention must be a dense tensor"):
        explore(attention=layers, tokens=KEYS)


def test_a_weight_that_underflows_counts_as_hidden() -> None:
    """Softmax in float32 is 0 where a score is some 104 below the largest: as if the key were hidden."""
    scores = torch.zeros(2, 4, 7, 7)
    scores[..., 3] = -105
    weights = scores.softmax(dim=-1)
    assert not weights[..., 3].any()
    page = explore(attention=weights, value=VALUE, tokens=KEYS).html
    assert not shown(page, "effective", 0)[..., 3].any()
    assert shown(page, "effective", 0)[..., 2].any()


@pytest.mark.parametrize(
    "change", [np.flip, lambda array: array.astype(">f4"), lambda array: array.astype(np.longdouble)]
)
def test_arrays_that_pytorch_does_not_take(change: Callable[[Any], Any]) -> None:
    array = change(SQUARE)
    page = explore(attention=array, tokens=[str(place) for place in range(array.shape[-1])]).html
    np.testing.assert_allclose(shown(page, "standard", 0), array[0].astype(float), atol=1e-5)
