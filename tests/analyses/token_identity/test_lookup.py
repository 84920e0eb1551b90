import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from effective_attention.analyses.token_identity import lookup
from effective_attention.analyses.token_identity.lookup import identify, nearest

DISTANCES = ("cosine", "l2")


def made(lengths, width=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(int(sum(lengths)), width, generator=generator) for _ in range(2)]


def naive(image, candidates, lengths, distance, offset=0):
    """One token at a time, with scipy's distances."""
    hits, chances, start = [], [], 0
    for length in lengths:
        here, there = (rows[start : start + length].double().numpy() for rows in (image, candidates))
        for i in range(length):
            if 0 <= i + offset < length:
                metric = "cosine" if distance == "cosine" else "euclidean"
                hits.append(int(np.argmin(cdist(here[i : i + 1], there, metric)) == i + offset))
                chances.append(1 / length)
        start += length
    return np.mean(hits), np.mean(chances), len(hits)


def test_by_hand():
    candidates = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]]])
    image = torch.tensor([[[2.0, 1.9], [0.1, 0.4], [0.9, 0.1]]])
    mask = torch.ones(1, 3, dtype=torch.bool)
    assert nearest(image, candidates, mask, "cosine").tolist() == [[2, 1, 0]]
    assert nearest(image, candidates, mask, "l2").tolist() == [[2, 1, 0]]
    assert nearest(image * 0.5, candidates, mask, "l2").tolist() == [[0, 1, 0]]  # length matters to one of them only
    assert nearest(image * 0.5, candidates, mask, "cosine").tolist() == [[2, 1, 0]]


@pytest.mark.parametrize("distance", DISTANCES)
def test_ties_go_to_the_lower_position_and_padding_is_never_found(distance):
    word = torch.randn(1, 1, 33, generator=torch.Generator().manual_seed(0))
    candidates = word.repeat(1, 40, 1)
    mask = torch.arange(40)[None] < 30
    assert nearest(word * 2, candidates, mask, distance).tolist() == [[0]]
    candidates[:, :30] += 1
    assert int(nearest(word, candidates, mask, distance)) < 30


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("offset", [0, 1, -2, 3])
def test_one_at_a_time(distance, offset):
    lengths = np.array([6, 2, 9, 2, 4])
    image, candidates = made(lengths)
    image = candidates + image  # so that some are right
    image = image.roll(-offset, 0)
    rate = identify(image, candidates, lengths, distance, offset)
    value, baseline, tokens = naive(image, candidates, lengths, distance, offset)
    assert 0 < rate.value < 1
    assert rate == pytest.approx((value, baseline, tokens))


@pytest.mark.parametrize("tokens", [1, 7, 20, 10_000])
def test_the_size_of_a_batch_does_not_matter(monkeypatch, tokens):
    lengths = np.array([6, 2, 9, 2, 4, 7])
    image, candidates = made(lengths, seed=1)
    expected = identify(image, candidates, lengths, "l2")
    monkeypatch.setattr(lookup, "_TOKENS", tokens)
    assert identify(image, candidates, lengths, "l2") == pytest.approx(expected)


def test_every_text_is_in_one_batch(monkeypatch):
    monkeypatch.setattr(lookup, "_TOKENS", 10)
    lengths = np.array([2, 3, 5, 5, 40])
    batches = lookup._batches(np.arange(5), lengths)
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3], [4]]


def test_nobody_to_ask():
    rate = identify(*made([2, 2]), np.array([2, 2]), "cosine", offset=3)
    assert np.isnan(rate.value)
    assert rate.tokens == 0
