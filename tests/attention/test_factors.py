"""Effective attention as two thin factors against ``O V^+`` by a float64 SVD, and all that can be asked of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from effective_attention import factorise
from effective_attention.finite import NotFiniteError

BATCH = 2
HEADS = 6


def case(
    keys: int, width: int, *, causal: bool, shared: int = HEADS, hidden: int = 0, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return attention, values (one set for each group of heads), the mask of keys and that of queries by keys."""
    generator = torch.Generator().manual_seed(seed)
    value = torch.randn(BATCH, shared, keys, width, generator=generator)
    mask = torch.ones(BATCH, keys, dtype=torch.bool)
    if hidden:
        mask[1, -hidden:] = False
    visible = mask[:, None, None].expand(-1, 1, keys, -1)
    if causal:
        visible = visible & torch.ones(keys, keys, dtype=torch.bool).tril()
    scores = 2 * torch.randn(BATCH, HEADS, keys, keys, generator=generator)
    return scores.masked_fill(~visible, -torch.inf).softmax(dim=-1), value, mask, visible


def repeated(value: Tensor) -> Tensor:
    return value.repeat_interleave(HEADS // value.shape[1], dim=1)


def by_svd(attention: Tensor, value: Tensor, visible: Tensor) -> Tensor:
    """Return effective attention, query by query."""
    effective = torch.zeros_like(attention, dtype=torch.float64)
    for batch, head, query in torch.cartesian_prod(*map(torch.arange, attention.shape[:3])).tolist():
        own = visible.expand_as(attention)[batch, head, query]
        seen = repeated(value)[batch, head, own].double()
        row = attention[batch, head, query, own].double()
        effective[batch, head, query, own] = row @ seen @ torch.linalg.pinv(seen, rtol=1e-6)
    return effective


@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("shared", [HEADS, 2, 1])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("keys", "width"), [(20, 4), (6, 8), (33, 16)])
def test_against_svd(keys: int, width: int, causal: bool, shared: int, hidden: int) -> None:
    attention, value, mask, visible = case(keys, width, causal=causal, shared=shared, hidden=hidden)
    output = attention @ repeated(value)
    factors = factorise(output, value, mask, causal=causal)
    expected = by_svd(attention, value, visible)
    assert factors.shape == tuple(attention.shape)
    difference = (factors.dense() - expected).abs().amax(dim=-1)
    assert (difference <= factors.error + 2 * torch.finfo(torch.float32).eps).all()
    assert not factors.dense().masked_select(~visible).any()
    torch.testing.assert_close(factors.output, output, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_outputs_in_float64_are_exact(causal: bool) -> None:
    attention, value, mask, visible = case(24, 6, causal=causal, hidden=4)
    output = attention.double() @ value.double()
    factors = factorise(output, value.double(), mask, causal=causal)
    torch.testing.assert_close(factors.dense(), by_svd(attention, value, visible), atol=1e-10, rtol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_says_how_coarse_it_is(causal: bool) -> None:
    attention, value, mask, visible = case(40, 4, causal=causal)
    value = value.bfloat16().float()
    output = (attention @ value).bfloat16()
    factors = factorise(output, value, mask, causal=causal)
    difference = (factors.dense().double() - by_svd(attention, value, visible)).abs().amax(dim=-1)
    assert (difference <= factors.error + 2 * torch.finfo(torch.bfloat16).eps).all()
    assert factors.error.max() > 1e-3


@pytest.mark.parametrize("causal", [False, True])
def test_everything_that_can_be_asked(causal: bool) -> None:
    attention, value, mask, _ = case(19, 4, causal=causal, shared=2, hidden=3)
    factors = factorise(attention @ repeated(value), value, mask, causal=causal)
    dense = factors.dense()
    same: dict[str, Any] = {"atol": 1e-6, "rtol": 0}
    torch.testing.assert_close(factors.rows(3), dense[:, :, 3:4], **same)
    torch.testing.assert_close(factors.rows(slice(2, 9, 3)), dense[:, :, 2:9:3], **same)
    torch.testing.assert_close(factors.rows(torch.tensor([7, 0])), dense[:, :, [7, 0]], **same)
    torch.testing.assert_close(factors.columns(torch.tensor([7, 0])), dense[..., [7, 0]], **same)
    torch.testing.assert_close(factors.columns(0), dense[..., :1], **same)
    torch.testing.assert_close(factors.entry(5, 2), dense[:, :, 5, 2], **same)
    torch.testing.assert_close(factors.row_sums(), dense.sum(dim=-1), **same)
    torch.testing.assert_close(factors.column_means(), dense.mean(dim=2), **same)
    torch.testing.assert_close(factors.squared_norm(), dense.double().square().sum(dim=(-2, -1)), atol=1e-5, rtol=0)
    largest, places = factors.top(3)
    torch.testing.assert_close(largest, dense.topk(3).values, **same)
    torch.testing.assert_close(dense.gather(-1, places), largest, **same)
    assert factors.top(100)[0].shape[-1] == 19
    blocks = list(factors.blocks(4))
    assert [rows.stop - rows.start for rows, _ in blocks] == [4, 4, 4, 4, 3]
    torch.testing.assert_close(torch.cat([block for _, block in blocks], dim=2), dense, **same)


@pytest.mark.parametrize("causal", [False, True])
def test_values_without_full_rank(causal: bool) -> None:
    attention, value, mask, visible = case(20, 6, causal=causal)
    value[..., 4:] = value[..., :2] - value[..., 2:4]
    factors = factorise(attention @ value, value, mask, causal=causal)
    assert factors.rank.unique().tolist() == [4]
    torch.testing.assert_close(factors.dense(), by_svd(attention, value, visible).float(), atol=5e-6, rtol=0)


def test_rows_that_the_recursion_cannot_prove_are_solved_by_svd() -> None:
    attention, value, mask, visible = case(20, 4, causal=True)
    noise = torch.randn(BATCH, HEADS, 20, generator=torch.Generator().manual_seed(0))
    value[..., 3] = value[..., 0] + 6e-6 * noise  # others may come out so small that they count as 0
    output = attention.double() @ value.double()
    factors = factorise(output, value, mask, causal=True)
    assert factors.error.isfinite().all()
    expected = by_svd(attention, value, visible)[:, :, 10:]  # of fewer keys it is not certain what counts as 0
    torch.testing.assert_close(factors.dense()[:, :, 10:], expected, atol=1e-7, rtol=0)
    torch.testing.assert_close(factors.output, output, atol=1e-5, rtol=0)


def test_fewer_queries_than_keys_are_the_last_ones() -> None:
    attention, value, _, _ = case(15, 4, causal=True)
    output = attention @ value
    whole = factorise(output, value, causal=True).dense()
    part = factorise(output[:, :, -4:], value, causal=True)
    torch.testing.assert_close(part.dense(), whole[:, :, -4:], atol=1e-6, rtol=0)


def test_a_query_before_all_that_is_seen_attends_to_nothing() -> None:
    attention, value, mask, _ = case(12, 4, causal=True)
    mask[1, :5] = False
    factors = factorise(attention @ value, value, mask, causal=True)
    assert not factors.dense()[1, :, :5].any()
    assert not factors.error[1, :, :5].any()


def test_what_stands_under_the_mask_does_not_matter() -> None:
    attention, value, mask, _ = case(12, 4, causal=False, hidden=3)
    output = attention @ value
    spoilt = value.clone()
    spoilt[1, :, -3:] = torch.nan
    assert torch.equal(factorise(output, value, mask).dense(), factorise(output, spoilt, mask).dense())


def test_no_graph_is_made() -> None:
    attention, value, _, _ = case(12, 4, causal=False)
    value.requires_grad_()
    for causal in (False, True):
        assert not factorise(attention @ value, value, causal=causal).dense().requires_grad


def test_float64_keeps_what_counts_in_float64() -> None:
    attention, value, _, _ = case(20, 4, causal=True)
    value = value.double()
    value[..., 3] = value[..., 0] + 1e-9 * value[..., 3]
    factors = factorise(attention.double() @ value, value, causal=True)
    assert factors.dense()[:, :, -1].isfinite().all()
    seen = value[0, 0]
    expected = (attention.double() @ value)[0, 0, -1] @ torch.linalg.pinv(seen, rtol=1e-15)
    assert (factors.dense()[0, 0, -1] - expected).abs().max() < 1e-4


def test_places_may_be_numbers_lists_or_tensors() -> None:
    attention, value, _, _ = case(12, 4, causal=False)
    factors = factorise(attention @ value, value)
    expected = factors.dense()[:, :, [3, 1]]
    for places in ([3, 1], (3, 1), torch.tensor([3, 1]), torch.tensor([3, 1], dtype=torch.uint8)):
        torch.testing.assert_close(factors.rows(places), expected)
    assert factors.rows([]).shape == (BATCH, HEADS, 0, 12)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda f: f.rows(1.5), "one number, a row of them or a slice, got 1.5"),
        (lambda f: f.rows(True), "one number, a row of them or a slice, got True"),
        (lambda f: f.columns(torch.zeros(2, 2, dtype=torch.long)), "one number, a row of them"),
        (lambda f: f.top(0), "count must be at least 1, got 0"),
        (lambda f: list(f.blocks(-1)), "size must be at least 1, got -1"),
    ],
)
@pytest.mark.usefixtures("_without_shape_checks")
def test_questions_that_make_no_sense(call: Any, match: str) -> None:
    attention, value, _, _ = case(12, 4, causal=False)
    with pytest.raises(ValueError, match=match):
        call(factorise(attention @ value, value))


