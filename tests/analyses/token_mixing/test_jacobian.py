"""Norms of Jacobian blocks against autograd, and what the estimate promises."""

import pytest
import torch

from effective_attention.analyses.token_mixing import jacobian
from effective_attention.analyses.token_mixing.first_layer import from_first_layer
from effective_attention.analyses.token_mixing.jacobian import contributions, estimate, random_directions, squared_norms
from effective_attention.attention.trace import one_text, trace

WIDTH = 16


def autograd_norms(seen, row, embeddings="normalised"):
    """The whole Jacobian in reverse mode, then the norm of each block, (layer, query, key)."""
    with from_first_layer(seen.model, one_text(seen, row), embeddings=embeddings) as (run, x):
        whole = torch.autograd.functional.jacobian(
            lambda y: torch.stack(run(y)), x
        )  # (layer, 1, query, width, 1, key, width)
    return whole[:, 0, :, :, 0].square().sum(dim=(2, 4)).sqrt()


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize("embeddings", ["normalised", "summed"])
def test_exact_norms_are_those_of_autograd(each_trace, row, embeddings):
    found = contributions(each_trace, row, embeddings=embeddings)
    expected = autograd_norms(each_trace, row, embeddings)
    torch.testing.assert_close(found.norms, expected, rtol=1e-5, atol=1e-6 * float(expected.max()))
    torch.testing.assert_close(found.shares, expected / expected.sum(dim=-1, keepdim=True), rtol=1e-5, atol=1e-6)
    assert not found.errors.any()


def test_sums_contribute_through_their_layer_norm(make_trace):
    """The chain rule by hand: each block times the derivative of its own token's LayerNorm."""
    seen = make_trace()
    norm = seen.model.base_model.embeddings.LayerNorm
    with from_first_layer(seen.model, one_text(seen, 0)) as (run, x):
        whole = torch.autograd.functional.jacobian(lambda y: torch.stack(run(y)), x)[:, 0, :, :, 0]
    with from_first_layer(seen.model, one_text(seen, 0), embeddings="summed") as (_, sums):
        inner = torch.stack([torch.autograd.functional.jacobian(norm, one) for one in sums[0]])  # (key, width, width)
    expected = torch.einsum("lqdkw,kwv->lqdkv", whole, inner).square().sum(dim=(2, 4)).sqrt()
    torch.testing.assert_close(contributions(seen, embeddings="summed").norms, expected)
    assert (contributions(seen).shares - expected / expected.sum(-1, keepdim=True)).abs().max() > 1e-3


def test_sums_that_are_narrower_than_the_states_are_exact_with_fewer_directions(make_trace):
    """ELECTRA's embeddings have 8 numbers here, its states 16."""
    seen = make_trace("electra")
    exact = contributions(seen, embeddings="summed")
    for directions in (8, 12, WIDTH):
        torch.testing.assert_close(contributions(seen, directions=directions, embeddings="summed").norms, exact.norms)
    assert bool((contributions(seen, directions=7, embeddings="summed").errors > 0).any())


def test_all_directions_are_exact(each_trace):
    exact, estimated = contributions(each_trace), contributions(each_trace, directions=WIDTH, seed=5)
    torch.testing.assert_close(estimated.norms, exact.norms, rtol=1e-5, atol=1e-6 * float(exact.norms.max()))
    assert not estimated.errors.any()


@pytest.mark.parametrize("directions", [None, 3])
def test_shares_sum_to_one_and_chunks_do_not_matter(make_trace, monkeypatch, directions):
    whole = contributions(make_trace(), 1, directions=directions)
    torch.testing.assert_close(whole.shares.sum(dim=-1), torch.ones_like(whole.shares[..., 0]))
    assert bool((whole.shares >= 0).all())
    monkeypatch.setattr(jacobian, "_CHUNK", 7 * 5 * WIDTH)  # seven tangents: no divisor of anything here
    torch.testing.assert_close(contributions(make_trace(), 1, directions=directions).shares, whole.shares)


def test_neither_companions_nor_padding_nor_order_matter(each_trace):
    inputs = {name: torch.nn.functional.pad(value.flip(0), (0, 3)) for name, value in each_trace.inputs.items()}
    if "attention_mask" not in inputs:
        raise AssertionError("without a mask this would test nothing")
    other = trace(each_trace.model, inputs)
    for row in range(3):
        one, same = contributions(each_trace, row, directions=4), contributions(other, 2 - row, directions=4)
        assert one.shares.shape[1:] == (int(each_trace.lengths[row]),) * 2
        assert torch.equal(one.shares, same.shares)
        assert torch.equal(one.errors, same.errors)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("directions", [None, 3])
