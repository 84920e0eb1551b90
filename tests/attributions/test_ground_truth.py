"""Measures of ground truth against plain loops over sorted tokens, a case by hand, and properties."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from effective_attention.attributions.ground_truth import MEASURES, TOLERANCES, ground_truth


def naive(scores: list[float], truth: list[bool], ranked: list[bool]) -> dict[str, float]:
    """Sort the tokens, those that do not decide first among equals, and look."""
    tokens = [(score, decides) for score, decides, there in zip(scores, truth, ranked, strict=True) if there]
    order = sorted(tokens, key=lambda token: (-token[0], token[1]))
    rank = 1 + [decides for _, decides in order].index(True)
    mass = sum(max(0.0, score) for score, _ in tokens)
    mine = sum(max(0.0, score) for score, decides in tokens if decides)
    found = {"mrr": 1 / rank, "rma": mine / mass if mass else 0.0, "pta": float(rank == 1)}
    return found | {f"pg_{k}": float(any(decides for _, decides in order[:k])) for k in TOLERANCES}


def measured(scores: list[float], truth: list[bool], ranked: list[bool]) -> dict[str, float]:
    found = ground_truth(torch.tensor([[scores]]), torch.tensor([truth]), torch.tensor([ranked]))
    return {name: value.item() for name, value in found.items()}


TOKENS = st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.booleans()), min_size=1, max_size=9)


@settings(max_examples=100, deadline=None)
@given(TOKENS)
def test_as_the_loop(tokens: list[tuple[int, bool, bool]]) -> None:
    scores, truth, ranked = [float(token[0]) for token in tokens], [t[1] for t in tokens], [t[2] for t in tokens]
    found = measured(scores, truth, ranked)
    assert tuple(found) == MEASURES
    if not any(decides and there for _, decides, there in tokens):
        assert all(value != value for value in found.values()), "NaN: nothing decides"
        return
    assert found == pytest.approx(naive(scores, truth, ranked))
    assert all(0 <= value <= 1 for value in found.values())
    assert found["pta"] <= found["pg_3"] <= found["pg_5"]
    assert found["mrr"] >= found["pta"]


@settings(max_examples=60, deadline=None)
@given(TOKENS, st.floats(0.1, 10))
def test_only_the_proportions_of_scores_matter(tokens: list[tuple[int, bool, bool]], factor: float) -> None:
    scores, truth, ranked = [float(token[0]) for token in tokens], [t[1] for t in tokens], [t[2] for t in tokens]
    one, other = measured(scores, truth, ranked), measured([factor * score for score in scores], truth, ranked)
    assert other == pytest.approx(one, nan_ok=True)


def test_by_hand() -> None:
    """Check two tokens that decide among five: the better one is second, and they have 3 of 8 positive points."""
    scores = [4.0, 2.0, -7.0, 1.0, 1.0]
    truth = [False, True, False, True, False]
    found = measured(scores, truth, [True] * 5)
    assert found == {"mrr": 0.5, "rma": 0.375, "pta": 0.0, "pg_3": 1.0, "pg_5": 1.0}


def test_who_says_the_same_of_all_tokens_points_at_nothing() -> None:
    found = measured([1.0] * 6, [False] * 5 + [True], [True] * 6)
    assert found == pytest.approx({"mrr": 1 / 6, "rma": 1 / 6, "pta": 0, "pg_3": 0, "pg_5": 0})
    assert measured([-1.0, -2.0], [True, False], [True, True])["rma"] == 0, "no mass at all"


def test_padding_and_other_examples_change_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 2, 7, generator=generator)
    truth = torch.rand(3, 7, generator=generator) < 0.4
    ranked = torch.arange(7) < torch.tensor([7, 5, 3])[:, None]
    whole = ground_truth(scores, truth, ranked)
    for row in range(3):
        size = int(ranked[row].sum())
        part = ground_truth(scores[row : row + 1, :, :size], truth[row : row + 1, :size], ranked[row : row + 1, :size])
        for name in MEASURES:
            torch.testing.assert_close(part[name][0], whole[name][row], equal_nan=True)
