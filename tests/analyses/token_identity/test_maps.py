import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity, gelu

from effective_attention.analyses.token_identity.lookup import identify
from effective_attention.analyses.token_identity.maps import (
    Pairs,
    Training,
    apply_map,
    distance_loss,
    initial_weights,
    train_map,
)
from effective_attention.analyses.token_identity.ridge import Gram, best_map, ridge_maps


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def pairs(count, weights, noise=0.0, seed=0):
    source = torch.randn(count, len(weights), generator=generator(seed))
    return Pairs(source, source @ weights + noise * torch.randn(count, weights.shape[1], generator=generator(seed + 1)))


def rotation(width, seed=5):
    return torch.linalg.qr(torch.randn(width, width, generator=generator(seed)))[0]


# --- Adam ---


def test_losses():
    image, target = torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    assert distance_loss(image, target, "l2").item() == pytest.approx((0 + 5) / 2)
    assert distance_loss(image, target, "cosine").item() == pytest.approx((0 + 1) / 2)
    image, target = torch.randn(7, 5, generator=generator()), torch.randn(7, 5, generator=generator(1))
    torch.testing.assert_close(distance_loss(image, target, "cosine"), 1 - cosine_similarity(image, target).mean())


def test_what_a_map_does():
    source = torch.randn(3, 4, generator=generator())
    a, b, c, d = initial_weights("mlp", 4, 2, 6, generator())
    assert apply_map([], source) is source
    torch.testing.assert_close(apply_map([a], source), source @ a)
    torch.testing.assert_close(apply_map([a, b + 1, c, d - 1], source), gelu(source @ a + b + 1) @ c + d - 1)


def test_glorot():
    (weights,) = initial_weights("linear", 60, 90, 1, generator())
    bound = (6 / 150) ** 0.5
    assert 0.98 * bound < weights.abs().max() <= bound
    assert weights.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)


@pytest.mark.parametrize("distance", ["cosine", "l2"])
@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_known_rotation_is_found(kind, distance):
    turn = rotation(8)
    options = Training(learning_rate=0.01, batch_size=32, hidden_size=32, patience=5, max_epochs=40)
    trained = train_map(kind, distance, pairs(600, turn), pairs(100, turn, seed=20), options, generator())
    test = pairs(120, turn, seed=40)
    rate = identify(apply_map(trained.weights, test.source), test.target, np.array([12] * 10), distance)
    assert rate.value == 1.0
    assert identify(test.source, test.target, np.array([12] * 10), distance).value < 0.5


def test_training_stops_when_validation_no_longer_improves_and_keeps_the_best():
    train = pairs(64, torch.eye(4))
    validation = Pairs(train.source, -train.target)  # the better on the one, the worse on the other
    options = Training(learning_rate=0.01, batch_size=16, patience=3, max_epochs=50)
    start = initial_weights("linear", 4, 4, 1, generator())
    trained = train_map("linear", "l2", train, validation, options, generator())
    losses = distance_loss(apply_map(trained.weights, validation.source), validation.target, "l2")
    assert trained.epochs < 50
    assert trained.loss == pytest.approx(losses.item(), rel=1e-5)
    assert trained.loss <= distance_loss(apply_map(start, validation.source), validation.target, "l2").item() + 1e-5
    assert train_map("linear", "l2", train, train, Training(max_epochs=2), generator()).epochs == 2


def test_a_diverging_training_ends_and_keeps_its_start():
    train = pairs(32, torch.eye(3))
    broken = Pairs(train.source, train.target * torch.nan)
    trained = train_map("linear", "l2", broken, broken, Training(patience=2), generator(3))
    assert trained.epochs == 2
    torch.testing.assert_close(trained.weights, initial_weights("linear", 3, 3, 1, generator(3)))


def test_only_the_generator_decides():
    train = pairs(80, rotation(4), noise=0.1)
    options = Training(max_epochs=3, batch_size=16)
    state = torch.get_rng_state()
    one = train_map("mlp", "cosine", train, train, options, generator(1))
    torch.rand(5)
    same = train_map("mlp", "cosine", train, train, options, generator(1))
    other = train_map("mlp", "cosine", train, train, options, generator(2))
    torch.set_rng_state(state)
    train_map("linear", "l2", train, train, options, generator(1))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one.weights, same.weights, strict=True))
    assert not torch.equal(one.weights[0], other.weights[0])


def test_under_no_grad():
    with torch.no_grad():
        trained = train_map("linear", "l2", *[pairs(32, rotation(4))] * 2, Training(max_epochs=2), generator())
    assert not any(weight.requires_grad for weight in trained.weights)


# --- the closed form ---


def test_least_squares():
    data = pairs(200, torch.randn(6, 4, generator=generator(9)), noise=0.5)
    (got,) = ridge_maps(Gram.of(data.source), data.source, data.target, "l2", [0.0])
    torch.testing.assert_close(got, torch.linalg.lstsq(data.source, data.target).solution, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("penalty", [0.1, 2.0])
def test_normal_equations(penalty):
    data = pairs(50, torch.randn(6, 4, generator=generator(9)), noise=0.5)
    source, target = data.source.double(), data.target.double()
    for distance in ("l2", "cosine"):
        aim = target / target.norm(dim=-1, keepdim=True) if distance == "cosine" else target
        gram = source.T @ source
        matrix = gram + penalty * gram.trace() / 6 * torch.eye(6, dtype=torch.float64)
        (got,) = ridge_maps(Gram.of(data.source), data.source, data.target, distance, [penalty])
        torch.testing.assert_close(got, torch.linalg.solve(matrix, source.T @ aim).float(), rtol=1e-4, atol=1e-6)


def test_adam_arrives_where_the_closed_form_is():
    data = pairs(512, torch.randn(6, 6, generator=generator(9)), noise=0.3)
    options = Training(learning_rate=0.02, batch_size=64, patience=10, max_epochs=100)
    trained = train_map("linear", "l2", data, data, options, generator())
    (closed,) = ridge_maps(Gram.of(data.source), data.source, data.target, "l2", [0.0])
    least = distance_loss(data.source @ closed, data.target, "l2").item()
    assert least <= trained.loss <= 1.01 * least


def test_the_penalty_with_the_highest_rate_then_the_larger():
    maps = [torch.tensor(float(number)) for number in range(4)]
    assert best_map(maps, lambda weights: {0: 0.5, 1: 0.7, 2: 0.7, 3: 0.1}[int(weights)]).item() == 2


def test_directions_without_data_do_no_harm():
    source = torch.randn(40, 6, generator=generator()) * torch.tensor([1.0, 1, 1, 1, 1, 0])
    for weights in ridge_maps(Gram.of(source), source, source, "l2"):
        assert weights.isfinite().all()
        assert weights[5].abs().max() < 1e-5