def test_a_causal_model_takes_nothing_from_the_right(make_trace, family, directions):
    found = contributions(make_trace(family), directions=directions)
    right = torch.ones(7, 7).triu(1).bool()
    assert not found.shares[:, right].any()
    assert not found.errors[:, right].any()
    assert bool((found.shares[:, ~right] > 0).all())
    assert bool(found.shares.isfinite().all() and found.errors.isfinite().all())


def test_a_text_of_one_token_is_its_own(make_trace):
    model = make_trace().model
    seen = trace(model, {"input_ids": torch.tensor([[5]])})
    assert contributions(seen).shares.tolist() == [[[1.0]], [[1.0]]]
    assert contributions(seen, directions=3).errors.abs().max() < 1e-12


# --- the estimate ---


@pytest.fixture(scope="module")
def grams(make_trace):
    """The Gram matrices of all blocks, (layer, query, key, width, width): they tell the norm along any direction."""
    seen = make_trace()
    with from_first_layer(seen.model, one_text(seen, 0)) as (run, x):
        whole = torch.autograd.functional.jacobian(lambda y: torch.stack(run(y)), x)
    whole = whole[:, 0, :, :, 0]  # (layer, query, d, key, width)
    return torch.einsum("lqdkw,lqdkv->lqkwv", whole, whole)


def along(gram, directions):
    """Squared norms along some directions, from the Gram matrices."""
    return torch.einsum("lqkwv,sw,sv->lqks", gram, directions, directions)


def test_samples_are_squared_norms_along_directions(make_trace, grams):
    seen, chosen = make_trace(), random_directions(WIDTH, 5, seed=1)
    with torch.no_grad(), from_first_layer(seen.model, one_text(seen, 0)) as (run, x):
        torch.testing.assert_close(squared_norms(run, x, chosen, keep=True), along(grams, chosen))
        torch.testing.assert_close(squared_norms(run, x, chosen)[..., 0], along(grams, chosen).sum(dim=-1))


def test_directions_are_orthonormal_and_seeded():
    one = random_directions(WIDTH, 5, seed=1)
    torch.testing.assert_close(one @ one.T, torch.eye(5, dtype=torch.float64))
    assert torch.equal(one, random_directions(WIDTH, 5, seed=1))
    assert not torch.equal(one, random_directions(WIDTH, 5, seed=2))


@pytest.mark.parametrize("count", [1, 0, WIDTH + 1])
def test_a_number_of_directions_that_cannot_be(make_trace, count):
    with pytest.raises(ValueError, match=f"from 2 to the width of the hidden states, 16, got {count}"):
        contributions(make_trace(), directions=count)


@pytest.mark.parametrize("count", [2, 6])
def test_the_squared_norm_is_unbiased_and_its_stated_variance_true(grams, count):
    """Over many seeds; 5 standard errors of the mean, and the variance of a block within 20 %."""
    truth = torch.einsum("lqkww->lqk", grams)
    tries = torch.stack(
        [along(grams, random_directions(WIDTH, count, seed)) for seed in range(800)]
    )  # (try, l, q, k, sample)
    found = WIDTH * tries.mean(dim=-1)
    noise = found.std(dim=0) / len(found) ** 0.5
    assert float(((found.mean(dim=0) - truth) / noise).abs().max()) < 5
    stated = WIDTH**2 * tries.var(dim=-1).mean(dim=0) * (1 - count / WIDTH) / count
    assert float((stated / found.var(dim=0)).mean()) == pytest.approx(1, abs=0.1)


def test_the_stated_error_of_shares_is_of_the_true_size(grams):
    exact = torch.einsum("lqkww->lqk", grams).sqrt()
    exact = exact / exact.sum(dim=-1, keepdim=True)
    made = [estimate(along(grams, random_directions(WIDTH, 8, seed)), WIDTH) for seed in range(300)]
    true = torch.stack([one.shares - exact for one in made]).square().mean(dim=0).sqrt()
    stated = torch.stack([one.errors for one in made]).square().mean(dim=0).sqrt()
    assert float((stated / true).mean()) == pytest.approx(1, abs=0.15)
    assert float((stated / true).min()) > 0.6
    assert float((stated / true).max()) < 1.6


def test_the_global_random_state_is_left_alone(make_trace):
    state = torch.get_rng_state()
    contributions(make_trace(), 2, directions=3)
    assert torch.equal(torch.get_rng_state(), state)


def test_inference_mode_and_weights_that_learn(make_trace):
    known = make_trace()
    expected = contributions(known, 1, directions=3)
    with torch.inference_mode():
        inside = contributions(
            trace(known.model, {name: value.clone() for name, value in known.inputs.items()}), 1, directions=3
        )
    assert torch.equal(inside.shares, expected.shares)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in known.model.parameters())