OUTPUT, VALUE = torch.zeros(2, 3, 4, 5), torch.ones(2, 3, 6, 5)


@pytest.mark.parametrize(
    ("error", "match", "args", "options"),
    [
        (ValueError, r"4 axes .* got \(3, 4, 5\)", (OUTPUT[0], VALUE), {}),
        (ValueError, "disagree in batch or head; .*transpose", (OUTPUT.transpose(1, 2), VALUE), {}),
        (ValueError, "disagree in batch", (OUTPUT[:1], VALUE), {}),
        (ValueError, r"output \(2, 3, 4, 4\) .* disagree in d_head", (OUTPUT[..., :4], VALUE), {}),
        (TypeError, "floating point, got torch.float32 and torch.int64", (OUTPUT, VALUE.long()), {}),
        (ValueError, r"mask must have .* = \(2, 6\), got \(2, 4\)", (OUTPUT, VALUE, torch.ones(2, 4)), {}),
        (ValueError, "0 and 1 only", (OUTPUT, VALUE, torch.full((2, 6), -1e9)), {}),
        (ValueError, "no more queries than keys, got 6 and 4", (VALUE, OUTPUT), {"causal": True}),
        (TypeError, "must be tensors, got ndarray and Tensor", (OUTPUT.numpy(), VALUE), {}),
        (TypeError, "mask must be a tensor, got bool", (OUTPUT, VALUE, True), {}),
        (ValueError, "must not be empty", (OUTPUT[:0], VALUE[:0]), {}),
        (NotFiniteError, "output holds NaN", (OUTPUT * torch.nan, VALUE), {}),
        (NotFiniteError, "value holds NaN", (OUTPUT, VALUE * torch.nan), {}),
    ],
)
@pytest.mark.usefixtures("_without_shape_checks")
def test_refused(error: type[Exception], match: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    with pytest.raises(error, match=match):
        factorise(*args, **options)


@pytest.mark.parametrize("call", [lambda f: f.rows(12), lambda f: f.columns(-1), lambda f: f.entry(0, 12)])
def test_places_that_are_not_there(call: Any) -> None:
    attention, value, _, _ = case(12, 4, causal=False)
    with pytest.raises(ValueError, match="must be from 0 to 11, got"):
        call(factorise(attention @ value, value))
