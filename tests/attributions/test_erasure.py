"""Comprehensiveness and sufficiency against a loop in plain Python."""

import math

import pytest
import torch

from effective_attention.attributions.erasure import SHARES, erasure, top

UNK = 3


def random_scores(case, methods=3):
    return torch.randn(methods, *case.trace.mask.shape, generator=torch.Generator().manual_seed(3))


@torch.no_grad()
def answer(case, row, places, blanks=()):
    inputs = {name: value[row, places][None].clone() for name, value in case.trace.inputs.items()}
    for place in blanks:
        inputs["input_ids"][0, places.index(place)] = UNK
    return float(case.model(**inputs).logits.double().softmax(-1)[0, int(case.request.target[row])])


def naive(case, scores, shares, how):
    """Return (comprehensiveness, sufficiency) of one method, text by text."""
    both = []
    for row in range(len(scores)):
        real, words = (mask[row].nonzero()[:, 0].tolist() for mask in (case.trace.mask, case.words))
        order = sorted(words, key=lambda place: (-float(scores[row, place]), place))
        before = answer(case, row, real)
        losses = []
        for share in shares:
            first = order[: max(1, math.ceil(round(share * len(words), 6)))]
            rest = [place for place in words if place not in first]
            pair = []
            for gone in (first, rest):
                if how == "blank":
                    pair.append(before - answer(case, row, real, gone))
                else:
                    pair.append(before - answer(case, row, [place for place in real if place not in gone] or real))
            losses.append(pair)
        both.append(torch.tensor(losses, dtype=torch.float64).mean(dim=0))
    return torch.stack(both).unbind(dim=-1)


@pytest.mark.parametrize("how", ["delete", "blank"])
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "gpt2", "llama"])
def test_equal_to_the_loop(make_case, family, how):
    case = make_case(family, (14, 9, 4), classes=3)
    scores = random_scores(case)
    found = erasure(case.request, scores, case.special, how=how, unk_id=UNK)
    assert found.comprehensiveness.shape == found.sufficiency.shape == (3, 3)
    for method in range(3):
        comprehensiveness, sufficiency = naive(case, scores[method], SHARES, how)
        torch.testing.assert_close(found.comprehensiveness[method], comprehensiveness, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(found.sufficiency[method], sufficiency, rtol=1e-3, atol=1e-5)
    assert float(found.comprehensiveness.abs().max()) > 1e-2


def test_everything_at_the_top(make_case):
    """Check all words removed (only special tokens are left) and all words kept (the text itself, exactly no loss)."""
    case = make_case("bert")
    found = erasure(case.request, random_scores(case, 1), case.special, shares=[1.0])
    assert not found.sufficiency.any()
    for row in range(3):
        real = case.trace.mask[row].nonzero()[:, 0].tolist()
        expected = answer(case, row, real) - answer(case, row, [real[0], real[-1]])
        assert float(found.comprehensiveness[0, row]) == pytest.approx(expected, abs=1e-5)


def test_equal_explanations_cost_no_more(make_case):
    case = make_case("bert")
    scores = random_scores(case, 1)
    with case.runs() as one:
        expected = erasure(case.request, scores, case.special)
    with case.runs() as many:
        found = erasure(case.request, torch.cat([scores, 2 * scores, scores + 5]), case.special)
    assert sum(len(run["input_ids"]) for run in many) == sum(len(run["input_ids"]) for run in one)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs.expand(3, -1))


def test_sizes_round_up_and_ties_go_by_position():
    words = torch.ones(1, 100, dtype=torch.bool)
    sizes = top(torch.randn(1, 1, 100), words, [0.001, 0.07, 0.29, 0.5, 1.0]).sum(dim=-1).flatten()
    assert sizes.tolist() == [1, 7, 29, 50, 100]
    words[0, 0] = False
    tied = top(torch.zeros(1, 1, 100), words, [0.02])
    assert tied.nonzero()[:, -1].tolist() == [1, 2]


def test_bad_calls_are_refused(make_case):
    case = make_case("bert")
    scores = random_scores(case)
    for shares in ([], [0.0], [1.2]):
        with pytest.raises(ValueError, match="shares must be above 0 and at most 1"):
            erasure(case.request, scores, case.special, shares=shares)
    with pytest.raises(ValueError, match="how must be one of delete, blank, got 'mask'"):
        erasure(case.request, scores, case.special, how="mask")
    with pytest.raises(ValueError, match="needs unk_id"):
        erasure(case.request, scores, case.special, how="blank")
    with pytest.raises(ValueError, match="scores must be \\(method, batch, key\\)"):
        erasure(case.request, scores[0], case.special)
    scores[0, 0, 0] = torch.nan  # special: not ranked
    erasure(case.request, scores, case.special)
    scores[0, 0, 1] = torch.nan
    with pytest.raises(ValueError, match="scores must be finite"):
        erasure(case.request, scores, case.special)
